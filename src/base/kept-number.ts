/** Tells which numbers a double changes: 1234567890123456789 becomes 1234567890123456800 and 1e400 becomes Infinity, without an error. */

/** A number of up to this many digits is never changed, whatever they are. */
const SURELY_KEPT = 15;
/** This many digits distinguish every double from its neighbors; some languages write them all, 0.10000000000000001 for 0.1. */
const ALL_DIGITS = 17;

/** Returns whether the number between the two positions, without its sign, is parsed to the value that was written. */
export function isKept(text: string, start: number, end: number): boolean {
  const length = end - start;
  const hasExponent = exponentOf(text, start, end) >= 0;
  if (length <= SURELY_KEPT && !hasExponent) return true;
  const written = text.slice(start, end);
  const value = Number(written);
  if (!Number.isFinite(value)) return false;
  // Fast path for what most programs write: whole numbers that fit, and fractions with few digits.
  const hasPoint = written.includes('.');
  if (!hasExponent && (hasPoint ? length <= SURELY_KEPT + 1 : value <= Number.MAX_SAFE_INTEGER)) return true;
  const shortest = String(value);
  if (shortest === written) return true;
  const digits = digitsOf(written);
  if (digits === digitsOf(shortest)) return true;
  return (hasPoint || hasExponent) && digits === digitsOf(value.toPrecision(ALL_DIGITS));
}

const LONGEST_SHOWN = 40;

/** Returns the number as it is written, cut if it is long, for the text of a fault. */
export const shownNumber = (text: string): string =>
  text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`;

/** Returns the position of the exponent, or -1. */
function exponentOf(text: string, start: number, end: number): number {
  for (let at = start; at < end; at++) if ((text.charCodeAt(at) | 0x20) === 0x65) return at;
  return -1;
}

/** Significant digits and the power of ten of the first: the same for 1.50, 15e-1 and 0.15E1. */
function digitsOf(number: string): string {
  const marked = exponentOf(number, 0, number.length);
  const mantissa = marked < 0 ? number : number.slice(0, marked);
  const point = mantissa.indexOf('.');
  const whole = point < 0 ? mantissa.length : point;
  const all = point < 0 ? mantissa : mantissa.slice(0, point) + mantissa.slice(point + 1);
  let first = 0;
  while (all.charCodeAt(first) === ZERO) first++;
  if (first === all.length) return '0';
  let end = all.length;
  while (all.charCodeAt(end - 1) === ZERO) end--;
  return `${all.slice(first, end)}e${String(whole - first + (marked < 0 ? 0 : Number(number.slice(marked + 1))))}`;
}

const ZERO = 0x30;
