/**
 * Lists what a person should look at: one pure function from facts to items, for the Overview and for `posthorn status`. A further
 * kind of item is a function in the rules of server-needs.ts or account-needs.ts, with its facts in need.ts (read by needs-facts.ts).
 */
import { accountRules } from './account-needs.ts';
import type { AccountFacts, Need, NeedFacts } from './need.ts';
import { serverRules } from './server-needs.ts';

/** Kinds of items that people made themselves, and undo themselves. */
const own: ReadonlySet<string> = new Set(['held_by_person', 'limited_by_person', 'stream_pause', 'account_pause']);
const levels = { red: 1, amber: 2, grey: 3 } as const;
const rankOf = ({ kind, level }: Need): number => (own.has(kind) ? 0 : levels[level]);

/** Returns the items: first what people have paused, then what stands still, then what has the most mail. */
export function needsOf(facts: NeedFacts): Need[] {
  const { server, accounts } = facts;
  const named = (one: Need, { name }: AccountFacts): Need =>
    accounts.length === 1 ? one : { ...one, message: `${name}: ${one.message}` };
  const found = [
    ...(server === null ? [] : serverRules.flatMap((rule) => rule(server, facts))),
    ...accounts.flatMap((of) => accountRules.flatMap((rule) => rule(of, facts).map((one) => named(one, of)))),
  ];
  return found.sort((a, b) => rankOf(a) - rankOf(b) || b.mails - a.mails || a.message.localeCompare(b.message));
}
