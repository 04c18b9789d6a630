/**
 * Reads JSON bodies: small ones on the main thread, large ones in threads that are started when needed and end when idle,
 * so that a 50 MiB body does not delay other requests.
 */
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { createThreads, ownMemory, ThreadRefusal } from '../base/threads.ts';
import { hashJson, readJson } from './json.ts';
import type { RoundedNumber } from './json-numbers.ts';
import type { JsonObject, JsonResult } from './json.ts';
import type { JsonJob, JsonJobResult } from './json-worker.ts';
import type { CheckedSend } from './send-check.ts';
import type { SendRules } from '../messages/request/send-request.ts';

/** Bodies above this many bytes go to a thread: handing one over costs more than parsing a smaller one here. */
export const INLINE_BYTES = 256 * 1024;

const THREADS = 2;
/** Bodies waiting for a thread; more answer 503, since each holds up to 50 MiB. */
const MOST_WAITING = 16;
const IDLE_MS = 30_000;
/** The largest honest body takes under 2 s; a thread that takes longer is ended. */
const JOB_MS = 20_000;

export interface JsonBody {
  value: JsonObject;
  /** SHA-256 of the canonical form in hex; made in the thread for large bodies, on demand for small ones. */
  hash(): string;
  /** The checked form of a large send request; `value` then has only the members that decide its form. */
  checked: CheckedSend | null;
  /** Numbers whose parsed value differs from the text. */
  rounded: readonly RoundedNumber[];
}

export interface JsonReader {
  /**
   * With `send`, large ones are also checked as a send request. Throws `invalid_json`, `payload_too_large` (too many values) or `service_unavailable` (too many large bodies
   * at once).
   */
  read(bytes: Buffer, send?: SendRules | null): JsonBody | Promise<JsonBody>;
  /** Ends the threads; what is still waiting in them is refused. */
  close(): Promise<void>;
}

export function createJsonReader(deps: { clock: Clock }): JsonReader {
  const threads = createThreads<JsonJob, JsonJobResult>(deps, {
    entry: new URL('./json-worker.ts', import.meta.url),
    count: THREADS,
    mostWaiting: MOST_WAITING,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: 512,
  });
  return {
    read(bytes, send = null) {
      if (bytes.length <= INLINE_BYTES) return bodyOf(readJson(bytes));
      return threads.run({ bytes, send }, ownMemory([bytes])).then(bodyOf, refuse);
    },
    close: () => threads.close(),
  };
}

function refuse(error: unknown): never {
  if (!(error instanceof ThreadRefusal)) throw error;
  switch (error.why) {
    case 'full':
      throw new Problem('service_unavailable', 'Too many large bodies at once.', { retryAfter: 1 });
    case 'closed':
      throw new Problem('service_unavailable', 'The service is stopping.');
    case 'slow':
      throw new Problem('timeout', 'The body took too long to parse.');
    case 'died':
      throw new Error('the thread that parses bodies failed', { cause: error });
  }
}

function bodyOf(result: JsonResult | JsonJobResult): JsonBody {
  if (result.kind === 'bad') throw new Problem('invalid_json', result.why);
  if (result.kind === 'too_many_values') throw new Problem('payload_too_large', 'The body holds too many values.');
  const { value, rounded } = result;
  let hash = 'hash' in result ? result.hash : null;
  return {
    value,
    hash: () => (hash ??= hashJson(value)),
    checked: 'checked' in result ? result.checked : null,
    rounded,
  };
}
