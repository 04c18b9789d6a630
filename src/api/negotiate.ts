/** Content negotiation as far as we take part in it (RFC 9110 section 12): refusing where we must, compressing where we may. */

interface Weighted {
  name: string;
  weight: number;
}

/** A header list with its weights. Split, not matched: the time is linear in the header's length. */
function weighted(header: string): Weighted[] {
  return header.split(',').map((item) => {
    const [name = '', ...parameters] = item.split(';');
    const q = parameters
      .map((parameter) => parameter.trim().toLowerCase())
      .find((parameter) => parameter.startsWith('q='));
    const weight = q === undefined ? 1 : Number(q.slice(2));
    return { name: name.trim().toLowerCase(), weight: Number.isFinite(weight) ? weight : 1 };
  });
}

/**
 * True if `Accept` forbids every one of the types by a weight of zero. Not naming a type is no refusal: clients that send
 * `Accept: text/html` by habit get their JSON.
 */
export function forbids(accept: string | undefined, types: readonly string[]): boolean {
  if (accept === undefined || (!accept.includes('q=0') && !accept.includes('Q=0'))) return false;
  const ranges = weighted(accept);
  return types.every((type) => weightOf(ranges, type) === 0);
}

/** The most specific range decides (RFC 9110 section 12.5.1); unnamed types count as wanted. */
function weightOf(ranges: readonly Weighted[], type: string): number {
  const group = `${type.split('/', 1)[0] ?? ''}/*`;
  for (const name of [type, group, '*/*']) {
    const range = ranges.find((candidate) => candidate.name === name);
    if (range !== undefined) return range.weight;
  }
  return 1;
}

/**
 * The type to answer with: `usual`, unless `Accept` names one of the others and wants it no less (RFC 9110 section
 * 12.5.1). A wildcard names nothing: every browser sends one.
 */
export function preferred<Usual extends string, Other extends string>(
  accept: string | undefined,
  usual: Usual,
  others: readonly Other[],
): Usual | Other {
  if (accept === undefined) return usual;
  const ranges = weighted(accept);
  const isNamed = (type: string): boolean => ranges.some(({ name }) => name === type);
  const fallback = isNamed(usual) ? weightOf(ranges, usual) : 0;
  const [best] = others
    .filter(isNamed)
    .map((type) => ({ type, weight: weightOf(ranges, type) }))
    .sort((a, b) => b.weight - a.weight);
  return best !== undefined && best.weight > 0 && best.weight >= fallback ? best.type : usual;
}

export type Encoding = 'br' | 'gzip';

/** The encoding for an answer worth compressing, or null for none. Of equal weights, br: it is smaller at the same cost. */
export function encodingFor(acceptEncoding: string | undefined): Encoding | null {
  if (acceptEncoding === undefined) return null;
  const offers = weighted(acceptEncoding);
  const weight = (name: string): number =>
    (offers.find((offer) => offer.name === name) ?? offers.find((offer) => offer.name === '*'))?.weight ?? 0;
  const br = weight('br');
  const gzip = weight('gzip');
  if (br <= 0 && gzip <= 0) return null;
  return br >= gzip ? 'br' : 'gzip';
}
