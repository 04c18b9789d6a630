/**
 * Composes contents: small ones where they are, large ones in a thread, since encoding and hashing 20 MB would hold up all
 * other mail for a third of a second. How many large ones are in memory for it at once is bounded, not how many wait.
 */
import type { Clock } from '../../base/clock.ts';
import { createThreads, ownMemory } from '../../base/threads.ts';
import { createCompose, type Composed, type StoredContent } from './compose.ts';
import type { ComposeAnswer } from './compose-worker.ts';

export type Composer = ReturnType<typeof createComposer>;

/** The content itself cannot be encoded. */
export class Unencodable extends Error {}

/** Contents up to this weight are composed here, in about a millisecond; handing one to the thread costs a fifth of that. */
const INLINE_BYTES = 32 * 1024;
/** A second one is composed while the first is handed over. */
const THREADS = 1;
const LARGE_AT_ONCE = 4;
/** Small contents whose links are kept in memory: some kilobytes each. */
const REMEMBERED = 50;
const IDLE_MS = 60_000;
/** The limit of one job, in ms; the largest takes half a second. */
const JOB_MS = 60_000;

export function createComposer(deps: { clock: Clock }) {
  const threads = createThreads<StoredContent, ComposeAnswer>(deps, {
    entry: new URL('./compose-worker.ts', import.meta.url),
    count: THREADS,
    // All large contents that may be in memory, and those without attachments that are large by their html.
    mostWaiting: 1000,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: 512,
  });
  const compose = createCompose({ remembered: REMEMBERED });
  const waiting: (() => void)[] = [];
  let free = LARGE_AT_ONCE;

  function giveBack(): void {
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  }

  return {
    /** Rejects with Unencodable, or with ThreadRefusal where it should be tried again later. */
    async compose(stored: StoredContent): Promise<Composed> {
      if (weight(stored) <= INLINE_BYTES) {
        return compose(stored).catch((cause: unknown) => {
          throw new Unencodable(cause instanceof Error ? cause.message : String(cause), { cause });
        });
      }
      const answer = await threads.run(
        stored,
        ownMemory([
          ...stored.attachments.map(({ content }) => content),
          ...(stored.raw === undefined ? [] : [stored.raw]),
        ]),
      );
      if (answer.kind === 'bad') throw new Unencodable(answer.why);
      const { content } = answer.composed;
      const { buffer, byteOffset, byteLength } = content.body;
      return { ...answer.composed, content: { ...content, body: Buffer.from(buffer, byteOffset, byteLength) } };
    },
    /** Waits for room for a large content before its bytes are loaded; returns the function that gives the room back. */
    async room(): Promise<() => void> {
      if (free > 0) free--;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      return giveBack;
    },
    close: () => threads.close(),
  };
}

/** Returns the cost in bytes of text to encode; a text part from html costs as much again, tracking too; attachments cost half. */
function weight({ html, text, autoText, attachments, tracking, raw }: StoredContent): number {
  const derived = (text === null && autoText ? 2 : 1) + (tracking === undefined ? 0 : 1);
  const files = attachments.reduce((sum, { content }) => sum + content.length, raw?.length ?? 0);
  return (html?.length ?? 0) * derived + (text?.length ?? 0) + files / 2;
}
