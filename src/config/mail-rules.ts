/** The setting `delivery.limits`: the form of its rules, and of those in config/limits.yaml. */
import { z } from 'zod';
import { count, duration, orUnknown, textThat, type Kind } from './kind.ts';
import { ruleName } from './shaping.ts';

const FORM = '{ name, match: { operator, source, domain, account, stream }, each, perHour, perDay, retry, maxAge }';
const part = textThat('a text of 1 to 253 characters', ({ length }) => length > 0 && length <= 253).optional();
const mails = count(1, 1_000_000_000).schema.optional();

const mailRule = z
  .strictObject(
    {
      name: ruleName,
      /** The mail that it is about: all of these, and any mail without one. `stream` is a slug. */
      match: z
        .strictObject(
          { operator: part, source: part, domain: part, account: part, stream: part },
          { error: orUnknown('some of operator, source, domain, account and stream') },
        )
        .default({}),
      /** Mail that differs in one of these is counted apart. */
      each: z
        .array(z.enum(['source', 'site', 'domain', 'account', 'stream']), {
          error: 'a list of source, site, domain, account and stream',
        })
        .readonly()
        .default([]),
      perHour: mails,
      perDay: mails,
      /** Waits between the tries, and the age at which mail is given up, in ms. */
      retry: z.array(duration('10s', '7d').schema).min(1).max(100).readonly().optional(),
      maxAge: duration('1m', '30d').schema.optional(),
    },
    { error: orUnknown(FORM) },
  )
  .refine((rule) => [rule.perHour, rule.perDay, rule.retry, rule.maxAge].some((one) => one !== undefined), {
    error: 'one or more of perHour, perDay, retry and maxAge',
  })
  // Waits and ages are decided when a mail is accepted, before DNS tells its operator and its source.
  .refine(
    ({ match, retry, maxAge }) => (retry ?? maxAge) === undefined || (match.operator ?? match.source) === undefined,
    {
      error: 'retry and maxAge with no operator and no source in match',
    },
  );

/** A rule about mail: how much of it may go in an hour or a day (UTC), how often it is tried and when it is given up. */
export type MailRule = z.output<typeof mailRule>;

/** The setting `delivery.limits`, and the list of that name in config/limits.yaml. */
export function mailRules(): Kind<MailRule[]> {
  const expected = `at most 1,000 rules, each ${FORM} with a name of its own`;
  const schema = z
    .array(mailRule, { error: expected })
    .max(1000, { error: expected })
    .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, { error: expected });
  return { form: 'list', expected, unit: null, schema };
}
