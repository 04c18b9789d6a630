/** Reads JSON bodies, large ones in threads that end when idle: a 50 MiB body does not delay other requests. */
import { giveBack, ownMemory } from '../base/bytes.ts';
import type { Clock } from '../base/clock.ts';
import { nextSlice } from '../base/slices.ts';
import { Problem } from '../base/problem.ts';
import { createThreads, ThreadRefusal } from '../base/threads.ts';
import { createGate } from '../scheduling/gate.ts';
import type { ForeignBody } from './compat/foreign.ts';
import { readForeign } from './compat/services.ts';
import { hashJson, readJson, type JsonObject, type JsonResult } from './json.ts';
import type { JsonJob, JsonJobResult } from './json-worker.ts';
import type { CheckedSend } from './send-check.ts';
import type { SendRules } from '../messages/request/send-request.ts';

/** Bodies above this many bytes go to a thread: handing one over costs more than parsing a smaller one here. */
export const INLINE_BYTES = 256 * 1024;

/** Larger ones take turns: many that come at once would hold the event loop for as many milliseconds. */
const AT_ONCE_BYTES = 16 * 1024;

const THREADS = 2;
/** Bodies of one account that wait for a thread; more answer 503. The memory for bodies is the limit before: its half is 512 of the smallest. */
const MOST_WAITING = 512;
const IDLE_MS = 30_000;
/** The largest honest body takes under 2 s; a thread that takes longer is ended. */
const JOB_MS = 20_000;

export interface JsonBody {
  value: JsonObject;
  /** SHA-256 of the canonical form in hex; made in the thread for large bodies, on demand for small ones. */
  hash(): string;
  /** The checked form of a large send request; `value` then has only the members that decide its form. */
  checked: CheckedSend | null;
}

export interface BodyUse {
  /** The account that takes turns with others for the threads. */
  owner: string;
  /** Large bodies are also checked as a send request by these rules. */
  send?: SendRules | null;
  /** A body of another service, which is read into ours. */
  foreign?: ForeignBody | null;
}

export type JsonReader = ReturnType<typeof createJsonReader>;

export function createJsonReader(deps: { clock: Clock }) {
  const threads = createThreads<JsonJob, JsonJobResult>(deps, {
    entry: new URL('./json-worker.ts', import.meta.url),
    count: THREADS,
    // The gate lets no more in than there are threads.
    mostWaiting: THREADS,
    idleMs: IDLE_MS,
    jobMs: JOB_MS,
    maxHeapMb: 512,
    maxYoungMb: 12,
  });
  const gate = createGate({ most: THREADS, waiting: MOST_WAITING });

  const inThread = (owner: string, job: JsonJob): Promise<JsonBody> =>
    gate.run(owner, () => threads.run(job, ownMemory([job.bytes])).then(bodyOf, refuse), tooMany);

  return {
    /**
     * The bytes may be gone after it. Throws `invalid_json`, `payload_too_large` (too many values) or `service_unavailable` (too many large bodies of
     * this owner).
     */
    async read(bytes: Buffer, { owner, send = null, foreign = null }: BodyUse): Promise<JsonBody> {
      if (bytes.length > INLINE_BYTES) return inThread(owner, { bytes, send, foreign });
      if (bytes.length > AT_ONCE_BYTES) await nextSlice();
      if (foreign !== null) return bodyOf(readForeign(bytes, foreign));
      const body = bodyOf(readJson(bytes));
      // A short body is in one memory with others.
      if (bytes.length === bytes.buffer.byteLength) giveBack([bytes]);
      return body;
    },
    /** Ends the threads; what is still waiting in them is refused. */
    close: (): Promise<void> => threads.close(),
  };
}

const tooMany = (): Problem =>
  new Problem('service_unavailable', 'Too many large bodies at once. Try again.', { retryAfter: 1 });

function refuse(error: unknown): never {
  if (!(error instanceof ThreadRefusal)) throw error;
  switch (error.why) {
    case 'full':
      throw tooMany();
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
  if (result.kind === 'refused') throw new Problem(result.code, result.message, { field: result.field });
  if (result.kind === 'too_many_values') throw new Problem('payload_too_large', 'The body holds too many values.');
  // "In 2 hours" means another time at each request.
  const { value, given = value } = result;
  let hash = 'hash' in result ? result.hash : null;
  return {
    value,
    hash: () => (hash ??= hashJson(given)),
    checked: 'checked' in result ? result.checked : null,
  };
}
