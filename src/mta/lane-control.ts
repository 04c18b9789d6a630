/**
 * What each lane may do now: how many connections, how many mails a minute, whether it rests. What it has learnt from replies
 * and from the operator comes together here, and every change of a limit is logged and kept with its cause.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { LaneLimits } from '../messages/hold-book.ts';
import type { Outcome } from '../messages/delivery.ts';
import type { Breaker } from './breaker.ts';
import { hostKey } from './deliver.ts';
import { begun, newPace, quickened, readyAt, slowed, type Pace } from './pace.ts';
import { shape, type CompiledRule, type Fired, type ShapingMemory } from './shaping.ts';
import type { Site } from './sites.ts';
import {
  asksForLess,
  asksForSlowness,
  newThrottle,
  pushedBack,
  succeeded,
  type Throttle,
  type ThrottleLimits,
} from './throttle.ts';

/** One change of a lane's limits. */
export interface LaneChange {
  at: number;
  what: 'connections' | 'pace' | 'pause' | 'rule' | 'source';
  /** What it is from then on, in words: `4 connections`. */
  to: string;
  cause: string;
}

/** A lane's limits for people; times in ms since the epoch. */
export interface LaneLimitsReport {
  /** The source it sends by; null for the system's address. */
  source: string | null;
  limit: number;
  cause: string;
  causeAt: number | null;
  /** Mails a minute, or null where nothing limits them. */
  perMinute: number | null;
  /** Until when no mail is tried: every host is left alone, or the lane rests. */
  parkedUntil: number | null;
  lastReply: string | null;
  lastProgressAt: number;
}

interface LaneState {
  site: Site | null;
  /** The source it sends by; null for the system's address. */
  source: string | null;
  throttle: Throttle;
  pace: Pace;
  shaping: ShapingMemory;
  restUntil: number;
  parkedUntil: number | null;
  timer: Timer | null;
  timerAt: number;
  lastReply: string | null;
  lastProgressAt: number;
  changes: LaneChange[];
}

export interface LaneControl {
  /** A lane is met on the way to this site, by this source. */
  meet(lane: string, site: Site, source: string | null): void;
  /** What the lane leads to, where it is known. */
  wayOf(lane: string): { site: string; source: string | null } | null;
  /** Workers it may have now. */
  slots(lane: string): number;
  /** A mail is about to be tried. */
  begin(lane: string): void;
  /** What became of it. */
  note(lane: string, outcome: Outcome): void;
  /** A connection more than those that stand was refused: no mail has been tried. */
  refused(lane: string, reply: string): void;
  /** Something happened to the lane's source. */
  told(lane: string, to: string, cause: string): void;
  report(lane: string): LaneLimitsReport | null;
  /** The changes of a lane's limits, oldest first; of all lanes without a name. */
  history(lane: string): LaneChange[];
  parkedUntil(lane: string): number | null;
  /** The clock was set to another time, so many ms on: rests and paces last as long as before. */
  shift(ms: number): void;
  /** Whether some lane rests. */
  readonly someParked: boolean;
  /** What a lane has learnt outlives its mail, but not without bound. */
  forgetOld(): void;
  stop(): void;
}

export interface LaneControlDeps {
  clock: Clock;
  log: Log;
  breaker: Breaker;
  /** What the operator allows a lane. */
  limitsOf: (lane: string) => LaneLimits | null;
  /** The lane may go on. */
  pump(lane: string): void;
}

export interface LaneControlOptions {
  lane: ThrottleLimits;
  rules: readonly CompiledRule[];
  /** For lanes that need no network. */
  innerSlots: number;
}

const MOST_LANE_STATES = 10_000;
const MOST_CHANGES = 100;

