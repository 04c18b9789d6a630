/**
 * An answer is a value until it is written: the idempotency record, the audit line and compression read it first. The headers
 * of every answer are added here, for requests with a route and for those that Node could not parse (client-errors.ts).
 */
import type { Readable } from 'node:stream';
import type { Problem, ProblemCode } from '../base/problem.ts';
import type { Deprecation } from './route.ts';
import type { Rate } from '../scheduling/rate-windows.ts';

export interface Answer {
  status: number;
  /** Headers of this answer, without those that every answer has. */
  headers: Readonly<Record<string, string>>;
  /** An empty string means that there is no body. */
  body: string | Buffer | Readable;
  /** The code of the problem, for the audit line. */
  code: ProblemCode | null;
  /** The same of its field and its text, if the body has them in the form of another service. */
  fault?: { field: string | null; message: string };
}

/** Status in the log for a read whose client had disconnected before it began; it is never sent. */
export const CLIENT_GONE = 499;

export const JSON_TYPE = 'application/json; charset=utf-8';

/** Returns the error envelope: one member `error` with exactly four members. */
export function problemAnswer(problem: Problem, requestId: string): Answer & { body: string } {
  const { code, message, field, retryAfter, status } = problem;
  return {
    status,
    code,
    headers: {
      'Content-Type': JSON_TYPE,
      ...(retryAfter === null ? {} : { 'Retry-After': String(retryAfter) }),
      ...(status === 401 ? { 'WWW-Authenticate': challenge(code) } : {}),
      ...problem.headers,
    },
    body: JSON.stringify({ error: { code, message: message.toWellFormed(), field, request_id: requestId } }),
  };
}

/** A request without a key gets a challenge without an error code (RFC 6750 section 3). */
function challenge(code: ProblemCode): string {
  return code === 'missing_api_key' ? 'Bearer realm="api"' : 'Bearer realm="api", error="invalid_token"';
}

/** The values of the headers that every answer has. */
export interface Common {
  requestId: string;
  rate: Rate;
  /** Arrival of the request, milliseconds since the epoch. */
  at: number;
}

/** Returns all headers as a flat list of names and values, the form that `writeHead` takes fastest. */
export function headerList(common: Common, answer: Answer, extra: readonly string[]): string[] {
  const { rate } = common;
  const window = String(Math.max(0, rate.reset - Math.floor(common.at / 1000)));
  const list = [
    'X-Request-Id',
    common.requestId,
    'X-RateLimit-Limit',
    String(rate.limit),
    'X-RateLimit-Remaining',
    String(rate.remaining),
    'X-RateLimit-Reset',
    String(rate.reset),
    'RateLimit-Policy',
    `"default";q=${rate.limit};w=60`,
    'RateLimit',
    `"default";r=${rate.remaining};t=${window}`,
    'X-Content-Type-Options',
    'nosniff',
  ];
  if (answer.headers['Cache-Control'] === undefined) list.push('Cache-Control', 'no-store');
  for (const name in answer.headers) list.push(name, answer.headers[name] ?? '');
  list.push(...extra);
  return list;
}

/** Returns the headers of a deprecated endpoint (RFC 9745, RFC 8594; Warning as in RFC 7234 section 5.5). */
export function deprecationHeaders(deprecated: Deprecation): string[] {
  const { since, sunset, successor, notice } = deprecated;
  const end = new Date(sunset).toUTCString();
  return [
    'Deprecation',
    `@${Date.parse(since) / 1000}`,
    'Sunset',
    end,
    'Link',
    `<${notice}>; rel="deprecation"; type="text/html", <${successor}>; rel="successor-version"`,
    'Warning',
    `299 - "This endpoint is deprecated and ends on ${end}: use ${successor}"`,
  ];
}
