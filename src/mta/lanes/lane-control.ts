/**
 * What each lane may do now: how many connections, how many mails a minute, which of its mail rests. What is learnt from answers
 * and what the operator sets come together here, and every change of a limit is logged and kept with its cause. What an answer is
 * about says who waits for it (docs/delivery.md, "What a reply teaches"): only answers about the receiver as a whole, or about us
 * as its sender, touch the lane.
 */
import type { Clock } from '../../base/clock.ts';
import type { LaneView } from '../../scheduling/lanes.ts';
import type { Log } from '../../base/log.ts';
import type { LaneLimits } from '../../messages/delivery/hold-book.ts';
import type { Outcome, Subject } from '../../messages/delivery/delivery.ts';
import { isDown } from '../connection/dial-gate.ts';
import type { Pool } from '../connection/pool.ts';
import { hostKey } from '../attempt/deliver.ts';
import type { LaneChange, LaneControl, LaneState } from './lane-state.ts';
import { reportOf, waitsOf } from './lane-waits.ts';
import { begun, ended, forgotten, newPace, putBack, readyAt, shifted, slowed, taken, type Pace } from './pace.ts';
import { createRests, type Part, type Rest, type RestKind } from './rests.ts';
import { shape, type CompiledRule, type Fired } from './shaping.ts';
import { newThrottle, pushedBack, succeeded, type Throttle, type ThrottleLimits } from './throttle.ts';

export interface LaneControlDeps {
  clock: Clock;
  log: Log;
  pool: Pick<Pool, 'room' | 'usedBy' | 'waitingLong' | 'waitOf' | 'capOf' | 'tryNow'>;
  /** What the operator allows a lane. */
  limitsOf: (lane: string) => LaneLimits | null;
  /** Jobs and workers of a lane. */
  viewOf(lane: string): LaneView;
  /** The lane may go on. */
  pump(lane: string): void;
  /** Mail that rests may be looked at again. */
  wake(): void;
}

export interface LaneControlOptions {
  lane: ThrottleLimits;
  rules: readonly CompiledRule[];
  /** For lanes that need no network. */
  innerSlots: number;
}

const MOST_LANE_STATES = 10_000;
const MOST_CHANGES = 100;
/** While one mail finds out whether a rest is over, the others are looked at again after so long. */
const PROBE_LOOK_MS = 2_000;
const LULL_MS = 1_000;
/** So lately another organisation of an operator has taken mail. */
const OTHERS_MS = 60_000;
/** A lane that waits for the pool's call is looked at again after so long even where none comes. */
const LOOK_AGAIN_MS = 2_000;
/** A host of an operator's lane that lets a worker wait longer than this keeps only that worker, not its place in the lane. */
const KEPT_MS = 2_000;
const KEPT_LOOK_MS = 1_000;
const MOST_KEPT = 40;

const kindOf: Readonly<Partial<Record<Subject, RestKind>>> = { load: 'load', sender: 'sender', tls: 'tls' };

