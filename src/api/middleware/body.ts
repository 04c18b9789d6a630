/** Reads the body. Its refusals have a fixed order: content type 415, size 413, JSON 400. */
import { Problem } from '../../base/problem.ts';
import { networkOf } from '../../net/ip.ts';
import type { ForeignBody } from '../compat/foreign.ts';
import { serviceAt } from '../compat/services.ts';
import { ownerOf, type Context, type Exchange, type Middleware, type Shell } from '../exchange.ts';
import { INLINE_BYTES } from '../json-reader.ts';
import type { Turn } from '../../messages/accept/intake.ts';
import { type BodyShare, checkMediaType, hasBody, readBody, readOpenForm } from '../body.ts';

export function body(shell: Shell): Middleware {
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    if (!takesBody(exchange.method)) {
      await next();
      return;
    }
    const owner = ownerOf(exchange);
    const share = shell.bodyMemory.begin(owner, exchange.ip);
    const turn = owner === null || exchange.route?.sendRules === undefined ? null : shell.intake.begin(owner);
    try {
      await read(shell, ctx, share, turn);
      await next();
    } finally {
      turn?.end();
      share.release();
    }
  };
}

/** The body of another method has no meaning (RFC 9110 section 9.3) and is drained. */
const takesBody = (method: string): boolean => method === 'POST' || method === 'PATCH' || method === 'PUT';

async function read(
  shell: Shell,
  { req, state: { exchange } }: Context,
  share: BodyShare,
  turn: Turn | null,
): Promise<void> {
  if (exchange.route?.page === true) {
    // The body of an unknown link is not read.
    if (exchange.route.knows?.(exchange.params) !== false) exchange.form = await readForm(shell, req, share);
    return;
  }
  const isPresent = hasBody(req);
  const foreign = foreignOf(exchange, req.headers['content-type']);
  if (isPresent || req.headers['content-type'] !== undefined) {
    const encoding = checkMediaType(req, foreign?.types);
    const bytes = await readBody(shell, req, encoding, share.take);
    exchange.bodyBytes = bytes.length;
    if (bytes.length > 0) {
      // Larger ones have turns of their own, for the threads.
      if (bytes.length <= INLINE_BYTES) await turn?.take(bytes.length);
      exchange.body = await shell.reader.read(bytes, {
        owner: ownerOf(exchange) ?? networkOf(exchange.ip),
        send: exchange.route?.sendRules?.(exchange.at) ?? null,
        foreign: foreign?.body ?? null,
      });
    }
  }
  if (exchange.body === null) {
    const isNeeded = exchange.route?.body !== undefined && exchange.route.isBodyOptional !== true;
    if (isNeeded || foreign !== null) throw new Problem('invalid_json', 'The body is empty: a JSON object is needed.');
    return;
  }
  // Bulk sends have a gate of their own, where those with templates may wait long.
  if (Object.hasOwn(exchange.body.value, 'recipients')) turn?.end();
  else if (exchange.bodyBytes > shell.limits.singleBodyBytes)
    throw new Problem('payload_too_large', 'A body above 40 MiB must be a bulk send.');
}

/** Returns the body of another service that a request has, and its media types beside JSON; null for a request of ours. */
function foreignOf(
  { route, path, header, at }: Exchange,
  contentType = '',
): { body: ForeignBody; types: readonly string[] } | null {
  if (route?.foreignBody === undefined) return null;
  const validation = header('x-batch-validation');
  return {
    body: {
      form: route.foreignBody,
      contentType,
      headers: validation === undefined ? {} : { 'x-batch-validation': validation },
      now: at,
    },
    types: serviceAt(path)?.readForm === undefined ? [] : formTypes,
  };
}

const formTypes = ['multipart/form-data', 'application/x-www-form-urlencoded'];

/** Reads a form of any media type: mail providers send urlencoded and multipart (RFC 8058 section 3.2). */
async function readForm(shell: Shell, req: Context['req'], share: BodyShare): Promise<string> {
  if (!hasBody(req)) return '';
  const bytes = await readOpenForm(shell, req, share.take);
  return bytes.toString('utf8');
}
