/** Liquid's arithmetic: whole numbers stay whole, and a result with a fraction in it is a fraction. */
import { failed } from './fault.ts';
import type { Filter, Named } from './filter.ts';
import { Float, plain } from './value.ts';

/** Returns a value as a number: 0 if it is not one; of a text the leading digits, or all of it if it is a fraction. */
export function asNumber(value: unknown): number {
  const given = plain(value);
  if (typeof given === 'number') return given;
  if (typeof given !== 'string') return 0;
  const text = given.trim();
  return FRACTION.test(text) ? Number(text) : Number.parseInt(text, 10) || 0;
}

const FRACTION = /^-?\d+\.\d+$/;

const isFraction = (value: unknown): boolean => {
  const given = plain(value);
  return (
    value instanceof Float ||
    (typeof given === 'number' ? !Number.isInteger(given) : typeof given === 'string' && FRACTION.test(given.trim()))
  );
};

/** Rounds away the errors of binary fractions: 10.1 - 2.2 is 7.9. */
const tidy = (value: number): number => (Number.isInteger(value) ? value : Number(value.toPrecision(15)));

const kept = (value: number, fraction: boolean): number | Float =>
  fraction && Number.isInteger(value) ? new Float(value) : value;

/** Makes a filter of two numbers; the result is a fraction if one of them is. */
const between = (name: string, run: (a: number, b: number) => number): Named<Filter> => [
  name,
  (_, value, [by]) => kept(tidy(run(asNumber(value), asNumber(by))), isFraction(value) || isFraction(by)),
];

const oneOf = (name: string, first: (a: number, b: number) => boolean): Named<Filter> => [
  name,
  (_, value, [other]) => {
    const one = first(asNumber(value), asNumber(other)) ? value : other;
    return kept(asNumber(one), isFraction(one));
  },
];

function notZero(by: number): number {
  if (by === 0) throw failed('a number is divided by 0');
  return by;
}

/** Rounds to `digits`; fractions of digits are ignored. */
function rounded(value: number, digits: number): number {
  const scaled = (from: number, by: number): number => {
    const [mantissa = '0', power = '0'] = String(from).split('e');
    return Number(`${mantissa}e${String(Number(power) + by)}`);
  };
  const up = scaled(Math.abs(value), digits);
  if (up > Number.MAX_SAFE_INTEGER) return value;
  const result = scaled(Math.round(up), -digits);
  return value < 0 ? 0 - result : result;
}

/** Returns the sum, a fraction if one of the values is. */
export const sumOf = (values: readonly unknown[]): number | Float =>
  kept(tidy(values.reduce<number>((sum, one) => sum + asNumber(one), 0)), values.some(isFraction));

export const numberFilters: readonly Named<Filter>[] = [
  between('plus', (a, b) => a + b),
  between('minus', (a, b) => a - b),
  between('times', (a, b) => a * b),
  between('modulo', (a, b) => a - notZero(b) * Math.floor(a / b)),
  [
    'divided_by',
    (_, value, [by]) => {
      const [a, b] = [asNumber(value), notZero(asNumber(by))];
      return isFraction(value) || isFraction(by) ? kept(a / b, true) : Math.floor(a / b);
    },
  ],
  oneOf('at_least', (a, b) => a >= b),
  oneOf('at_most', (a, b) => a <= b),
  ['abs', (_, value) => kept(Math.abs(asNumber(value)), isFraction(value))],
  ['ceil', (_, value) => Math.ceil(asNumber(value))],
  ['floor', (_, value) => Math.floor(asNumber(value))],
  [
    'round',
    (_, value, [digits]) => {
      const places = Math.max(-300, Math.min(300, Math.trunc(asNumber(digits))));
      return kept(rounded(asNumber(value), places), isFraction(value) && places > 0);
    },
  ],
];
