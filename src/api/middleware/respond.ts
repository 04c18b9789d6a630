/**
 * The outermost layer: gives the request its id and its exchange, and writes the answer when all others are done. It writes to
 * the socket itself, since Koa's own response costs 6 us more and cannot wait for the rest of a refused body.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import { deprecationHeaders, headerList, problemAnswer, type Answer } from '../answer.ts';
import { bodyLimits, drain, strangerLimits, type BodyLimits } from '../body.ts';
import { compress, WORTH_BYTES } from '../compress.ts';
import { ownerOf, type Exchange } from '../exchange.ts';
import { HSTS } from '../secure.ts';
import type { ApiDeps, ApiLog, Context, Middleware, Stop } from '../request-state.ts';
import { Problem } from '../../base/problem.ts';
import { isStorageTrouble } from '../../storage/commit.ts';
import { serviceAt } from '../compat/services.ts';
import type { OperatorDoor } from './operate.ts';

type Deps = Pick<ApiDeps, 'clock' | 'log' | 'answered'> & {
  open(request: IncomingMessage): Exchange;
  stop: Stop;
  limits?: BodyLimits;
};

export function respond(deps: Deps): Middleware {
  return async (ctx, next) => {
    const exchange = deps.open(ctx.req);
    ctx.state.exchange = exchange;
    ctx.respond = false;
    await next();
    if (exchange.answer === null) throw new Error('no layer gave an answer');
    const ms = deps.clock.monotonic() - exchange.started;
    deps.answered?.({ operation: exchange.route?.operationId ?? null, status: exchange.answer.status, ms });
    await send(deps, ctx, exchange.answer);
  };
}

async function send(deps: Deps, ctx: Context, answer: Answer): Promise<void> {
  const { req, res } = ctx;
  const { exchange } = ctx.state;
  if (res.destroyed || res.headersSent) return;
  const extra = exchange.route?.deprecated === undefined ? [] : deprecationHeaders(exchange.route.deprecated);
  if (exchange.isSecure && exchange.route?.page !== true) extra.push(...Object.entries(HSTS).flat());
  if (deps.stop.begun) extra.push('Connection', 'close');
  const { body } = answer;
  if (body instanceof Readable) {
    res.writeHead(answer.status, headerList(exchange, answer, extra));
    stream(deps.log, exchange, body, req, res);
    return;
  }
  const bytes = await packed(ctx, answer, body, extra);
  if (hasLength(answer.status)) extra.push('Content-Length', String(Buffer.byteLength(bytes)));
  res.writeHead(answer.status, headerList(exchange, answer, extra));
  const sent = req.method === 'HEAD' ? '' : bytes;
  if (req.complete) res.end(sent);
  else await endDrained(deps, exchange, req, res, sent);
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

/**
 * Sends the answer at once, but ends the response only when the refused body has been read: closing the connection with
 * unread bytes would reset it, and the client would lose the answer.
 */
async function endDrained(
  deps: Deps,
  exchange: Exchange,
  req: IncomingMessage,
  res: ServerResponse,
  sent: string | Buffer,
): Promise<void> {
  const limits = deps.limits ?? bodyLimits;
  res.flushHeaders();
  if (sent.length > 0) res.write(sent);
  const wholeMs = ownerOf(exchange) === null ? strangerLimits.wholeMs : limits.wholeMs;
  await drain(deps.clock, req, { ...limits, wholeMs });
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

/** Returns the answer to an error. Of an internal one the caller gets the request id; its text goes to the log only. */
export function answerTo(deps: { log: ApiLog }, exchange: Exchange, error: unknown): Answer {
  if (error instanceof Problem) {
    if (error.cause !== undefined && error.status >= 500) logFault(deps.log, exchange, error);
    return inForm(exchange, error);
  }
  logFault(deps.log, exchange, error);
  if (isStorageTrouble(error))
    return inForm(
      exchange,
      new Problem('service_unavailable', 'The database cannot take this now.', { retryAfter: 10 }),
    );
  return inForm(exchange, new Problem('internal_error', 'Something failed on our side.'));
}

/** A program that was written for another service gets its errors in the form that it knows. */
function inForm({ path, requestId }: Exchange, problem: Problem): Answer {
  const answer = problemAnswer(problem, requestId);
  const service = serviceAt(path);
  if (service === null) return answer;
  const { status, body } = service.problem(problem);
  const fault = { field: problem.field, message: problem.message };
  return { ...answer, status, body: JSON.stringify(body), fault };
}

function logFault(log: ApiLog, exchange: Exchange, err: unknown): void {
  log.error({ err, request_id: exchange.requestId, endpoint: exchange.route?.path ?? null }, 'a request failed');
}
