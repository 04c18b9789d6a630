/** The setting `delivery.shaping`: the form of its rules, and of those in config/limits.yaml. */
import { z } from 'zod';
import { count, duration, flag, oneOf, orUnknown, type Kind } from './kind.ts';
import { MINUTE_MS } from '../base/time.ts';

const FORM = '{ name, match: { class, reason, code, text, operator }, count, within, action, for, dryRun }';
const LONGEST_PATTERN = 300;

/** Returns whether the pattern is linear in the text: no backreferences, no look-around, no nested repetition. */
const isQuick = (pattern: string): boolean =>
  !/\\[1-9k]|\(\?[=!<]/.test(pattern) && !/[*+}][^()]{0,300}\)[*+{]/.test(pattern);

function isPattern(written: string): boolean {
  try {
    return isQuick(written) && new RegExp(written, 'i') instanceof RegExp;
  } catch {
    return false;
  }
}

const PATTERN = `a regular expression of at most ${String(LONGEST_PATTERN)} characters without nested repetition, look-around and backreferences`;
const pattern = z
  .string({ error: PATTERN })
  .max(LONGEST_PATTERN, { error: PATTERN })
  .refine(isPattern, { error: PATTERN });

const NAME = 'a name of lower-case letters, digits, _ and -';
const CODE = 'a code such as 421, 4xx or 5.7.1';
const WORD = 'a text of at most 50 characters';
const MATCH = 'one or more of class, reason, code, text and operator';

const word = z.string({ error: WORD }).max(50, { error: WORD });

const rule = z.strictObject(
  {
    name: z.string({ error: NAME }).regex(/^[a-z0-9_-]{1,50}$/, { error: NAME }),
    match: z
      .strictObject(
        {
          class: oneOf('hard', 'soft', 'block', 'undetermined').schema.optional(),
          /** A reason as in the attempt record: `rate_limited`, `reputation`, ... */
          reason: word.optional(),
          code: z
            .string({ error: CODE })
            .regex(/^(?:[45](?:\d\d|xx)|[45]\.\d{1,3}\.(?:\d{1,3}|x))$/, { error: CODE })
            .optional(),
          /** A regular expression; upper and lower case are equal. */
          text: pattern.optional(),
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
    /** Length of a pause, in ms. */
    for: duration('1s', '7d').schema.default(15 * MINUTE_MS),
    /** If true, the action is only logged. */
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
