/** The errors as classes: `error instanceof RateLimitError` tells the kind, `error.code` the exact cause. */
import type { ErrorRecord } from './types.ts';

/** The base of all errors of this package, except TypeErrors for mistakes in its use. */
export class PosthornError extends Error {
  override readonly name: string = 'PosthornError';
}

/** The codes of the service, and `unreadable_answer` for an error in another form (from a proxy, for example). */
export type ErrorCode = ErrorRecord['code'] | 'unreadable_answer';

/** The service refused the request. */
export class ApiError extends PosthornError {
  override readonly name: string = 'ApiError';
  readonly status: number;
  readonly code: ErrorCode;
  /** The wrong member, parameter or header, or null. */
  readonly field: string | null;
  /** The id of the request, for support and the audit log; null if another system answered. */
  readonly requestId: string | null;
  /** Seconds to wait before the next request, or null. */
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

/** The request is invalid: 400, 413, 415. */
export class ValidationError extends ApiError {
  override readonly name = 'ValidationError';
}

/** The key is invalid, or lacks a permission: 401, 403. */
export class AuthError extends ApiError {
  override readonly name = 'AuthError';
}

/** The request conflicts with the present state: 409. */
export class ConflictError extends ApiError {
  override readonly name = 'ConflictError';
}

/** A rate limit or quota is used up: 429. */
export class RateLimitError extends ApiError {
  override readonly name = 'RateLimitError';
}

/** A fault of the service, most likely a passing one: 5xx. */
export class ServerError extends ApiError {
  override readonly name = 'ServerError';
}

/** No complete answer came. Whether the request was carried out is unknown; POSTs may be repeated with their key. */
export class NetworkError extends PosthornError {
  override readonly name = 'NetworkError';
  readonly kind: 'connection' | 'timeout';

  constructor(message: string, kind: 'connection' | 'timeout', cause?: unknown) {
    super(message, { cause });
    this.kind = kind;
  }
}

/** A webhook call that is forged, damaged or too old. Answer it with 400. */
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

/** Returns the error of an answer. `now`: ms since the epoch, for a Retry-After with a date. */
export function errorOf(status: number, headers: Headers, text: string, now: number): ApiError {
  const envelope = envelopeOf(text);
  const refusal: Refusal = {
    status,
    code: envelope?.code ?? 'unreadable_answer',
    field: envelope?.field ?? null,
    requestId: envelope?.request_id ?? headers.get('x-request-id'),
    retryAfter: secondsOf(headers.get('retry-after'), now),
    headers,
  };
  const message =
    envelope?.message ?? `HTTP ${status} without an error in the form of the service: is the base URL right?`;
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

/** Reads Retry-After, a number of seconds or a date (RFC 9110 section 10.2.3). */
function secondsOf(header: string | null, now: number): number | null {
  if (header === null) return null;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - now) / 1000));
}
