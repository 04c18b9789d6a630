/** Content negotiation (RFC 9110 section 12) for handlers, which have no Koa context. */
import Negotiator from 'negotiator';

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

/**
 * True if `Accept` forbids every one of the types by a weight of zero. A header that does not name a type does not refuse it:
 * clients that send `Accept: text/html` by habit get their JSON.
 */
export function forbids(accept: string | undefined, types: readonly string[]): boolean {
  if (accept === undefined || !/q=0/i.test(accept)) return false;
  return bestOf(accept.includes('*/*') ? accept : `${accept}, */*;q=0.001`, types) === undefined;
}

export function isCurrent(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(',').some((tag) => tag.trim() === '*' || opaque(tag.trim()) === opaque(etag));
}

const opaque = (tag: string): string => tag.replace(/^W\//, '');
