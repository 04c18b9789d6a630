/** Arithmetic as Liquid has it: whole numbers stay whole, and what a fraction is part of is one. */
import { failed } from './fault.ts';
import type { Filter, Named } from './filter.ts';
import { Float, plain } from './value.ts';

/** What is no number counts as 0; of a text its leading digits count, or all of it where it is a fraction. */
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

/** Rounded where binary fractions would show: 10.1 - 2.2 is 7.9. */
const tidy = (value: number): number => (Number.isInteger(value) ? value : Number(value.toPrecision(15)));

const kept = (value: number, fraction: boolean): number | Float =>
  fraction && Number.isInteger(value) ? new Float(value) : value;

/** A result that is a fraction where one of the two is. */
const between = (name: string, run: (a: number, b: number) => number): Named<Filter> => [
  name,
  (_, value, [by]) => kept(tidy(run(asNumber(value), asNumber(by))), isFraction(value) || isFraction(by)),
];

/** The one of the two that it picks, as it is. */
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

/** As many digits as are asked for; fractions of digits do not count. */
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

/** Sum of numbers, and whether one of them is a fraction. */
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
