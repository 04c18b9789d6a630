/** Decides whether a mail may go now, and what it waits for: a pure function of the limits that stand, the mail and the time. */
import { MINUTE_MS } from '../../base/time.ts';
import { covers, isClosing, isWhole, keyOf, stands, type Limit, type MailKey } from '../../messages/limits/limit.ts';
import { PROBE_LOOK_MS } from './learn.ts';

export interface LaneMoment {
  /** The keys of limits that are over, and of which one mail finds out now whether it may go. */
  readonly probes: ReadonlySet<string>;
  /** The mails of the last minute of a recipient domain, or of the lane. */
  readonly trafficOf: (domain: string | null) => Traffic | null;
  /** When a mail may go as far as the mails of the hour or the day are counted; 0 is now. */
  readonly fullUntil: (limit: Limit, mail: MailKey | null) => number;
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

function waitsUntil(limit: Limit, mail: MailKey | null, moment: LaneMoment, now: number): number {
  const { probes, trafficOf } = moment;
  if (limit.kind === 'count') return moment.fullUntil(limit, mail);
  if (limit.kind === 'limit') return limit.perMinute === null ? 0 : (trafficOf(null)?.spreadAt(now) ?? 0);
  if (limit.kind === 'rate') return Math.max(limit.until, trafficOf(limit.domain)?.readyAt(limit.perMinute, now) ?? 0);
  if (now < limit.until) return limit.until;
  return mail !== null && isProbed(limit) && probes.has(keyOf(limit)) ? now + PROBE_LOOK_MS : 0;
}

/** Mails that were accepted within one second, which is counted from the epoch. */
interface AcceptedMails {
  readonly second: number;
  mails: number;
}

/** Longer than a minute, since the receiver's minute begins later than ours. */
const SECONDS = 62;
/** There are thousands of lanes, and most of them accept a mail now and then. */
const none: readonly AcceptedMails[] = [];
/** Mails that were due within so many ms go together after the machine was busy. */
const LATE_MS = 300;

export class Traffic {
  /** Oldest first. */
  private accepted: readonly AcceptedMails[] = none;
  private inFlight = 0;
  /** When the next mail may go so that the mails of a minute are spread evenly. */
  private nextAt: number;

  constructor(now: number) {
    this.nextAt = now;
  }

  get isBusy(): boolean {
    return this.inFlight > 0;
  }

  begin(perMinute: number | null, now: number): void {
    this.inFlight++;
    const gap = perMinute === null ? 0 : MINUTE_MS / perMinute;
    // A mail that begins a little late does not put off all that follow.
    this.nextAt = Math.max(this.nextAt, now - Math.max(gap, LATE_MS)) + gap;
  }

  putBack(perMinute: number | null): void {
    this.end();
    if (perMinute !== null) this.nextAt -= MINUTE_MS / perMinute;
  }

  end(): void {
    this.inFlight = Math.max(0, this.inFlight - 1);
  }

  take(now: number): void {
    this.end();
    const second = Math.floor(now / 1000);
    const last = this.accepted.at(-1);
    if (last?.second === second) last.mails++;
    else this.accepted = [...this.accepted.filter((one) => isRecent(one, now)), { second, mails: 1 }];
  }

  /** Returns the mails that were accepted in the last minute, or within so many ms, in whole seconds. */
  lastMinute(now: number, ms = SECONDS * 1000): number {
    return this.accepted.reduce((sum, one) => (isRecent(one, now, ms) ? sum + one.mails : sum), 0);
  }

  /** Returns when the next mail may begin so that they are spread evenly: now or later. */
  spreadAt(now: number): number {
    return Math.max(now, this.nextAt);
  }

  /** Returns when the next mail may begin at a receiver's rate: now or later. */
  readyAt(perMinute: number | null, now: number): number {
    if (perMinute === null) return now;
    const spread = this.spreadAt(now);
    const accepted = this.lastMinute(now);
    if (accepted + this.inFlight < perMinute) return spread;
    // Mails that are under way may be refused.
    if (accepted < perMinute) return Math.max(spread, now + PROBE_LOOK_MS);
    const oldest = this.accepted.find((one) => isRecent(one, now));
    return Math.max(spread, oldest === undefined ? now + 1000 : (oldest.second + SECONDS) * 1000);
  }

  /** Notes that nothing goes before then: of what is due meanwhile one mail is made up for. */
  rest(until: number, perMinute: number): void {
    this.nextAt = Math.max(this.nextAt, until - MINUTE_MS / perMinute);
  }

  /** Lets the next mail go at once. */
  forgetSpread(): void {
    this.nextAt = 0;
  }

  /** Moves all times by `ms`, by which the clock was set. */
  shift(ms: number): void {
    this.nextAt += ms;
    this.accepted = none;
  }
}

const isRecent = ({ second }: AcceptedMails, now: number, ms = SECONDS * 1000): boolean =>
  second > Math.floor((now - ms) / 1000);
