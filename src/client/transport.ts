/** Sends one request, built once, so that every try has the same bytes and Idempotency-Key; limited in time. The only file that calls `fetch`. */
import { ApiError, errorOf, NetworkError } from './errors.ts';
import type { Surroundings } from './surroundings.ts';
import type { Page } from './types.ts';

/** Options of every request. */
export interface RequestOptions {
  /** Ends the request with its tries and waits; it then fails with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds for one try, with the body. */
  timeoutMs?: number | undefined;
  /** Tries after the first. */
  maxRetries?: number | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
}

/** Options of a POST. */
export interface PostOptions extends RequestOptions {
  /**
   * Makes a repeated request harmless for 24 hours. By default a new UUIDv4; all tries of a request share it. If the service
   * has already refused a request with this key, the request is sent with a key derived from it.
   */
  idempotencyKey?: string | undefined;
}

interface CallOptions {
  query?: Query | undefined;
  body?: unknown;
  options?: PostOptions | undefined;
  /** The answer is not JSON: its bytes are returned. */
  isRaw?: true;
  /** Milliseconds that the service itself may wait, added to the time limit. */
  serverWaitMs?: number;
}

interface TransportSettings {
  apiKey: string;
  /** The address without a final slash. */
  baseUrl: string;
  timeoutMs: number;
  maxRetries: number;
  userAgent: string;
}

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** A built request, the same for every try. */
interface BuiltRequest {
  /** The path and the caller's key: by these it is known which key came after a refusal. Null for a key of our own. */
  name: string | null;
  url: string;
  headers: Headers;
  init: RequestInit;
  timeoutMs: number;
  signal: AbortSignal | undefined;
}

export class Transport {
  readonly #settings: TransportSettings;
  readonly #around: Surroundings;
  /**
   * The keys that came after refusals, the oldest first. Without it each is found again by one request for each refusal of the last day, which would
   * use up the rate limit of a program that tries again and again. `since`: when the caller's own key was refused. The service knows that for a day,
   * so that key is sent again before it is over: otherwise another process would not find the way to a mail accepted later.
   */
  readonly #nextKeys = new Map<string, { key: string; since: number }>();

  constructor(settings: TransportSettings, around: Surroundings) {
    this.#settings = settings;
    this.#around = around;
  }

