/** The body, in the fixed order of its refusals: content type 415, size 413, JSON 400. */
import { Problem } from '../../base/problem.ts';
import { checkMediaType, hasBody, readBody } from '../body.ts';
import type { BodyLimits } from '../body.ts';
import type { JsonReader } from '../json-reader.ts';
import type { ApiDeps, Context, Middleware } from '../shell.ts';

/** Room for the bodies of all requests that are under way. */
export interface Room {
  taken: number;
}

type Deps = Pick<ApiDeps, 'clock'> & { limits: BodyLimits; room: Room; reader: JsonReader };

export function body(deps: Deps): Middleware {
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    if (!takesBody(exchange.method)) {
      await next();
      return;
    }
    try {
      await read(deps, ctx);
      await next();
    } finally {
      deps.room.taken -= exchange.heldBytes;
    }
  };
}

/** A body on the others means nothing (RFC 9110 section 9.3) and is drained unread. */
const takesBody = (method: string): boolean => method === 'POST' || method === 'PATCH' || method === 'PUT';

async function read(deps: Deps, { req, state: { exchange } }: Context): Promise<void> {
  if (exchange.route?.page === true) {
    exchange.form = await readForm(deps, req);
    return;
  }
  const isPresent = hasBody(req);
  if (isPresent || req.headers['content-type'] !== undefined) {
    const encoding = checkMediaType(req);
    const bytes = await readBody(deps, req, encoding, (size) => {
      exchange.heldBytes += size;
      deps.room.taken += size;
      if (deps.room.taken > deps.limits.heldBytes) {
        throw new Problem('service_unavailable', 'Too many large bodies at once.', { retryAfter: 1 });
      }
    });
    exchange.bodyBytes = bytes.length;
    if (bytes.length > 0) {
      exchange.body = await deps.reader.read(bytes, exchange.route?.sendRules?.(exchange.at) ?? null);
    }
  }
  if (exchange.body === null) {
    if (exchange.route?.body !== undefined)
      throw new Problem('invalid_json', 'The body is empty: a JSON object is needed.');
    return;
  }
  if (exchange.bodyBytes > deps.limits.singleBodyBytes && !Object.hasOwn(exchange.body.value, 'recipients')) {
    throw new Problem('payload_too_large', 'A body above 40 MiB must be a bulk send.');
  }
}

/** Forms of ours have one field; that of RFC 8058 is as short. */
const LARGEST_FORM = 1024 * 1024;

/** Whatever type it says it has: mail providers send urlencoded and multipart alike (RFC 8058 section 3.2). */
async function readForm(deps: Deps, req: Context['req']): Promise<string> {
  if (!hasBody(req)) return '';
  const limits = { ...deps.limits, bodyBytes: Math.min(LARGEST_FORM, deps.limits.bodyBytes) };
  const bytes = await readBody({ ...deps, limits }, req, 'identity', () => undefined);
  return bytes.toString('utf8');
}
