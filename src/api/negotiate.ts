/** Content negotiation (RFC 9110 section 12): media types, versions, and compression outside of the event loop. */
import Negotiator from 'negotiator';
import type Koa from 'koa';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

/** A parameter of a media type such as `charset`: it does not make another type of those that are offered. */
const PARAMETER = /;\s*(?!q=)[^;,=\s]+=(?:"[^"]*"|[^;,]*)/gi;

const bestOf = (accept: string | undefined, types: readonly string[]): string | undefined =>
  new Negotiator({ headers: { accept: accept?.replaceAll(PARAMETER, '') } }).mediaType([...types]);

/** Returns the type of those offered that `Accept` prefers; the first one if it names none of them. */
export function preferredType<Type extends string>(
  accept: string | undefined,
  offered: readonly [Type, ...Type[]],
): Type {
  const wanted = bestOf(accept, offered);
  return offered.find((type) => type === wanted) ?? offered[0];
}

/** Returns whether every type has a weight of zero. A type that is not named is not refused: `Accept: text/html` by habit gets JSON. */
export function forbids(accept: string | undefined, types: readonly string[]): boolean {
  if (accept === undefined || !/q=0/i.test(accept)) return false;
  return bestOf(accept.includes('*/*') ? accept : `${accept}, */*;q=0.001`, types) === undefined;
}

export function isCurrent(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(',').some((tag) => tag.trim() === '*' || opaque(tag.trim()) === opaque(etag));
}

const opaque = (tag: string): string => tag.replace(/^W\//, '');

/** Below this size a compressed answer saves less than a packet and costs more than it saves. */
export const WORTH_BYTES = 1024;

const gzipAsync = promisify(gzip);
const brotliAsync = promisify(brotliCompress);
/** Levels where the size curve flattens: brotli 4 packs JSON as well as gzip 6 in the same time. */
const brotliOptions = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT },
};

/** Returns null if the client takes neither encoding; brotli goes first, since it is smaller at the same cost. */
export async function compress(
  ctx: Pick<Koa.Context, 'acceptsEncodings'>,
  body: string | Buffer,
): Promise<{ encoding: 'br' | 'gzip'; bytes: Buffer } | null> {
  if (ctx.acceptsEncodings('br') !== false) return { encoding: 'br', bytes: await brotliAsync(body, brotliOptions) };
  if (ctx.acceptsEncodings('gzip') !== false) return { encoding: 'gzip', bytes: await gzipAsync(body) };
  return null;
}

/** A layer that compresses text answers of the layers inside it. */
export async function compressText(ctx: Koa.ParameterizedContext, next: Koa.Next): Promise<void> {
  await next();
  const { body } = ctx;
  if (typeof body !== 'string' || body.length < WORTH_BYTES) return;
  ctx.vary('Accept-Encoding');
  const compressed = await compress(ctx, body);
  if (compressed === null) return;
  ctx.set('Content-Encoding', compressed.encoding);
  ctx.body = compressed.bytes;
}
