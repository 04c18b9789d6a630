/**
 * Makes small mails: one that comes alone is made here, and where several wait a thread makes them in batches. For a single mail the way to
 * the thread and back costs the main loop as much as its signatures do, for a batch of eight a sixth; and libuv's pool is left to the
 * commits.
 */
import type { Clock } from '../../base/clock.ts';
import { createThreads, type Threads } from '../../base/threads.ts';
import type { MailAnswer, MailJob } from './mail-job.ts';

/** Jobs that are done here at a time, as long as no more wait. */
const HERE = 2;
/** A batch takes 5 to 20 ms, and the mails behind it wait as long. */
const MOST_IN_BATCH = 16;
const IDLE_MS = 60_000;
/** The limit of one batch, in ms. */
const BATCH_MS = 60_000;

/** Transactional mail before broadcasts. */
export type Order = 0 | 1;

interface Waiting {
  job: MailJob;
  resolve: (answer: MailAnswer) => void;
  reject: (error: unknown) => void;
}

export class MailBatches {
  private readonly make: (job: MailJob) => Promise<MailAnswer>;
  private readonly threads: Threads<readonly MailJob[], readonly MailAnswer[]>;
  private readonly waiting: readonly [Waiting[], Waiting[]] = [[], []];
  private here = 0;
  private isGathering = false;
  private isThreadBusy = false;

  /** `make` does a job here. */
  constructor(deps: { clock: Clock }, make: (job: MailJob) => Promise<MailAnswer>) {
    this.make = make;
    this.threads = createThreads(deps, {
      entry: new URL('./mail-worker.ts', import.meta.url),
      // More are of no use: the main loop takes longer for a mail than this thread does.
      count: 1,
      mostWaiting: 1,
      idleMs: IDLE_MS,
      jobMs: BATCH_MS,
      maxHeapMb: 128,
      maxYoungMb: 4,
    });
  }

  /** Rejects with a ThreadRefusal where the thread dies, or has to end. */
  run(order: Order, job: MailJob): Promise<MailAnswer> {
    return new Promise((resolve, reject) => {
      this.waiting[order].push({ job, resolve, reject });
      if (this.isGathering) return;
      this.isGathering = true;
      // What comes within the same turn of the loop counts as waiting together.
      setImmediate(() => {
        this.isGathering = false;
        this.next();
      });
    });
  }

  /** Ends the thread. What waits is made here. */
  close(): Promise<void> {
    return this.threads.close();
  }

  private get count(): number {
    return this.waiting[0].length + this.waiting[1].length;
  }

  private next(): void {
    const isMany = this.count > HERE;
    if (isMany) this.threads.start();
    if (isMany && this.threads.loaded > 0) {
      if (!this.isThreadBusy) void this.handOver(this.take(MOST_IN_BATCH));
    } else while (this.here < HERE && this.count > 0) void this.makeHere(this.take(1));
  }

  /** Takes up to `most` that wait, the urgent ones first. */
  private take(most: number): Waiting[] {
    const [urgent, others] = this.waiting;
    const taken = urgent.splice(0, most);
    return [...taken, ...others.splice(0, most - taken.length)];
  }

  private async makeHere(taken: readonly Waiting[]): Promise<void> {
    this.here++;
    await settle(taken, Promise.all(taken.map(({ job }) => this.make(job))));
    this.here--;
    this.next();
  }

  private async handOver(batch: readonly Waiting[]): Promise<void> {
    this.isThreadBusy = true;
    await settle(batch, this.threads.run(batch.map(({ job }) => job)));
    this.isThreadBusy = false;
    this.next();
  }
}

/** Hands each answer to its caller. */
async function settle(batch: readonly Waiting[], answers: Promise<readonly MailAnswer[]>): Promise<void> {
  try {
    const all = await answers;
    for (const [at, { resolve, reject }] of batch.entries()) {
      const answer = all[at];
      if (answer === undefined) reject(new Error('the thread gave fewer answers than it had jobs'));
      else resolve(answer);
    }
  } catch (error) {
    for (const { reject } of batch) reject(error);
  }
}