  call<Body>(method: Method, path: string, call: CallOptions = {}): Call<Body> {
    return callOf(this.#perform<Body>(method, path, call));
  }

  async #perform<Body>(method: Method, path: string, call: CallOptions): Promise<Answer<Body>> {
    const request = this.#build(method, path, call);
    const mostTries = 1 + (call.options?.maxRetries ?? this.#settings.maxRetries);
    for (let tries = 1; ; tries++) {
      try {
        const { status, headers, bytes } = await this.#try(request);
        const response = { status, headers, requestId: headers.get('x-request-id'), tries };
        return {
          data: (call.isRaw === true ? bytes : this.#bodyOf(status, headers, textOf(bytes))) as Body,
          response,
        };
      } catch (error) {
        request.signal?.throwIfAborted();
        if (method === 'POST' && takesNextKey(request.headers, error)) {
          this.#remember(request);
          continue;
        }
        const wait = tries < mostTries ? waitAfter(error, tries, this.#around.random()) : null;
        if (wait === null) throw error;
        await this.#wait(wait, request.signal);
      }
    }
  }

  #remember({ name, headers }: BuiltRequest): void {
    if (name === null) return;
    const since = this.#nextKey(name)?.since ?? this.#around.now();
    this.#nextKeys.delete(name);
    this.#nextKeys.set(name, { key: headers.get(KEY) ?? '', since });
    const [oldest = ''] = this.#nextKeys.keys();
    if (this.#nextKeys.size > MOST_NEXT_KEYS) this.#nextKeys.delete(oldest);
  }

  #nextKey(name: string | null): { key: string; since: number } | null {
    const next = this.#nextKeys.get(name ?? '');
    return next !== undefined && this.#around.now() - next.since < REMEMBERED_MS ? next : null;
  }

  #build(method: Method, path: string, { query, body, options = {}, serverWaitMs = 0 }: CallOptions): BuiltRequest {
    const { apiKey, baseUrl, timeoutMs, userAgent } = this.#settings;
    // Throws a TypeError for an invalid header: a mistake of the caller, not a network fault.
    const headers = new Headers({ Accept: 'application/json', 'User-Agent': userAgent, ...options.headers });
    headers.set('Authorization', `Bearer ${apiKey}`);
    if (body !== undefined) headers.set('Content-Type', 'application/json');
    const { idempotencyKey: key = null } = options;
    const name = key === null ? null : `${path} ${key}`;
    if (method === 'POST') headers.set(KEY, this.#nextKey(name)?.key ?? key ?? this.#around.uuid());
    // A redirected POST would become a GET, and the key would be sent to the redirect's target.
    const init: RequestInit = { method, headers, redirect: 'manual' };
    return {
      name,
      url: `${baseUrl}${path}${search(query)}`,
      headers,
      init: body === undefined ? init : { ...init, body: JSON.stringify(body) },
      timeoutMs: (options.timeoutMs ?? timeoutMs) + serverWaitMs,
      signal: options.signal,
    };
  }

  /** Sends one try. Throws ApiError for a refusal, NetworkError without a complete answer. */
  async #try({
    url,
    init,
    timeoutMs,
    signal,
  }: BuiltRequest): Promise<{ status: number; headers: Headers; bytes: Uint8Array }> {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = (): void => controller.abort(signal?.reason);
    const state = { isLate: false };
    const cancelTimer = this.#around.after(timeoutMs, () => {
      state.isLate = true;
      controller.abort();
    });
    // Removed after this try: on Node.js 20 AbortSignal.any() would keep each try in memory as long as the caller's signal.
    signal?.addEventListener('abort', abort, { once: true });
    try {
      const response = await this.#around.fetch(url, { ...init, signal: controller.signal });
      const bytes = new Uint8Array(await response.arrayBuffer());
      const answer = { status: response.status, headers: response.headers, bytes };
      if (!response.ok) throw errorOf(answer.status, answer.headers, textOf(bytes), this.#around.now());
      return answer;
    } catch (error) {
      throw state.isLate
        ? new NetworkError(`No answer within ${timeoutMs} ms`, 'timeout', error)
        : asNetworkError(error);
    } finally {
      cancelTimer();
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Reads the body. A text that is not JSON comes from another system in between. */
  #bodyOf(status: number, headers: Headers, text: string): unknown {
    if (text === '') return undefined;
    try {
      return JSON.parse(text);
    } catch {
      throw errorOf(status, headers, text, this.#around.now());
    }
  }

  #wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        cancelTimer();
        reject(signal?.reason as Error);
      };
      const cancelTimer = this.#around.after(ms, () => {
        signal?.removeEventListener('abort', abort);
        resolve();
      });
      signal?.addEventListener('abort', abort, { once: true });
    });
  }
}

const KEY = 'Idempotency-Key';
/** Milliseconds, an hour less than the service keeps an answer. */
const REMEMBERED_MS = 23 * 60 * 60_000;
/** Keys that are remembered at most. */
const MOST_NEXT_KEYS = 1000;
/** Characters of the longest key. */
const LONGEST_KEY = 255;

/**
 * Changes the key after a replayed refusal, which the service would repeat for a day, although its cause may be gone. Nothing was done for it, so
 * another key is safe. That key is made from the old one and the time of the refusal: a later request finds the same one, and nothing is done twice.
 */