export function createLaneControl(deps: LaneControlDeps, options: LaneControlOptions): LaneControl {
  const { clock, log, breaker } = deps;
  const states = new Map<string, LaneState>();

  function stateOf(lane: string): LaneState {
    const known = states.get(lane);
    if (known !== undefined) return known;
    const now = clock.now();
    const state: LaneState = {
      site: null,
      source: null,
      throttle: newThrottle(options.lane, now),
      pace: newPace(now),
      shaping: new Map(),
      restUntil: 0,
      parkedUntil: null,
      timer: null,
      timerAt: 0,
      lastReply: null,
      lastProgressAt: now,
      changes: [],
    };
    states.set(lane, state);
    return state;
  }

  const limitsOf = ({ site }: LaneState): ThrottleLimits => {
    const max = site?.operator?.maxConnections ?? options.lane.max;
    return { initial: Math.min(options.lane.initial, max), max };
  };

  function changed(lane: string, state: LaneState, change: Omit<LaneChange, 'at'>): void {
    state.changes.push({ at: clock.now(), ...change });
    if (state.changes.length > MOST_CHANGES) state.changes.shift();
    log.info({ event: 'lane_changed', lane, ...change }, 'the limits of a lane have changed');
  }

  function throttled(lane: string, state: LaneState, throttle: Throttle): void {
    const before = state.throttle;
    state.throttle = throttle;
    if (throttle.limit === before.limit) return;
    changed(lane, state, { what: 'connections', to: connections(throttle.limit), cause: throttle.cause });
    if (throttle.limit > before.limit) deps.pump(lane);
  }

  function paced(lane: string, state: LaneState, pace: Pace, cause: string): void {
    const before = state.pace.perMinute;
    state.pace = pace;
    if (pace.perMinute === before) return;
    const to = pace.perMinute === null ? 'no limit of mails' : `${String(pace.perMinute)} mails a minute`;
    changed(lane, state, { what: 'pace', to, cause });
  }

  /** The lane rests until then; it is looked at again at that time. */
  function wakeAt(lane: string, state: LaneState, at: number): void {
    if (state.timer !== null && state.timerAt <= at) return;
    state.timer?.cancel();
    state.timerAt = at;
    state.timer = clock.after(at - clock.now(), () => {
      state.timer = null;
      deps.pump(lane);
    });
  }

  /** Parked: while every host of its site is left alone, or it rests by a rule, its mail waits without spending attempts. */
  function parkedUntil(state: LaneState): number | null {
    const now = clock.now();
    const hosts = (state.site?.hosts ?? []).map((host) => breaker.readyAt(hostKey(host, state.source), now));
    const ready = Math.max(state.restUntil, hosts.length === 0 ? 0 : Math.min(...hosts));
    return ready > now ? ready : null;
  }

  function act(lane: string, state: LaneState, { rule, reply }: Fired): void {
    const { name, action, dryRun } = rule;
    log.warn({ event: 'shaping_rule', lane, rule: name, action, dry_run: dryRun, reply }, 'a shaping rule applies');
    if (dryRun || action === 'alarm') {
      changed(lane, state, { what: 'rule', to: dryRun ? `dry run: ${action}` : 'alarm', cause: `${name}: ${reply}` });
      return;
    }
    if (action === 'slow') {
      throttled(lane, state, pushedBack(state.throttle, `${name}: ${reply}`, clock.now()));
      return;
    }
    state.restUntil = Math.max(state.restUntil, clock.now() + rule.for);
    const to = `rests until ${new Date(state.restUntil).toISOString()}`;
    changed(lane, state, { what: 'pause', to, cause: `${name}: ${reply}` });
  }

  function askedForLess(lane: string, state: LaneState, reply: string): void {
    if (asksForSlowness(reply)) paced(lane, state, slowed(state.pace, clock.now()), reply.slice(0, 200));
    else throttled(lane, state, pushedBack(state.throttle, reply, clock.now()));
  }

  return {
    meet(lane, site, source) {
      const state = stateOf(lane);
      state.site = site;
      state.source = source;
    },
    wayOf(lane) {
      const state = states.get(lane);
      return state?.site == null ? null : { site: state.site.name, source: state.source };
    },
    slots(lane) {
      const state = states.get(lane);
      if (state?.site == null) return options.innerSlots;
      state.parkedUntil = parkedUntil(state);
      const given = deps.limitsOf(lane);
      const paceAt = readyAt(state.pace, given?.perMinute ?? null, clock.now());
      const at = Math.max(state.parkedUntil ?? 0, paceAt > clock.now() ? paceAt : 0);
      if (at > 0) {
        wakeAt(lane, state, at);
        return 0;
      }
      return Math.min(state.throttle.limit, given?.connections ?? Infinity);
    },
    begin(lane) {
      const state = states.get(lane);
      if (state?.site == null) return;
      state.pace = begun(state.pace, deps.limitsOf(lane)?.perMinute ?? null, clock.now());
    },
    note(lane, outcome) {
      const state = stateOf(lane);
      const now = clock.now();
      state.lastProgressAt = now;
      state.lastReply = outcome.facts.smtpReply;
      if (outcome.kind === 'accepted') {
        throttled(lane, state, succeeded(state.throttle, limitsOf(state), now));
        paced(lane, state, quickened(state.pace, now), 'a quiet minute');
        return;
      }
      const { smtpCode, enhancedCode, smtpReply } = outcome.facts;
      const reason = outcome.kind === 'deferred' ? outcome.verdict.reason : '';
      const isGreylisted = outcome.kind === 'deferred' && outcome.grounds?.greylisting === true;
      if (!isGreylisted && asksForLess(smtpCode, enhancedCode, smtpReply ?? '', reason))
        askedForLess(lane, state, smtpReply ?? '');
      for (const fired of shape(options.rules, state.shaping, state.site?.operator?.name ?? null, outcome, now))
        act(lane, state, fired);
    },
    refused(lane, reply) {
      const state = stateOf(lane);
      state.lastReply = reply;
      askedForLess(lane, state, reply);
    },
    told(lane, to, cause) {
      changed(lane, stateOf(lane), { what: 'source', to, cause });
    },
    report(lane) {
      const state = states.get(lane);
      if (state?.site == null) return null;
      const given = deps.limitsOf(lane);
      const { throttle, pace, lastReply, lastProgressAt } = state;
      const isGiven = given?.connections != null && given.connections < throttle.limit;
      const paces = [pace.perMinute, given?.perMinute ?? null].filter((one) => one !== null);
      return {
        source: state.source,
        limit: isGiven ? (given.connections ?? throttle.limit) : throttle.limit,
        cause: isGiven ? 'set by the operator' : throttle.cause,
        causeAt: throttle.causeAt,
        perMinute: paces.length === 0 ? null : Math.min(...paces),
        parkedUntil: parkedUntil(state),
        lastReply,
        lastProgressAt,
      };
    },
    history: (lane) => [...(states.get(lane)?.changes ?? [])],
    parkedUntil(lane) {
      const state = states.get(lane);
      return state === undefined ? null : parkedUntil(state);
    },
    shift(ms) {
      for (const state of states.values()) {
        const { throttle, pace } = state;
        if (state.restUntil > 0) state.restUntil += ms;
        state.timerAt += ms;
        const { halvedAt, probeAt } = throttle;
        state.throttle = { ...throttle, halvedAt: halvedAt === null ? null : halvedAt + ms, probeAt: probeAt + ms };
        state.pace = { ...pace, changedAt: pace.changedAt + ms, nextAt: pace.nextAt + ms, minute: pace.minute + ms };
        state.lastProgressAt += ms;
      }
    },
    get someParked() {
      return [...states.values()].some((state) => state.parkedUntil !== null);
    },
    forgetOld() {
      for (const [name, state] of states) {
        if (states.size <= MOST_LANE_STATES) return;
        state.timer?.cancel();
        states.delete(name);
      }
    },
    stop() {
      for (const state of states.values()) state.timer?.cancel();
    },
  };
}

const connections = (count: number): string => (count === 1 ? '1 connection' : `${String(count)} connections`);
