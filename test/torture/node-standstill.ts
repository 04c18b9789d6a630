/** How long mail stood still in `npm run torture -- nodes`. Pure. */
import type { Accepted } from './node-clients.ts';
import type { Arrival } from './node-site.ts';

/** A mail of which a client knows that it was accepted. Times are of one clock, in ms. */
export interface Waiting {
  /** The key that mail is counted by: its domain, or the node that had its domain. */
  group: string;
  acceptedAt: number;
  /** Its first arrival; Infinity where it has not come. */
  arrivedAt: number;
}

/** The longest time in which mail of one group waited and none of it arrived. */
export interface Standstill {
  ms: number;
  group: string | null;
}

export function longestStandstill(mails: readonly Waiting[], from: number, to: number): Standstill {
  const longest: Standstill = { ms: 0, group: null };
  const byGroup = new Map<string, Waiting[]>();
  for (const mail of mails) {
    const of = byGroup.get(mail.group);
    if (of === undefined) byGroup.set(mail.group, [mail]);
    else of.push(mail);
  }
  for (const [group, of] of byGroup) {
    const ms = standstillOf(of, from, to);
    if (ms > longest.ms) Object.assign(longest, { ms, group });
  }
  return longest;
}

function standstillOf(mails: readonly Waiting[], from: number, to: number): number {
  // A mail may arrive before its client hears that it was accepted.
  const steps = mails
    .flatMap(({ acceptedAt, arrivedAt }) => [
      { at: Math.min(acceptedAt, arrivedAt), by: 1 },
      { at: arrivedAt, by: -1 },
    ])
    .filter(({ at }) => at <= to)
    .sort((a, b) => a.at - b.at || b.by - a.by);
  let waiting = 0;
  let since = from;
  let longest = 0;
  for (const { at, by } of [...steps, { at: to, by: 0 }]) {
    if (waiting > 0 && (by <= 0 || at === to)) longest = Math.max(longest, at - Math.max(since, from));
    if (by < 0 || waiting === 0) since = at;
    waiting += by;
  }
  return longest;
}

/** Returns the mails with the times at which they were accepted and first arrived, in groups of domains; of one domain each where left out. */
export function waitingMails(
  accepted: ReadonlyMap<string, Accepted>,
  arrivals: readonly Arrival[],
  groupOf: (domain: string) => string = (domain) => domain,
): Waiting[] {
  const first = new Map<string, number>();
  for (const { id, at } of arrivals) if (!first.has(id)) first.set(id, at);
  return [...accepted].map(([mark, { domain, at }]) => ({
    group: groupOf(domain),
    acceptedAt: at,
    arrivedAt: first.get(mark) ?? Infinity,
  }));
}

/** Returns the node that brought the last mail to each domain before this time. */
export function nodesBefore(arrivals: readonly Arrival[], time: number): Map<string, string> {
  const found = new Map<string, string>();
  for (const { domain, node, at } of arrivals) if (at < time && node !== null) found.set(domain, node);
  return found;
}