export function createLaneControl(deps: LaneControlDeps, options: LaneControlOptions): LaneControl {
  const { clock, log, pool } = deps;
  const states = new Map<string, LaneState>();
  /** Lanes by the hosts that they lead to. */
  const byHost = new Map<string, Set<string>>();

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
      rests: createRests(() => isShared(state)),
      accepted: [],
      ruleRest: null,
      lullUntil: 0,
      kept: { count: 0, at: -Infinity },
      timer: null,
      timerAt: 0,
      lastReply: null,
      lastProgressAt: now,
      changes: [],
    };
    states.set(lane, state);
    return state;
  }

  /** An operator's lane leads to many host sets, each with a domain of its own. */
  const isShared = (state: LaneState): boolean => state.site?.operator != null;

  const limitsOf = ({ site }: LaneState): ThrottleLimits => {
    const max = site?.operator?.maxConnections ?? options.lane.max;
    return { initial: Math.min(options.lane.initial, max), max };
  };

  const hostsOf = ({ site, source }: LaneState): string[] => (site?.hosts ?? []).map((host) => hostKey(host, source));

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

  /** The lane waits until then; it is looked at again at that time. */
  function wakeAt(lane: string, state: LaneState, at: number): void {
    if (state.timer !== null && state.timerAt <= at) return;
    state.timer?.cancel();
    state.timerAt = at;
    state.timer = clock.after(Math.max(0, at - clock.now()), () => {
      state.timer = null;
      deps.pump(lane);
    });
  }

  function rested(lane: string, state: LaneState, rest: Rest): void {
    const { kind, account, domain, until, cause } = rest;
    rest.toldStep = rest.step;
    const whose = [account === null ? [] : `account ${account}`, domain === null ? [] : `domain ${domain}`].flat();
    const part = whose.length === 0 ? '' : ` for ${whose.join(', ')}`;
    const to = `rests until ${new Date(until).toISOString()}${part}`;
    changed(lane, state, { what: 'pause', to, cause });
    log[kind === 'rate' ? 'info' : 'error'](
      { event: 'lane_rests', lane, kind, account, domain, until: new Date(until).toISOString(), reply: cause },
      restWords[kind],
    );
  }

  function act(lane: string, state: LaneState, { rule, reply }: Fired): void {
    const { name, action, dryRun } = rule;
    log.warn({ event: 'shaping_rule', lane, rule: name, action, dry_run: dryRun, reply }, 'a shaping rule applies');
    if (dryRun || action === 'alarm') {
      changed(lane, state, { what: 'rule', to: dryRun ? `dry run: ${action}` : 'alarm', cause: `${name}: ${reply}` });
      return;
    }
    const now = clock.now();
    if (action === 'slow') {
      throttled(lane, state, pushedBack(state.throttle, `${name}: ${reply}`, now));
      return;
    }
    const until = Math.max(state.ruleRest?.until ?? 0, now + rule.for);
    state.ruleRest = { until, since: now, cause: `${name}: ${reply}` };
    changed(lane, state, {
      what: 'pause',
      to: `rests until ${new Date(until).toISOString()}`,
      cause: `${name}: ${reply}`,
    });
  }

  /** Until when all of the lane rests, or null. */
  function laneRestUntil(state: LaneState, now: number): number | null {
    const whole = state.rests.list().filter(({ account, domain }) => account === null && domain === null);
    const ends = [...whole.map(({ until }) => until), state.ruleRest?.until ?? 0].filter((until) => until > now);
    return ends.length === 0 ? null : Math.max(...ends);
  }

  /** One mail at a time, while one finds out whether a rest of the whole lane is over. */
  const probes = (state: LaneState): boolean =>
    state.rests.list().some(({ account, domain }) => account === null && domain === null);

  /** Workers that find a connection: those that have one, and as many as the hosts let in. */
  function reachable(lane: string, state: LaneState): number {
    // The hosts of an operator's lane differ from mail to mail: mail whose hosts cannot be had is put aside by itself.
    if (isShared(state)) return Infinity;
    const hosts = state.site?.hosts ?? [];
    if (hosts.length === 0) return 1;
    let sum = 0;
    let worst = Infinity;
    const isLull = clock.now() < state.lullUntil;
    for (const host of hosts) {
      const key = hostKey(host, state.source);
      const preference = host.preference ?? 0;
      sum += pool.usedBy(key, lane);
      if (preference > worst || isLull) continue;
      sum += pool.room(key, lane);
      const wait = pool.waitOf(key);
      if (wait === null || !isDown(wait)) worst = preference;
    }
    if (isLull) wakeAt(lane, state, state.lullUntil);
    else if (sum === 0) lookWhenOpen(lane, state, hostsOf(state));
    return sum;
  }

  /**
   * Workers of an operator's lane that wait for the hosts of single organisations (a dial that nobody answers, a banner that does
   * not come) are not counted among the lane's connections: a few such hosts would stop the mail for all the others.
   */
  function keptWaiting(lane: string, state: LaneState): number {
    if (!isShared(state)) return 0;
    const now = clock.monotonic();
    if (now - state.kept.at >= KEPT_LOOK_MS)
      state.kept = { count: Math.min(MOST_KEPT, pool.waitingLong(lane, KEPT_MS)), at: now };
    if (state.timer === null) wakeAt(lane, state, clock.now() + LOOK_AGAIN_MS);
    return state.kept.count;
  }

  function lookWhenOpen(lane: string, state: LaneState, hosts: readonly string[]): void {
    const ends = hosts.flatMap((host) => pool.waitOf(host)?.until ?? []);
    // Where nobody knows when (another lane's dial, say) the pool calls; but what it calls for may be gone by then.
    const wait = ends.length === 0 ? LOOK_AGAIN_MS : Math.max(1, Math.min(...ends) - clock.monotonic());
    wakeAt(lane, state, clock.now() + wait);
  }

  function isLimited(lane: string, state: LaneState): boolean {
    if (state.site === null) return false;
    const hasCap = hostsOf(state).some((host) => pool.capOf(host) !== null || pool.waitOf(host)?.why === 'closed');
    const rests = state.rests.list().length > 0 || (state.ruleRest !== null && state.ruleRest.until > clock.now());
    return hasCap || rests || state.pace.perMinute !== null || deps.limitsOf(lane) !== null;
  }

  function mostSlots(lane: string, state: LaneState): number {
    const now = clock.now();
    const rest = laneRestUntil(state, now);
    const given = deps.limitsOf(lane);
    const paceAt = readyAt(state.pace, given?.perMinute ?? null, now);
    const at = Math.max(rest ?? 0, paceAt > now ? paceAt : 0);
    if (at > 0) {
      wakeAt(lane, state, at);
      return 0;
    }
    return Math.min(state.throttle.limit, given?.connections ?? Infinity, probes(state) ? 1 : Infinity);
  }

  /** Whether the operator's other organisations take mail: then a rate is one organisation's. */
  const othersTake = (state: LaneState, own: string, now: number): boolean =>
    state.accepted.some(({ domain, at }) => domain !== own && now - at < OTHERS_MS);

  function noteAccepted(state: LaneState, domain: string, now: number): void {
    const [last] = state.accepted;
    if (last?.domain === domain) last.at = now;
    else state.accepted = [{ domain, at: now }, ...state.accepted.slice(0, 1)];
  }

  function learnt(lane: string, state: LaneState, part: Part, outcome: Outcome, about: Subject): Outcome {
    const now = clock.now();
    const reply = outcome.facts.smtpReply ?? '';
    const isTenants = about === 'rate' && isShared(state) && othersTake(state, part.domain, now);
    const kind = isTenants ? 'rate' : kindOf[about];
    if (about === 'rate' && !isTenants)
      paced(lane, state, slowed(state.pace, reply, outcome.facts.startedAt, now), reply.slice(0, 200));
    else state.pace = ended(state.pace);
    if (about === 'connections' || about === 'load') throttled(lane, state, pushedBack(state.throttle, reply, now));
    // Whatever the answer is about, this mail finds out nothing more: the next one may try.
    state.rests.ended(part);
    if (kind === undefined) return outcome;
    const found = state.rests.refused(kind, part, reply, now);
    if (found === null) return outcome;
    const { rest, isNew } = found;
    if (isNew || rest.toldStep !== rest.step) rested(lane, state, rest);
    if (isNew || kind !== 'sender' || outcome.kind !== 'refused') return outcome;
    return { ...outcome, kind: 'deferred', retryAt: Math.max(rest.until, now + PROBE_LOOK_MS) };
  }

  return {
    meet(lane, site, source) {
      const state = stateOf(lane);
      if (state.site === site) return;
      if (!isShared(state)) for (const host of hostsOf(state)) byHost.get(host)?.delete(lane);
      state.site = site;
      state.source = source;
      if (isShared(state)) return;
      for (const host of hostsOf(state)) {
        const users = byHost.get(host);
        if (users === undefined) byHost.set(host, new Set([lane]));
        else users.add(lane);
      }
    },
    wayOf(lane) {
      const state = states.get(lane);
      return state?.site == null ? null : { site: state.site.name, source: state.source };
    },
    slots(lane) {
      const state = states.get(lane);
      if (state?.site == null) return options.innerSlots;
      const most = mostSlots(lane, state);
      return most === 0 ? 0 : Math.min(most + keptWaiting(lane, state), reachable(lane, state));
    },
    restUntil(lane, part) {
      const state = states.get(lane);
      if (state === undefined) return null;
      const now = clock.now();
      const rest = state.rests.of(part, now);
      return rest === null ? null : Math.max(rest.until, now + PROBE_LOOK_MS);
    },
    take(lane) {
      const state = stateOf(lane);
      state.pace = begun(state.pace, deps.limitsOf(lane)?.perMinute ?? null, clock.now());
    },
    putBack(lane) {
      const state = stateOf(lane);
      state.pace = putBack(state.pace, deps.limitsOf(lane)?.perMinute ?? null);
    },
    begin(lane, part) {
      stateOf(lane).rests.begin(part, clock.now());
    },
    dropped(lane, part) {
      const state = stateOf(lane);
      state.pace = ended(state.pace);
      state.rests.ended(part);
    },
    learn(lane, part, outcome) {
      const state = stateOf(lane);
      const now = clock.now();
      state.lastProgressAt = now;
      state.lastReply = replyOf(outcome);
      if (outcome.kind === 'accepted') {
        const isFull = deps.viewOf(lane).slots >= state.throttle.limit;
        throttled(lane, state, succeeded(state.throttle, limitsOf(state), isFull, now));
        paced(lane, state, taken(state.pace, now), 'a minute in which all of it was used');
        if (isShared(state)) noteAccepted(state, part.domain, now);
        const over = state.rests.accepted(part, now);
        for (const { cause } of over) changed(lane, state, { what: 'pause', to: 'the rest is over', cause });
        if (over.length > 0) {
          deps.wake();
          deps.pump(lane);
        }
        return outcome;
      }
      const about = subjectOfOutcome(outcome);
      // The server is well where it answers for one recipient or one mail: such answers make the lane grow like accepted mail.
      if (about === 'recipient' || about === 'message' || about === 'domain') {
        const isFull = deps.viewOf(lane).slots >= state.throttle.limit;
        throttled(lane, state, succeeded(state.throttle, limitsOf(state), isFull, now));
      }
      const result = learnt(lane, state, part, outcome, about);
      const touchesLane = about !== 'recipient' && about !== 'message' && about !== 'domain';
      if (touchesLane)
        for (const fired of shape(options.rules, state.shaping, state.site?.operator?.name ?? null, outcome, now))
          act(lane, state, fired);
      return result;
    },
    foundNone(lane) {
      stateOf(lane).lullUntil = clock.now() + LULL_MS;
    },
    called(lane) {
      const state = states.get(lane);
      if (state !== undefined) state.lullUntil = 0;
      deps.pump(lane);
    },
    refused(lane, reply) {
      const state = stateOf(lane);
      state.lastReply = reply;
      const { source, site } = state;
      const caps = (site?.hosts ?? []).flatMap((host) => pool.capOf(hostKey(host, source)) ?? []);
      const [first] = caps;
      if (first === undefined || state.changes.at(-1)?.to === connections(first.cap)) return;
      changed(lane, state, { what: 'connections', to: connections(first.cap), cause: reply.slice(0, 200) });
    },
    told(lane, to, cause) {
      changed(lane, stateOf(lane), { what: 'source', to, cause });
    },
    report(lane) {
      const state = states.get(lane);
      return state?.site == null ? null : reportOf(state, deps.limitsOf(lane), pool, clock);
    },
    waits(lane, part, site) {
      const state = states.get(lane);
      return state === undefined ? [] : waitsOf(state, part, site, deps.limitsOf(lane), pool, clock);
    },
    history: (lane) => [...(states.get(lane)?.changes ?? [])],
    lanesWanting(host) {
      const users = byHost.get(host);
      if (users === undefined) return none;
      return [...users].filter((lane) => {
        const state = states.get(lane);
        const { waiting, slots } = deps.viewOf(lane);
        if (state === undefined) return false;
        // A worker without a connection is about to ask for one.
        if (slots > hostsOf(state).reduce((sum, one) => sum + pool.usedBy(one, lane), 0)) return true;
        return waiting > 0 && slots < mostSlots(lane, state);
      });
    },
    tryNow(lane, domain) {
      const state = states.get(lane);
      if (state === undefined) return;
      const now = clock.now();
      state.rests.tryNow(domain, now);
      state.ruleRest = null;
      state.lullUntil = 0;
      if (state.pace.perMinute !== null) paced(lane, state, forgotten(state.pace, now), 'somebody wants to know now');
      pool.tryNow(hostsOf(state));
      deps.pump(lane);
    },
    shift(ms) {
      for (const state of states.values()) {
        const { throttle } = state;
        state.rests.shift(ms);
        if (state.ruleRest !== null) state.ruleRest = { ...state.ruleRest, until: state.ruleRest.until + ms };
        state.timerAt += ms;
        if (state.lullUntil > 0) state.lullUntil += ms;
        const { halvedAt, probeAt } = throttle;
        state.throttle = { ...throttle, halvedAt: halvedAt === null ? null : halvedAt + ms, probeAt: probeAt + ms };
        state.pace = shifted(state.pace, ms);
        state.lastProgressAt += ms;
      }
    },
    names: () => [...states.keys()],
    limited: () => [...states].flatMap(([lane, state]) => (isLimited(lane, state) ? [lane] : [])),
    someWait() {
      for (const [lane, state] of states)
        if (state.rests.list().length > 0 || deps.viewOf(lane).waiting > 0) return true;
      return false;
    },
    resting() {
      const now = clock.now();
      return [...states].flatMap(([lane, { rests }]) =>
        rests.list().flatMap((rest) => (rest.until > now || rest.isProbing ? [{ lane, rest }] : [])),
      );
    },
    forgetOld() {
      if (states.size <= MOST_LANE_STATES) return;
      const byUse = [...states].sort(([, a], [, b]) => a.lastProgressAt - b.lastProgressAt);
      for (const [name, state] of byUse.slice(0, states.size - MOST_LANE_STATES)) {
        // What rests or has work is not forgotten, however long ago it made progress.
        const { waiting, slots } = deps.viewOf(name);
        if (waiting + slots > 0 || state.rests.list().length > 0) continue;
        state.timer?.cancel();
        for (const host of hostsOf(state)) byHost.get(host)?.delete(name);
        states.delete(name);
      }
    },
    stop() {
      for (const state of states.values()) state.timer?.cancel();
    },
  };
}

