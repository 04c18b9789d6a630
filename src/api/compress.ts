/** Compresses answers outside of the event loop, if it pays and if the client takes it. */
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type Koa from 'koa';

/** Below this size a compressed answer saves less than a packet and costs more than it saves. */
export const WORTH_BYTES = 1024;

const gzipAsync = promisify(gzip);
const brotliAsync = promisify(brotliCompress);
/** Levels where the size curve flattens: brotli 4 packs JSON as well as gzip 6 in the same time. */
const brotliOptions = {
  params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT },
};

export interface Compressed {
  encoding: 'br' | 'gzip';
  bytes: Buffer;
}

/** Returns null if the client takes neither encoding; brotli goes first, since it is smaller at the same cost. */
export async function compress(
  ctx: Pick<Koa.Context, 'acceptsEncodings'>,
  body: string | Buffer,
): Promise<Compressed | null> {
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
