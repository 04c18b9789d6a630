/** What can go wrong, as classes: `error instanceof RateLimitError` tells the kind, `error.code` the exact cause. */
import type { ErrorRecord } from './types.ts';

/** Everything this package throws on purpose, mistakes in its use excepted (those are TypeErrors). */
export class PosthornError extends Error {
  override readonly name: string = 'PosthornError';
}

/** The codes of the service, and `unreadable_answer` for an error that is not in its form (of a proxy, say). */
export type ErrorCode = ErrorRecord['code'] | 'unreadable_answer';

/** The service refused the request. */
export class ApiError extends PosthornError {
  override readonly name: string = 'ApiError';
  readonly status: number;
  readonly code: ErrorCode;
  /** The offending member, parameter or header, where one applies. */
  readonly field: string | null;
  /** For support and the audit log; null where something in between answered. */
  readonly requestId: string | null;
  /** Seconds after which the service wants to be asked again, or null. */
  readonly retryAfter: number | null;
  readonly headers: Headers;

  constructor(message: string, refusal: Refusal) {
    super(message);
    this.status = refusal.status;
    this.code = refusal.code;
    this.field = refusal.field;
    this.requestId = refusal.requestId;
    this.retryAfter = refusal.retryAfter;
    this.headers = refusal.headers;
  }
}

/** The request has a fault: 400, 413, 415. */
export class ValidationError extends ApiError {
  override readonly name = 'ValidationError';
}

/** The key is not good, or not good for this: 401, 403. */
export class AuthError extends ApiError {
  override readonly name = 'AuthError';
}

/** It contradicts what is there: 409. */
export class ConflictError extends ApiError {
  override readonly name = 'ConflictError';
}

/** A limit or quota is used up: 429. */
export class RateLimitError extends ApiError {
  override readonly name = 'RateLimitError';
}

/** A fault on the other side, most likely a passing one: 5xx. */
export class ServerError extends ApiError {
  override readonly name = 'ServerError';
}

/** No answer came, or not the whole of it. Whether the request was carried out is unknown; POSTs may be repeated with their key. */
export class NetworkError extends PosthornError {
  override readonly name = 'NetworkError';
  readonly kind: 'connection' | 'timeout';

  constructor(message: string, kind: 'connection' | 'timeout', cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
  }
}

/** A webhook call that is not what it claims to be, or too old to be believed. Answer it with 400. */
export class WebhookError extends PosthornError {
  override readonly name = 'WebhookError';
  readonly code: 'missing_header' | 'bad_timestamp' | 'too_old' | 'too_new' | 'bad_signature' | 'unreadable_body';

  constructor(code: WebhookError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

interface Refusal {
  status: number;
  code: ErrorCode;
  field: string | null;
  requestId: string | null;
  retryAfter: number | null;
  headers: Headers;
}

/** The error that an answer stands for. `now`: milliseconds, for a Retry-After that names a date. */
export function errorOf(status: number, headers: Headers, text: string, now: number): ApiError {
  const told = envelopeOf(text);
  const refusal: Refusal = {
    status,
    code: told?.code ?? 'unreadable_answer',
    field: told?.field ?? null,
    requestId: told?.request_id ?? headers.get('x-request-id'),
    retryAfter: secondsOf(headers.get('retry-after'), now),
    headers,
  };
  const message = told?.message ?? `HTTP ${status} without an error in the form of the service: is the base URL right?`;
  return new (classFor(status))(message, refusal);
}

function classFor(status: number): typeof ApiError {
  if (status >= 500) return ServerError;
  switch (status) {
    case 400:
    case 413:
    case 415:
      return ValidationError;
    case 401:
    case 403:
      return AuthError;
    case 409:
      return ConflictError;
    case 429:
      return RateLimitError;
    default:
      return ApiError;
  }
}

function envelopeOf(text: string): ErrorRecord | null {
  try {
    const { error } = JSON.parse(text) as { error?: Partial<ErrorRecord> };
    return typeof error?.code === 'string' && typeof error.message === 'string' ? (error as ErrorRecord) : null;
  } catch {
    return null;
  }
}

/** Retry-After is a number of seconds or a date (RFC 9110 section 10.2.3). */
function secondsOf(header: string | null, now: number): number | null {
  if (header === null) return null;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - now) / 1000));
}
