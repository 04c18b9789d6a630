/** An answer is a value until it is written: idempotency, audit and compression read it first. It gets the headers of every answer here. */
import { Readable, pipeline } from 'node:stream';
import { Problem, type ProblemCode } from '../base/problem.ts';
import type { Deprecation } from './route.ts';
import type { Rate } from '../scheduling/rate-windows.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { drain, strangerLimits } from './body.ts';
import { compress, WORTH_BYTES } from './negotiate.ts';
import { ownerOf, type ApiLog, type Context, type Exchange, type Middleware, type Shell } from './exchange.ts';
import { HSTS } from './client-address.ts';
import { isStorageTrouble } from '../storage/commit.ts';
import { serviceAt } from './compat/services.ts';
import type { OperatorDoor } from './middleware/run.ts';

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

/** Makes the outermost layer, which writes answers to the socket: Koa's response costs 6 us more and cannot wait for a refused body. */
export function respond(shell: Shell, open: (request: IncomingMessage) => Exchange): Middleware {
  return async (ctx, next) => {
    const exchange = open(ctx.req);
    ctx.state.exchange = exchange;
    ctx.respond = false;
    await next();
    if (exchange.answer === null) throw new Error('no layer gave an answer');
    const ms = shell.clock.monotonic() - exchange.started;
    shell.answered?.({ operation: exchange.route?.operationId ?? null, status: exchange.answer.status, ms });
    await send(shell, ctx, exchange.answer);
  };
}

async function send(shell: Shell, ctx: Context, answer: Answer): Promise<void> {
  const { req, res } = ctx;
  const { exchange } = ctx.state;
  if (res.destroyed || res.headersSent) return;
  const extra = exchange.route?.deprecated === undefined ? [] : deprecationHeaders(exchange.route.deprecated);
  if (exchange.isSecure && exchange.route?.page !== true) extra.push(...Object.entries(HSTS).flat());
  if (shell.stop.begun) extra.push('Connection', 'close');
  const { body } = answer;
  if (body instanceof Readable) {
    res.writeHead(answer.status, headerList(exchange, answer, extra));
    stream(shell.log, exchange, body, req, res);
    return;
  }
  const bytes = await packed(ctx, answer, body, extra);
  if (hasLength(answer.status)) extra.push('Content-Length', String(Buffer.byteLength(bytes)));
  res.writeHead(answer.status, headerList(exchange, answer, extra));
  const sent = req.method === 'HEAD' ? '' : bytes;
  if (req.complete) res.end(sent);
  else await endDrained(shell, exchange, req, res, sent);
}

/** Most listeners of one answer before Node takes them for a leak. */
const LISTENERS = 20;

/** A 204 has no Content-Length, and a 304 would have that of the full answer (RFC 9110 section 8.6). */
const hasLength = (status: number): boolean => status !== 204 && status !== 304;

async function packed(ctx: Context, answer: Answer, body: string | Buffer, extra: string[]): Promise<string | Buffer> {
  if (body.length < WORTH_BYTES || !/json|text/.test(answer.headers['Content-Type'] ?? '')) return body;
  extra.push('Vary', 'Accept-Encoding');
  const compressed = await compress(ctx, body);
  if (compressed === null) return body;
  extra.push('Content-Encoding', compressed.encoding);
  return compressed.bytes;
}

/** Sends the answer at once, but ends it only when the refused body is read: closing with unread bytes would lose the answer. */
async function endDrained(
  { clock, limits }: Shell,
  exchange: Exchange,
  req: IncomingMessage,
  res: ServerResponse,
  sent: string | Buffer,
): Promise<void> {
  res.flushHeaders();
  if (sent.length > 0) res.write(sent);
  const wholeMs = ownerOf(exchange) === null ? strangerLimits.wholeMs : limits.wholeMs;
  await drain(clock, req, { ...limits, wholeMs });
  res.end();
}

function stream(log: ApiLog, exchange: Exchange, body: Readable, req: IncomingMessage, res: ServerResponse): void {
  if (req.method === 'HEAD') {
    body.destroy();
    res.end();
    return;
  }
  // The parts of a stream alone listen some seven times for its end, and Node warns of more than ten.
  res.setMaxListeners(LISTENERS);
  // A client that disconnects is not logged; the handler notices it by the end of its stream.
  pipeline(body, res, (error) => {
    if (error && !req.destroyed) log.warn({ request_id: exchange.requestId, err: error }, 'an answer broke off');
  });
}

/** `problemOf` finds the problem of an error for callers who may read the log as well. */
export function problem(deps: { log: ApiLog }, problemOf?: OperatorDoor['problemOf']): Middleware {
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    try {
      await next();
    } catch (error) {
      exchange.answer =
        problemOf === undefined
          ? answerTo(deps, exchange, error)
          : problemAnswer(problemOf(exchange.route?.operationId ?? null, error), exchange.requestId);
    }
  };
}

/** Returns the answer to an error, in the form of another service for its programs. The text of an internal error goes to the log only. */
export function answerTo(deps: { log: ApiLog }, { path, requestId, route }: Exchange, error: unknown): Answer {
  const problem = error instanceof Problem ? error : faultOf(error);
  if (problem !== error || (problem.cause !== undefined && problem.status >= 500))
    deps.log.error({ err: error, request_id: requestId, endpoint: route?.path ?? null }, 'a request failed');
  const answer = problemAnswer(problem, requestId);
  const service = serviceAt(path);
  if (service === null) return answer;
  const { status, body } = service.problem(problem);
  return { ...answer, status, body: JSON.stringify(body), fault: { field: problem.field, message: problem.message } };
}

const faultOf = (error: unknown): Problem =>
  isStorageTrouble(error)
    ? new Problem('service_unavailable', 'The database cannot take this now.', { retryAfter: 10 })
    : new Problem('internal_error', 'Something failed on our side.');
