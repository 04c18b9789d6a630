/** The setting `plans`: what an account may ask of the API. */
import { z } from 'zod';
import { map, orUnknown } from './kind.ts';

const AMOUNT = { error: 'a whole number from 1' };
const amount = z.int(AMOUNT).min(1, AMOUNT);
const PLAN_FORM = '{ requestsPerMinute, mailsPerDay, mailsPerMonth }';
const plan = z.strictObject(
  {
    requestsPerMinute: amount,
    mailsPerDay: amount.nullable().default(null),
    mailsPerMonth: amount.nullable().default(null),
  },
  { error: orUnknown(PLAN_FORM) },
);

/** A plan: what an account may ask of the API. `null` mails mean no limit. */
type Plan = Readonly<z.output<typeof plan>>;

const requestsOnly = (requestsPerMinute: number): Plan => ({
  requestsPerMinute,
  mailsPerDay: null,
  mailsPerMonth: null,
});

/** Plans that are always there; one of the same name in the settings takes its place. `unlimited` is a number too, since headers show it. */
export const BUILT_IN_PLANS: Readonly<Record<string, Plan>> = {
  starter: requestsOnly(120),
  standard: requestsOnly(600),
  pro: requestsOnly(6000),
  unlimited: requestsOnly(1_000_000),
};

export const plans = map(plan, {
  expected: PLAN_FORM,
  key: 'a plan name of lower-case letters, digits and hyphens',
  isKey: (name) => /^[a-z][a-z0-9-]{0,31}$/.test(name),
});
