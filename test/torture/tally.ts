/** Writes the findings of `npm run torture -- kill` as a table and as JSON. Pure. */
import { phases, type Phase } from './phases.ts';

export interface PhaseTally {
  planned: number;
  /** Kills at the moment itself; the others came because the moment did not come in time. */
  hit: number;
  /** Mails that were the last ones on their connection at these kills. */
  inFlight: number;
}

export interface Tally {
  seed: number;
  kills: number;
  phases: Record<Phase, PhaseTally>;
  accepted: number;
  lost: number;
  secondCopies: number;
  /** Copies that promise 3 of docs/delivery.md does not allow. */
  beyondPromise: number;
  /** Requests that a kill left without an answer, by what was found when they were repeated. */
  unanswered: { hadCommitted: number; hadNotCommitted: number };
  bounces: { acknowledged: number; lost: number };
  webhooks: { delivered: number; missing: number };
  problems: string[];
}

export const emptyPhases = (): Record<Phase, PhaseTally> =>
  Object.fromEntries(phases.map((phase) => [phase, { planned: 0, hit: 0, inFlight: 0 }])) as Record<Phase, PhaseTally>;

export function tallyText(tally: Tally): string {
  const row = (cells: readonly (string | number)[]): string =>
    cells.map((cell, place) => (place === 0 ? String(cell).padEnd(26) : String(cell).padStart(9))).join(' ');
  const { unanswered, bounces, webhooks } = tally;
  return [
    row(['phase', 'kills', 'hit', 'in flight']),
    ...phases
      .filter((phase) => tally.phases[phase].planned > 0)
      .map((phase) => {
        const { planned, hit, inFlight } = tally.phases[phase];
        return row([phase, planned, hit, inFlight]);
      }),
    `without an answer: ${String(unanswered.hadCommitted)} were committed, ${String(unanswered.hadNotCommitted)} were not; each was sent again with its key`,
    `bounces: ${String(bounces.acknowledged)} acknowledged, ${String(bounces.lost)} lost; webhooks: ${String(webhooks.delivered)} deliveries told, ${String(webhooks.missing)} not`,
    `${String(tally.kills)} kills: ${String(tally.accepted)} accepted, ${String(tally.lost)} lost, ${String(tally.secondCopies)} second copies (${String(tally.beyondPromise)} beyond promise 3), seed ${String(tally.seed)}`,
  ].join('\n');
}
