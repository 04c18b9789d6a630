/**
 * The outermost layer: gives the request its id and its exchange, and writes the answer when all others are done. It writes to
 * the socket itself, since Koa's own response costs 6 us more and cannot wait for the rest of a refused body.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable, pipeline } from 'node:stream';
import { deprecationHeaders, headerList } from '../answer.ts';
import type { Answer } from '../answer.ts';
import { bodyLimits, drain, strangerLimits } from '../body.ts';
import type { BodyLimits } from '../body.ts';
import { compress, WORTH_BYTES } from '../compress.ts';
import { ownerOf, type Exchange } from '../exchange.ts';
import { HSTS } from '../secure.ts';
import type { ApiDeps, ApiLog, Context, Middleware, Stop } from '../request-state.ts';

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
