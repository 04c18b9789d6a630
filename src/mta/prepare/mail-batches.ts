/**
 * Makes small mails: one that comes alone is made here, and if several wait a thread makes them in batches. For a single mail the way to
 * the thread and back costs the main loop as much as its signatures do, for a batch of eight a sixth; and libuv's pool is left to the
 * commits.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { createThreads, type Threads } from '../../base/threads.ts';
import type { MailAnswer, MailJob } from './mail-job.ts';

/** Jobs that are done here at a time, as long as no more wait. */
const HERE = 2;
/** A batch takes 5 to 20 ms, and the mails behind it wait as long. */
const MOST_IN_BATCH = 16;
const IDLE_MS = 60_000;
/** The limit of one batch, in ms: a hundred times what it takes, and less than what the mails behind it should wait. */
const BATCH_MS = 20_000;

/** Transactional mail before broadcasts. */
export type Order = 0 | 1;

interface Waiting {
  job: MailJob;
  resolve: (answer: MailAnswer) => void;
  reject: (error: unknown) => void;
}

export class MailBatches {
  private readonly log: Log;
  private readonly make: (job: MailJob) => Promise<MailAnswer>;
  private readonly makeAlone: (job: MailJob) => Promise<MailAnswer>;
  private readonly threads: Threads<readonly MailJob[], readonly MailAnswer[]>;
  private readonly waiting: readonly [Waiting[], Waiting[]] = [[], []];
  private here = 0;
  private isGathering = false;
  private isThreadBusy = false;

  /** `make` does a job here, `makeAlone` in a thread that has no other: if a batch fails, it is not known for which of its jobs. */
  constructor(
    deps: { clock: Clock; log: Log },
    make: (job: MailJob) => Promise<MailAnswer>,
    makeAlone: (job: MailJob) => Promise<MailAnswer>,
  ) {
    this.log = deps.log;
    this.make = make;
    this.makeAlone = makeAlone;
    this.threads = createThreads(deps, {
      entry: new URL('./mail-worker.ts', import.meta.url),
      // More are of no use: the main loop takes longer for a mail than this thread does.
      count: 1,
      mostWaiting: 1,
      idleMs: IDLE_MS,
      jobMs: BATCH_MS,
      maxHeapMb: 128,
      maxYoungMb: 4,
      couldNotStart: (err) =>
        deps.log.warn({ event: 'mail_thread_failed', err }, 'the thread that makes mails in batches cannot start'),
    });
  }

  /** Rejects with a ThreadRefusal if the job cannot be done in a thread by itself either. */
  run(order: Order, job: MailJob): Promise<MailAnswer> {
    return new Promise((resolve, reject) => {
      this.waiting[order].push({ job, resolve, reject });
      if (this.isGathering) return;
      this.isGathering = true;
      // Jobs of the same turn of the loop wait together.
      setImmediate(() => {
        this.isGathering = false;
        this.next();
      });
    });
  }

  /** Ends the thread. Jobs that wait are made here, those of a batch under way are refused. */
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
    await Promise.all(taken.map((one) => settle(one, this.make(one.job))));
    this.here--;
    this.next();
  }

  private async handOver(batch: readonly Waiting[]): Promise<void> {
    this.isThreadBusy = true;
    try {
      const answers = await this.threads.run(batch.map(({ job }) => job));
      for (const [at, one] of batch.entries()) {
        const answer = answers[at];
        if (answer === undefined) one.reject(new Error('the thread gave fewer answers than it had jobs'));
        else one.resolve(answer);
      }
    } catch (err) {
      this.log.warn(
        { event: 'mail_thread_failed', err },
        'a batch of mails failed in its thread; each is made by itself',
      );
      // One job may be the cause. It fails alone then, and the others are made.
      for (const one of batch) void settle(one, this.makeAlone(one.job));
    }
    this.isThreadBusy = false;
    this.next();
  }
}

async function settle({ resolve, reject }: Waiting, answer: Promise<MailAnswer>): Promise<void> {
  try {
    resolve(await answer);
  } catch (error) {
    reject(error);
  }
}
