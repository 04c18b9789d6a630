/** Content negotiation (RFC 9110 section 12), read by the package that Koa itself uses. */
import accepts from 'accepts';

const acceptOf = (accept: string | undefined): ReturnType<typeof accepts> =>
  accepts({ headers: { accept } } as Parameters<typeof accepts>[0]);

/** Returns the type of those offered that `Accept` prefers; the first one where it names none of them. */
export function preferredType<Type extends string>(
  accept: string | undefined,
  offered: readonly [Type, ...Type[]],
): Type {
  const wanted = acceptOf(accept).type([...offered]);
  return offered.find((type) => type === wanted) ?? offered[0];
}

/**
 * True if `Accept` forbids every one of the types by a weight of zero. A header that does not name a type does not refuse it:
 * clients that send `Accept: text/html` by habit get their JSON.
 */
export function forbids(accept: string | undefined, types: readonly string[]): boolean {
  if (accept === undefined || !/q=0/i.test(accept)) return false;
  return acceptOf(accept.includes('*/*') ? accept : `${accept}, */*;q=0.001`).type([...types]) === false;
}
