/** The setting `delivery.shaping`: the form of its rules, and of those in config/limits.yaml. */
import { z } from 'zod';
import { count, duration, flag, oneOf, orUnknown, textThat, type Kind } from './kind.ts';
import { MINUTE_MS } from '../base/time.ts';

const FORM = '{ name, match: { class, reason, code, text, operator }, count, within, action, for, dryRun }';
const LONGEST_PATTERN = 300;

/** Returns whether the pattern is linear in the text: no backreferences, no look-around, no nested repetition. */
const isQuick = (pattern: string): boolean =>
  !/\\[1-9k]|\(\?[=!<]/.test(pattern) && !/[*+}][^()]{0,300}\)[*+{]/.test(pattern);

function isPattern(written: string): boolean {
  try {
    return written.length <= LONGEST_PATTERN && isQuick(written) && new RegExp(written, 'i') instanceof RegExp;
  } catch {
    return false;
  }
}

const PATTERN = `a regular expression of at most ${String(LONGEST_PATTERN)} characters without nested repetition, look-around and backreferences`;
const MATCH = 'one or more of class, reason, code, text and operator';
const CODE = /^(?:[45](?:\d\d|xx)|[45]\.\d{1,3}\.(?:\d{1,3}|x))$/;

const word = textThat('a text of at most 50 characters', ({ length }) => length <= 50);

export const ruleName = textThat('a name of lower-case letters, digits, _ and -', (text) =>
  /^[a-z0-9_-]{1,50}$/.test(text),
);

const rule = z.strictObject(
  {
    name: ruleName,
    match: z
      .strictObject(
        {
          class: oneOf('hard', 'soft', 'block', 'undetermined').schema.optional(),
          /** A reason as in the attempt record: `rate_limited`, `reputation`, ... */
          reason: word.optional(),
          code: textThat('a code such as 421, 4xx or 5.7.1', (text) => CODE.test(text)).optional(),
          /** A regular expression; upper and lower case are equal. */
          text: textThat(PATTERN, isPattern).optional(),
          operator: word.optional(),
        },
        { error: orUnknown(MATCH) },
      )
      .refine((match) => Object.values(match).some((one) => one !== undefined), { error: MATCH }),
    /** The number of replies ... */
    count: count(1, 10_000).schema,
    /** ... within this time, in ms. */
    within: duration('1s', '1d').schema,
    /** `slow`: half the connections. `pause`: none for a while. `alarm`: only the log line, which the others write too. */
    action: oneOf('slow', 'pause', 'alarm').schema,
    for: duration('1s', '7d').schema.default(15 * MINUTE_MS),
    dryRun: flag().schema.default(false),
  },
  { error: orUnknown(FORM) },
);

export type ShapingRule = z.output<typeof rule>;

/** The list of rules; each is checked for every reply. */
export function shapingRules(): Kind<ShapingRule[]> {
  const expected = `at most 100 rules, each ${FORM}`;
  return {
    form: 'list',
    expected,
    unit: null,
    schema: z.array(rule, { error: expected }).max(100, { error: expected }),
  };
}
