/** Changes the limits of lanes. Each change is logged and kept with its cause. */
import type { LaneControlDeps } from './lane-control.ts';
import type { LaneChange } from '../../messages/delivery/lane-report.ts';
import type { LaneState } from './lane-state.ts';
import type { Pace } from './pace.ts';
import type { Rest, RestKind } from './rests.ts';
import type { Fired } from './shaping.ts';
import { pushedBack, type Throttle } from './throttle.ts';

export type LaneChangesDeps = Pick<LaneControlDeps, 'clock' | 'log' | 'shares' | 'pump'>;

/** Changes that are kept of a lane. */
const MOST_CHANGES = 100;

export class LaneChanges {
  private readonly deps: LaneChangesDeps;

  constructor(deps: LaneChangesDeps) {
    this.deps = deps;
  }

  note(lane: string, state: LaneState, change: Omit<LaneChange, 'at'>): void {
    state.changes.push({ at: this.deps.clock.now(), ...change });
    if (state.changes.length > MOST_CHANGES) state.changes.shift();
    this.deps.log.info({ event: 'lane_changed', lane, ...change }, 'the limits of a lane have changed');
  }

  setThrottle(lane: string, state: LaneState, throttle: Throttle, cause = throttle.cause): void {
    const before = state.throttle;
    state.throttle = throttle;
    if (throttle.limit === before.limit) return;
    this.note(lane, state, { what: 'connections', to: countConnections(throttle.limit), cause });
    if (throttle.limit > before.limit) this.deps.pump(lane);
    // The other nodes that send there have to lower their connections as well.
    else this.deps.shares.soon(lane);
  }

  setPace(lane: string, state: LaneState, pace: Pace, cause: string): void {
    const before = state.pace.perMinute;
    state.pace = pace;
    if (pace.perMinute === before) return;
    const to = pace.perMinute === null ? 'no limit of mails' : `${String(pace.perMinute)} mails a minute`;
    this.note(lane, state, { what: 'pace', to, cause });
  }

  noteRest(lane: string, state: LaneState, rest: Rest): void {
    const { kind, account, domain, until, cause } = rest;
    rest.loggedStep = rest.step;
    const scope = [account === null ? [] : `account ${account}`, domain === null ? [] : `domain ${domain}`].flat();
    const part = scope.length === 0 ? '' : ` for ${scope.join(', ')}`;
    const to = `rests until ${new Date(until).toISOString()}${part}`;
    this.note(lane, state, { what: 'pause', to, cause });
    this.deps.log[kind === 'rate' ? 'info' : 'error'](
      { event: 'lane_rests', lane, kind, account, domain, until: new Date(until).toISOString(), reply: cause },
      restMessages[kind],
    );
  }

  /** Does what a shaping rule says whose threshold was reached. */
  applyRule(lane: string, state: LaneState, { rule, reply }: Fired): void {
    const { clock, log } = this.deps;
    const { name, action, dryRun } = rule;
    const cause = `${name}: ${reply}`;
    log.warn({ event: 'shaping_rule', lane, rule: name, action, dry_run: dryRun, reply }, 'a shaping rule applies');
    if (dryRun || action === 'alarm') {
      this.note(lane, state, { what: 'rule', to: dryRun ? `dry run: ${action}` : 'alarm', cause });
      return;
    }
    const now = clock.now();
    if (action === 'slow') {
      this.setThrottle(lane, state, pushedBack(state.throttle, cause, now));
      return;
    }
    const until = Math.max(state.ruleRest?.until ?? 0, now + rule.for);
    state.ruleRest = { until, since: now, cause };
    this.note(lane, state, { what: 'pause', to: `rests until ${new Date(until).toISOString()}`, cause });
  }
}

export const countConnections = (count: number): string =>
  count === 1 ? '1 connection' : `${String(count)} connections`;

const restMessages: Readonly<Record<RestKind, string>> = {
  sender: 'a receiver refuses mail from us again and again: mail for it waits, and one mail tries from time to time',
  load: 'a receiver cannot take mail now: mail for it waits, and one mail tries from time to time',
  rate: 'a domain takes only so much mail in a time: its mail waits, and one mail tries from time to time',
  tls: 'mail hosts do not have the TLS that is asked for: mail for them waits, and one mail tries from time to time',
};
