/** How long the mail of a domain stood still in `npm run torture:nodes`. Pure. */

/** A mail of which a client knows that it was accepted. Times are of one clock, in ms. */
export interface Waiting {
  domain: string;
  acceptedAt: number;
  /** Its first arrival; Infinity where it has not come. */
  arrivedAt: number;
}

/** The longest time in which mail for one domain waited and none for it arrived. */
export interface Standstill {
  ms: number;
  domain: string | null;
}

export function longestStandstill(mails: readonly Waiting[], from: number, to: number): Standstill {
  const longest: Standstill = { ms: 0, domain: null };
  const byDomain = new Map<string, Waiting[]>();
  for (const mail of mails) {
    const of = byDomain.get(mail.domain);
    if (of === undefined) byDomain.set(mail.domain, [mail]);
    else of.push(mail);
  }
  for (const [domain, of] of byDomain) {
    const ms = standstillOf(of, from, to);
    if (ms > longest.ms) Object.assign(longest, { ms, domain });
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
