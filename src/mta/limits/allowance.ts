/** Decides whether a mail may go now, and what it waits for: a pure function of the limits that stand, the mail and the time. */
import { covers, isClosing, isWhole, keyOf, stands, type Limit, type MailKey } from '../../messages/limits/limit.ts';
import { PROBE_LOOK_MS } from './learn.ts';
import type { Traffic } from './traffic.ts';

/** The state of a lane beside its limits. */
export interface LaneMoment {
  /** The keys of limits that are over, and of which one mail finds out now whether it may go. */
  readonly probes: ReadonlySet<string>;
  /** The mails of the last minute of a recipient domain, or of the lane. */
  readonly trafficOf: (domain: string | null) => Traffic | null;
}

export type Allowance =
  /** It may go. `probed`: the limits of which it finds out whether they are over. */
  { kind: 'go'; probed: readonly Limit[] } | { kind: 'wait'; limit: Limit; until: number };

const goes: Allowance = { kind: 'go', probed: [] };

/** Returns whether the mail may go, or the lane as a whole if `mail` is null: then limits of a part of it do not count. */
export function allowance(limits: Iterable<Limit>, mail: MailKey | null, moment: LaneMoment, now: number): Allowance {
  let probed: Limit[] | null = null;
  let wait: Extract<Allowance, { kind: 'wait' }> | null = null;
  for (const limit of limits) {
    if (
      !stands(limit) ||
      limit.kind === 'connections' ||
      limit.kind === 'hold' ||
      !(mail === null ? isWhole(limit) : covers(limit, mail))
    )
      continue;
    const until = waitsUntil(limit, mail, moment, now);
    if (until > now && (wait === null || until > wait.until)) wait = { kind: 'wait', limit, until };
    else if (isProbed(limit)) (probed ??= []).push(limit);
  }
  return wait ?? (probed === null ? goes : { kind: 'go', probed });
}

/** Returns how many connections the limits allow. */
export function connectionsOf(limits: Iterable<Limit>): number {
  let most = Infinity;
  for (const limit of limits) {
    if (!stands(limit) || !isWhole(limit)) continue;
    if (limit.connections !== null) most = Math.min(most, limit.connections);
    if (isProbed(limit)) most = 1;
  }
  return most;
}

/** Returns whether one mail has to find out whether the limit is over. A rule's pause ends by itself. */
export const isProbed = (limit: Limit): boolean => isClosing(limit) && limit.kind !== 'rule' && stands(limit);

/** Returns the mails a minute that a node may send: what is set by hand is divided between the nodes, at least one each, so that none waits for ever. */
export const shareOf = ({ by, perMinute }: Limit, nodes: number): number | null =>
  perMinute === null || by !== 'operator' ? perMinute : Math.max(1, perMinute / nodes);

function waitsUntil(limit: Limit, mail: MailKey | null, { probes, trafficOf }: LaneMoment, now: number): number {
  if (limit.kind === 'limit') return limit.perMinute === null ? 0 : (trafficOf(null)?.spreadAt(now) ?? 0);
  if (limit.kind === 'rate') return Math.max(limit.until, trafficOf(limit.domain)?.readyAt(limit.perMinute, now) ?? 0);
  if (now < limit.until) return limit.until;
  return mail !== null && isProbed(limit) && probes.has(keyOf(limit)) ? now + PROBE_LOOK_MS : 0;
}
