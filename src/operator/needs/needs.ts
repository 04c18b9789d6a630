/**
 * Lists what a person should look at: one pure function from facts to items, for the Overview and for `posthorn status`. A further
 * kind of item is a function in the rules of server-needs.ts or account-needs.ts, with its facts in need.ts (read by needs-facts.ts).
 */
import { accountRules } from './account-needs.ts';
import type { AccountFacts, Need, NeedFacts } from './need.ts';
import { serverRules } from './server-needs.ts';

/** Returns the items: first what stands still, then what has the most mail. */
export function needsOf(facts: NeedFacts): Need[] {
  const { server, accounts } = facts;
  const named = (one: Need, { name }: AccountFacts): Need =>
    accounts.length === 1 ? one : { ...one, message: `${name}: ${one.message}` };
  const found = [
    ...(server === null ? [] : serverRules.flatMap((rule) => rule(server, facts))),
    ...accounts.flatMap((of) => accountRules.flatMap((rule) => rule(of, facts).map((one) => named(one, of)))),
  ];
  return found.sort(
    (a, b) =>
      Number(b.level === 'red') - Number(a.level === 'red') || b.mails - a.mails || a.message.localeCompare(b.message),
  );
}
