/**
 * Composes contents and signs headers: small ones by mail-batches.ts, large contents in a thread of their own, since encoding and hashing
 * 20 MB would hold up all other mail for a third of a second. How many large ones are in memory for it at once is bounded, not how
 * many wait.
 */
import { asBuffer, memoryOfFiles, ownMemory } from '../../base/bytes.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { createThreads } from '../../base/threads.ts';
import { createGate } from '../../scheduling/gate.ts';
import { signerForLoop } from '../../mail/dkim/sign.ts';
import { createCompose, type Composed, type StoredContent } from './compose.ts';
import { MailBatches, type Order } from './mail-batches.ts';
import {
  createMailMaker,
  type MailAnswer,
  type MailJob,
  type Signed,
  type Unsigned,
  type UnsignedFront,
} from './mail-job.ts';

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
/** A second one is composed while the first is handed over. */
const THREADS = 1;
const LARGE_AT_ONCE = 4;
/** Small contents whose links are kept in memory: some kilobytes each. */
const REMEMBERED = 50;
const IDLE_MS = 60_000;
/** The limit of one job, in ms; the largest takes half a second. */
const JOB_MS = 60_000;

export function createComposer(deps: { clock: Clock; log: Log }) {
  const threads = createThreads<readonly MailJob[], readonly MailAnswer[]>(deps, {
    entry: new URL('./mail-worker.ts', import.meta.url),
    count: THREADS,
    // All large contents that may be in memory, and those without attachments that are large by their html.
    mostWaiting: 1000,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: 512,
  });
  const make = createMailMaker(createCompose({ remembered: REMEMBERED }), signerForLoop);
  const batches = new MailBatches(deps, make, makeAlone);
  const gate = createGate({ most: LARGE_AT_ONCE, waiting: Infinity });

  /** Does the job in the thread of large contents. */
  async function makeAlone(job: MailJob): Promise<MailAnswer> {
    const { attachments = [], raw } = job.kind === 'compose' ? job.stored : {};
    const memory = [
      ...memoryOfFiles(attachments.map(({ content }) => content)),
      ...ownMemory(raw === undefined ? [] : [raw]),
    ];
    const [answer] = await threads.run([job], memory);
    if (answer === undefined) throw new Error('the thread gave no answer');
    return answer;
  }

  return {
    /** Composes and signs. Rejects with Unencodable, or with ThreadRefusal if it should be tried again later. */
    async make(stored: StoredContent, sign: UnsignedFront | null, order: Order): Promise<Made> {
      const job = { kind: 'compose', stored, sign } as const;
      const head = (sign?.front.length ?? 0) + Math.max(0, stored.raw?.indexOf('\r\n\r\n') ?? 0);
      const answer = await (isLarge(stored) || isLongHead(head) ? makeAlone(job) : batches.run(order, job));
      if (answer.kind === 'unencodable') throw new Unencodable(answer.why);
      if (answer.kind !== 'composed') throw new Error('the answer to a content to compose was another');
      const { composed, signed } = answer;
      const { content } = composed;
      return { composed: { ...composed, content: { ...content, body: asBuffer(content.body) } }, signed };
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

/** Returns whether the content is composed in the thread for large ones. */
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
