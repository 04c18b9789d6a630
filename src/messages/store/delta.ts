/**
 * A text told as what it has in common with another and what not: mails of one template differ in some words only, and a
 * thousand of them need not be stored whole.
 *
 * A delta is JSON: `[offset, length, "text", offset, length]`, pairs of numbers being a piece of the base, texts being what
 * stands between.
 */

/** Makes deltas against one base. */
export interface DeltaMaker {
  /**
   * Null where the delta would be longer than half of the text, or where more than MOST_FOREIGN characters stand in nothing of
   * the base: looking for each of them costs a fifth of a microsecond, on the main loop.
   */
  of(text: string): string | null;
}

/** A common piece of twice as many characters is always found. */
const BLOCK = 24;
/** How far behind the last common piece the next is looked for first: as long as what is written for a value. */
const NEAR = 256;
/** Of a text that has more of its own, little would be saved. */
export const MOST_FOREIGN = 8192;
/** What naming a piece of the base costs, about. */
const PAIR = 12;

export function createDeltaMaker(base: string): DeltaMaker {
  const places = new Map<string, number>();
  for (let at = 0; at + BLOCK <= base.length; at += BLOCK) {
    const block = base.slice(at, at + BLOCK);
    if (!places.has(block)) places.set(block, at);
  }

  /** Where a block stands; repeated rows have it in many places, and the next is the likeliest. */
  function placeOf(block: string, near: string, expected: number): number | undefined {
    const at = near.indexOf(block);
    return at >= 0 ? expected + at : places.get(block);
  }

  return {
    of(text) {
      const most = text.length / 2;
      const parts: (string | number)[] = [];
      let cost = 0;
      let told = 0;
      let expected = 0;
      let near = base.slice(0, NEAR);
      let foreign = 0;
      for (let at = 0; at + BLOCK <= text.length;) {
        const place = placeOf(text.slice(at, at + BLOCK), at - told < NEAR ? near : '', expected);
        if (place === undefined) {
          at++;
          if (++foreign > MOST_FOREIGN || cost + at - told > most) return null;
          continue;
        }
        const back = sameBefore(text, at, at - told, base, place);
        const length = back + BLOCK + sameFrom(text, at + BLOCK, base, place + BLOCK);
        const begin = at - back;
        if (begin > told) parts.push(text.slice(told, begin));
        parts.push(place - back, length);
        cost += begin - told + PAIR;
        told = begin + length;
        at = told;
        expected = place - back + length;
        near = base.slice(expected, expected + NEAR);
      }
      if (told < text.length) parts.push(text.slice(told));
      const delta = JSON.stringify(parts);
      return delta.length > most ? null : delta;
    },
  };
}

/** How many characters before the two places are the same, `most` at most. */
function sameBefore(text: string, at: number, most: number, base: string, place: number): number {
  let count = 0;
  while (count < most && count < place && text.charCodeAt(at - count - 1) === base.charCodeAt(place - count - 1))
    count++;
  return count;
}

/** How many characters from the two places on are the same. */
function sameFrom(text: string, at: number, base: string, place: number): number {
  const most = Math.min(text.length - at, base.length - place);
  let count = 0;
  while (count < most && text.charCodeAt(at + count) === base.charCodeAt(place + count)) count++;
  return count;
}

/** The text that the delta was made of. Throws where it is none. */
export function appliedDelta(base: string, delta: string): string {
  const parts = JSON.parse(delta) as (string | number)[];
  const out: string[] = [];
  for (let n = 0; n < parts.length; n++) {
    const part = parts[n];
    if (typeof part === 'string') {
      out.push(part);
      continue;
    }
    const length = parts[++n];
    if (typeof part !== 'number' || typeof length !== 'number') throw new Error('this is no delta');
    out.push(base.slice(part, part + length));
  }
  return out.join('');
}
