/** The moments in the life of a message at which `npm run torture -- kill` kills the program, and which of them each kill gets. Pure. */

/** In the order in which a message meets them. */
export const phases = [
  'accept before the answer',
  'accept after the answer',
  'dial',
  'claim',
  'MAIL',
  'RCPT',
  'DATA',
  'mid-body',
  'after the dot',
  'after 250',
  'webhook call',
  'bounce intake',
] as const;
export type Phase = (typeof phases)[number];

/** Plans the kills: each phase once in every round, in an order that the random numbers give. */
export function planOf(kills: number, random: () => number): Phase[] {
  const plan: Phase[] = [];
  while (plan.length < kills) {
    const round = phases.map((phase) => ({ phase, at: random() })).sort((a, b) => a.at - b.at);
    plan.push(...round.map(({ phase }) => phase));
  }
  return plan.slice(0, kills);
}

/**
 * Copies beyond the first that promise 3 (docs/delivery.md) does not allow. A kill allows one more copy of each mail that was the last
 * one on its connection, whose outcome may not have been written: `windows` has the number of kills at which a mail was that.
 */
export function beyondPromise(
  copies: ReadonlyMap<string, number>,
  windows: ReadonlyMap<string, number>,
): { copies: number; beyond: string[] } {
  let extra = 0;
  const beyond: string[] = [];
  for (const [id, count] of copies) {
    extra += count - 1;
    if (count - 1 > (windows.get(id) ?? 0)) beyond.push(id);
  }
  return { copies: extra, beyond };
}