function takesNextKey(headers: Headers, error: unknown): boolean {
  if (!(error instanceof ApiError) || error.status >= 500 || error.status === 429) return false;
  const refusedAt = Date.parse(error.headers.get('idempotency-first-answer') ?? '');
  const key = headers.get(KEY) ?? '';
  if (error.headers.get('idempotency-replayed') !== 'true' || Number.isNaN(refusedAt)) return false;
  const next = `${key.replace(/~\d+$/, '')}~${String(refusedAt)}`;
  if (next === key || next.length > LONGEST_KEY) return false;
  headers.set(KEY, next);
  return true;
}

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** Returns the NetworkError for any error of `fetch`. */
function asNetworkError(error: unknown): Error {
  if (error instanceof ApiError) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return new NetworkError(`No answer: ${cause instanceof Error ? cause.message : String(cause)}`, 'connection', error);
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
/** The longest Retry-After that is waited for; a longer one is reported to the caller at once, since a used-up quota may take a day. */
export const LONGEST_RETRY_AFTER_S = 120;
/** Random spread, so that clients refused at the same time do not come back at the same time. */
const SPREAD_MS = 500;

/**
 * Returns the ms to wait before the next try, or null for none. `failures`: failed tries, from 1; `random`: from 0 to 1. Never shorter than
 * Retry-After; without it the wait doubles each time, between half and the whole.
 */
export function waitAfter(error: unknown, failures: number, random: number): number | null {
  if (error instanceof NetworkError) return backoff(failures, random);
  if (!(error instanceof ApiError) || (error.status !== 429 && error.status < 500)) return null;
  const { retryAfter } = error;
  if (retryAfter === null) return backoff(failures, random);
  return retryAfter > LONGEST_RETRY_AFTER_S ? null : retryAfter * 1000 + random * SPREAD_MS;
}

function backoff(failures: number, random: number): number {
  const most = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1));
  return most * (0.5 + random / 2);
}

export type Query = Readonly<Record<string, unknown>>;

/** Returns a path with its parts encoded. Throws a TypeError for a part that would change the path. */
export function at(words: TemplateStringsArray, ...parts: readonly (string | number)[]): string {
  return words.reduce((path, word, index) => `${path}${segment(parts[index - 1])}${word}`);
}

/** Encodes one part. An empty part would name the list instead of an entry; dots would be removed from the URL. */
function segment(part: string | number | undefined): string {
  if (typeof part === 'number' && Number.isSafeInteger(part)) return String(part);
  if (typeof part !== 'string' || part === '' || part === '.' || part === '..')
    throw new TypeError(`An id is needed, not ${JSON.stringify(part)}`);
  return encodeURIComponent(part);
}

/** Returns `?…`, or an empty text. Undefined and null members are left out. */
export function search(query: Query = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) => pairsOf(name, value));
  return pairs.length === 0 ? '' : `?${pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')}`;
}

function pairsOf(name: string, value: unknown): [string, string][] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value.map((one) => [name, String(one)]);
  if (value instanceof Date) return [[name, value.toISOString()]];
  if (typeof value === 'object') return Object.entries(value).flatMap(([key, one]) => pairsOf(`${name}[${key}]`, one));
  return [[name, typeof value === 'string' ? value : JSON.stringify(value)]];
}

export interface ResponseInfo {
  status: number;
  headers: Headers;
  /** The id of the request, for support and the audit log. */
  requestId: string | null;
  /** Number of times that the request was sent. */
  tries: number;
}

export interface Answer<Body> {
  data: Body;
  response: ResponseInfo;
}

export interface Call<Body> extends Promise<Body> {
  /** Resolves to the record with status and headers. */
  withResponse(): Promise<Answer<Body>>;
}

function callOf<Body>(answer: Promise<Answer<Body>>): Call<Body> {
  const record = answer.then(({ data }) => data);
  const withResponse = (): Promise<Answer<Body>> => {
    // The caller waits for the other promise; without this, a failure would also be reported here as unhandled.
    record.catch(() => undefined);
    return answer;
  };
  return Object.assign(record, { withResponse });
}

/** Returns every entry from `first` on; reads the next page after the last entry of one. */
export async function* entriesOf<Entry>(
  read: (after: string | undefined) => Promise<Page<Entry>>,
  first: string | undefined,
): AsyncGenerator<Entry, void, undefined> {
  let after = first;
  for (;;) {
    const page = await read(after);
    yield* page.data;
    if (!page.has_more || page.next_cursor === null) return;
    after = page.next_cursor;
  }
}
