/** Composes contents and signs headers: small ones in batches, large ones, of which few may be in memory, in a thread of their own. */
import { asBuffer, ownMemory } from '../../base/bytes.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { createThreads, type Threads } from '../../base/threads.ts';
import { signerForLoop } from '../../mail/dkim/sign.ts';
import {
  bytesOf,
  createCompose,
  createMailMaker,
  type Composed,
  type MailAnswer,
  type MailJob,
  type Signed,
  type StoredContent,
  type Unsigned,
  type UnsignedFront,
} from './compose.ts';
import { endOfHead } from '../../mail/header.ts';
import { createGate } from '../../scheduling/gate.ts';

export type Composer = ReturnType<typeof createComposer>;

/** A composed content, and the mail that it was composed for. */
export interface Made {
  composed: Composed;
  signed: Signed;
}

/** The content itself cannot be encoded. */
export class Unencodable extends Error {}

/** Contents up to this weight are small: one is composed in about a millisecond. */
const SMALL_BYTES = 32 * 1024;
/** Longer headers are signed in the thread of large contents: that of a submitted mail may have 512 KiB and take half a second. */
const SMALL_HEAD = 16 * 1024;
/** The weight of an attachment beside its bytes. */
const ATTACHMENT_WEIGHT = 1024;
/** The next ones are there when the first is done. */
const AHEAD = 2;
const LARGE_AT_ONCE = 4;
/** Small contents whose links are kept in memory: some kilobytes each. */
const REMEMBERED = 50;
const IDLE_MS = 60_000;
/** The limit of one job, in ms; the largest takes half a second. */
const JOB_MS = 60_000;

export function createComposer(deps: { clock: Clock; log: Log }) {
  const threads = createThreads<readonly MailJob[], readonly MailAnswer[]>(deps, {
    entry: new URL('./mail-worker.ts', import.meta.url),
    count: 1,
    ahead: AHEAD,
    // All large contents that may be in memory, and those without attachments that are large by their html.
    mostWaiting: 1000,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: 512,
    maxYoungMb: 24,
  });
  const make = createMailMaker(createCompose({ remembered: REMEMBERED }), signerForLoop);
  const batches = new MailBatches(deps, make, makeAlone);
  const gate = createGate({ most: LARGE_AT_ONCE, waiting: Infinity });

  /** Does the job in the thread of large contents. */
  async function makeAlone(job: MailJob): Promise<MailAnswer> {
    const [answer] = await threads.run([job], job.kind === 'compose' ? ownMemory(bytesOf(job.stored)) : []);
    if (answer === undefined) throw new Error('the thread gave no answer');
    return answer;
  }

  return {
    /** Composes and signs. Rejects with Unencodable, or with ThreadRefusal if it should be tried again later. */
    async make(stored: StoredContent, sign: UnsignedFront | null, order: Order): Promise<Made> {
      const job = { kind: 'compose', stored, sign } as const;
      const head = (sign?.front.length ?? 0) + (stored.raw === undefined ? 0 : endOfHead(stored.raw));
      const answer = await (isLarge(stored) || isLongHead(head) ? makeAlone(job) : batches.run(order, job));
      if (answer.kind === 'unencodable') throw new Unencodable(answer.why);
      if (answer.kind !== 'composed') throw new Error('the answer to a content to compose was another');
      const { composed, signed } = answer;
      composed.content.body = asBuffer(composed.content.body);
      return { composed, signed };
    },
    /** Rejects with ThreadRefusal if it should be tried again later. */
    async sign(unsigned: Unsigned, order: Order): Promise<Signed> {
      const job = { kind: 'sign', unsigned } as const;
      const answer = await (isLongHead(unsigned.head.length) ? makeAlone(job) : batches.run(order, job));
      if (answer.kind === 'signed' || answer.kind === 'unsigned') return answer;
      throw new Error('the answer to a header to sign was another');
    },
    /** Waits for room for a large content before its bytes are loaded; returns the function that gives the room back. */
    async room(): Promise<(() => void) | null> {
      return gate.enter();
    },
    async close(): Promise<void> {
      await Promise.all([threads.close(), batches.close()]);
    },
  };
}

/** Returns whether a header of this length in characters is signed in the thread of large contents. */
export const isLongHead = (length: number): boolean => length > SMALL_HEAD;

export const isLarge = (stored: StoredContent): boolean => weight(stored) > SMALL_BYTES;

/** Returns the cost in bytes of text to encode; a text part from html costs as much again, tracking too; attachments cost half. */
function weight({ html, text, autoText, attachments, tracking, raw }: StoredContent): number {
  const derived = (text === null && autoText ? 2 : 1) + (tracking === undefined ? 0 : 1);
  const files = attachments.reduce(
    (sum, { content }) => sum + content.length + 2 * ATTACHMENT_WEIGHT,
    raw?.length ?? 0,
  );
  const rewritten = tracking === undefined ? 0 : (raw?.length ?? 0);
  return (html?.length ?? 0) * derived + (text?.length ?? 0) + files / 2 + rewritten;
}

/** Jobs that are done here at a time, as long as no more wait. */
const HERE = 2;
/** A batch takes 5 to 20 ms, and the mails behind it wait as long. */
const MOST_IN_BATCH = 16;
/** The limit of one batch, in ms: a hundred times what it takes, and less than what the mails behind it should wait. */
const BATCH_MS = 20_000;

/** Transactional mail before broadcasts. */
export type Order = 0 | 1;

interface Waiting {
  job: MailJob;
  resolve: (answer: MailAnswer) => void;
  reject: (error: unknown) => void;
}

/**
 * Makes small mails: a single one here, several in batches by a thread. The way to the thread and back costs the main loop as much as the signatures
 * of one mail, for a batch of eight a sixth; and libuv's pool is left to the commits.
 */
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
