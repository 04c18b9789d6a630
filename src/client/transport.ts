/**
 * Sends one request over HTTP: built once, so that every try sends the same bytes and the same Idempotency-Key; limited in
 * time; repeated if allowed. The only file that calls `fetch`.
 */
import { callOf, type Answer, type Call } from './call.ts';
import { ApiError, errorOf, NetworkError } from './errors.ts';
import { waitAfter } from './retry.ts';
import type { Surroundings } from './surroundings.ts';
import { search, type Query } from './url.ts';

/** Options of every request. */
export interface RequestOptions {
  /** Ends the request with its tries and waits; it then fails with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds for one try, with the body. */
  timeoutMs?: number | undefined;
  /** Tries after the first. */
  maxRetries?: number | undefined;
  /** Further headers. */
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

export interface CallOptions {
  query?: Query | undefined;
  body?: unknown;
  options?: PostOptions | undefined;
  /** The answer is not JSON: its bytes are returned. */
  isRaw?: true;
  /** Milliseconds that the service itself may wait, added to the time limit. */
  serverWaitMs?: number;
}

export interface TransportSettings {
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
   * The keys that came after refusals, the oldest first. Each is found again without it, but by one request for each refusal of the
   * last day, which would use up the rate limit of a program that tries again and again. `since` is when the caller's own key was refused: the
   * service knows that for a day, and without it another process would not find the way to a mail that was accepted later. So the caller's
   * own key is sent again before the day is over.
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
    // Listened to for this try only: on Node.js 20 AbortSignal.any() would keep each try in memory as long as the caller's
    // signal.
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
 * Changes the key after a replayed refusal. The service would repeat the refusal for a day, although its cause may be gone: a
 * domain was verified, an address corrected. Nothing was done for it, so the request may use another key. That key is made from
 * the old one and the time of the refusal: a later request with the old key finds the same next key, and nothing is done twice.
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