const none: readonly string[] = [];

const restWords: Readonly<Record<RestKind, string>> = {
  sender: 'a receiver refuses mail from us again and again: mail for it waits, and one mail tries from time to time',
  load: 'a receiver cannot take mail now: mail for it waits, and one mail tries from time to time',
  rate: 'a domain takes only so much mail in a time: its mail waits, and one mail tries from time to time',
  tls: 'the mail hosts of a domain do not have the TLS that is asked for: its mail waits, and one mail tries from time to time',
};

/** What an outcome without words of the other side is about: the host, whose connection broke or was never there. */
function subjectOfOutcome(outcome: Outcome): Subject {
  if (outcome.kind === 'deferred' && outcome.grounds === undefined && outcome.verdict.reason === 'tls_required')
    return 'tls';
  if (outcome.kind === 'deferred' || outcome.kind === 'refused') return outcome.grounds?.about ?? 'host';
  return outcome.kind === 'failed' ? 'ourselves' : 'host';
}

/** The reply with its code, as it was said. */
function replyOf({ facts: { smtpCode, smtpReply } }: Outcome): string | null {
  if (smtpReply === null || smtpCode === null || smtpReply.startsWith(String(smtpCode))) return smtpReply;
  return `${String(smtpCode)} ${smtpReply}`;
}

const connections = (count: number): string => (count === 1 ? '1 connection' : `${String(count)} connections`);
