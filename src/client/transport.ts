/**
 * One request over HTTP: written once, so that every try sends the same bytes and the same Idempotency-Key; tried within its
 * time limit; tried again where that is allowed. The only file that calls `fetch`.
 */
import { callOf, type Answer, type Call } from './call.ts';
import { ApiError, errorOf, NetworkError } from './errors.ts';
import { waitAfter } from './retry.ts';
import type { Surroundings } from './surroundings.ts';
import { search, type Query } from './url.ts';

/** What can be said with every request. */
export interface RequestOptions {
  /** Ends the request, its tries and the waits between them; it then fails with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds for one try, the body included. */
  timeoutMs?: number | undefined;
  /** Tries after the first. */
  maxRetries?: number | undefined;
  /** Headers besides those that the client sets. */
  headers?: Readonly<Record<string, string>> | undefined;
}

/** What can be said with a POST. */
export interface PostOptions extends RequestOptions {
  /**
   * Makes a repeated request harmless for 24 hours. A fresh UUIDv4 where not given; all tries of a request share it. Where the
   * service has refused a request with this key before, the request is sent again with one that is made of it.
   */
  idempotencyKey?: string | undefined;
}

export interface Sending {
  query?: Query | undefined;
  body?: unknown;
  options?: PostOptions | undefined;
  /** The answer is no JSON: its bytes are given. */
  isRaw?: true;
  /** Milliseconds that the service itself may take before it answers, on top of the time limit. */
  patienceMs?: number;
}

export interface TransportSettings {
  apiKey: string;
  /** Without a slash at its end. */
  baseUrl: string;
  timeoutMs: number;
  maxRetries: number;
  userAgent: string;
}

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** A request as it goes out at every try. */
interface Written {
  url: string;
  headers: Headers;
  init: RequestInit;
  timeoutMs: number;
  signal: AbortSignal | undefined;
}

export class Transport {
  readonly #settings: TransportSettings;
  readonly #around: Surroundings;

  constructor(settings: TransportSettings, around: Surroundings) {
    this.#settings = settings;
    this.#around = around;
  }

  call<Body>(method: Method, path: string, sending: Sending = {}): Call<Body> {
    return callOf(this.#perform<Body>(method, path, sending));
  }

  async #perform<Body>(method: Method, path: string, sending: Sending): Promise<Answer<Body>> {
    const written = this.#written(method, path, sending);
    const mostTries = 1 + (sending.options?.maxRetries ?? this.#settings.maxRetries);
    for (let tries = 1; ; tries++) {
      try {
        const { status, headers, bytes } = await this.#try(written);
        const response = { status, headers, requestId: headers.get('x-request-id'), tries };
        return {
          data: (sending.isRaw === true ? bytes : this.#bodyOf(status, headers, textOf(bytes))) as Body,
          response,
        };
      } catch (error) {
        written.signal?.throwIfAborted();
        if (method === 'POST' && takesNextKey(written.headers, error)) continue;
        const wait = tries < mostTries ? waitAfter(error, tries, this.#around.random()) : null;
        if (wait === null) throw error;
        await this.#wait(wait, written.signal);
      }
    }
  }

  #written(method: Method, path: string, { query, body, options = {}, patienceMs = 0 }: Sending): Written {
    const { apiKey, baseUrl, timeoutMs, userAgent } = this.#settings;
    // Throws a TypeError for what no header may hold: that is a mistake of the caller, and no fault of the network.
    const headers = new Headers({ Accept: 'application/json', 'User-Agent': userAgent, ...options.headers });
    headers.set('Authorization', `Bearer ${apiKey}`);
    if (body !== undefined) headers.set('Content-Type', 'application/json');
    if (method === 'POST') headers.set('Idempotency-Key', options.idempotencyKey ?? this.#around.uuid());
    // A redirected POST would become a GET, and the key would go wherever the answer says.
    const init: RequestInit = { method, headers, redirect: 'manual' };
    return {
      url: `${baseUrl}${path}${search(query)}`,
      headers,
      init: body === undefined ? init : { ...init, body: JSON.stringify(body) },
      timeoutMs: (options.timeoutMs ?? timeoutMs) + patienceMs,
      signal: options.signal,
    };
  }

  /** Throws ApiError for a refusal, NetworkError where no whole answer came. */
  async #try({
    url,
    init,
    timeoutMs,
    signal,
  }: Written): Promise<{ status: number; headers: Headers; bytes: Uint8Array }> {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = (): void => controller.abort(signal?.reason);
    const state = { isLate: false };
    const cancelTimer = this.#around.after(timeoutMs, () => {
      state.isLate = true;
      controller.abort();
    });
    // Listened to for this try only: AbortSignal.any() would keep each try alive as long as the caller's signal on Node.js 20.
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

  /** A text that is no JSON is of something in between, which answers in the place of the service. */
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
/** The service takes keys up to this length. */
const LONGEST_KEY = 255;

/**
 * A refusal that is given again for its Idempotency-Key would be given for a day, whatever has changed since: a domain was verified,
 * an address corrected. Nothing was done for it, so the request may go on under another key. That key is made of the old one
 * and the time of the refusal: whoever comes later with the old key finds the same next one, and nothing is done twice.
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

/** What `fetch` throws, whatever the runtime calls it, means that there was no answer. */
function asNetworkError(error: unknown): Error {
  if (error instanceof ApiError) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return new NetworkError(`No answer: ${cause instanceof Error ? cause.message : String(cause)}`, 'connection', error);
}
