/**
 * The limits of each lane: how many connections, how many mails a minute, which of its mail rests. They come from answers
 * (lane-learning.ts) and from the operator; lane-slots.ts turns them into a number of workers.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { addTo, takeFrom } from '../../base/sets.ts';
import { HOUR_MS } from '../../base/time.ts';
import type { LaneView, NoSlot } from '../../scheduling/lanes.ts';
import type { LaneLimits } from '../../messages/delivery/hold-book.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { LaneChange, LaneLimitsReport } from '../../messages/delivery/lane-report.ts';
import type { LaneWait } from '../../messages/delivery/why.ts';
import type { Pool } from '../connection/pool.ts';
import { isInnerLane } from '../names.ts';
import type { Site } from '../sites/sites.ts';
import { countConnections, LaneChanges } from './lane-changes.ts';
import { LaneLearning, PROBE_LOOK_MS } from './lane-learning.ts';
import { LaneSlots } from './lane-slots.ts';
import type { LaneShare, LaneShares } from './lane-shares.ts';
import { hasLearnt, hostKeysOf, isShared, newLaneState, shiftLaneState, type LaneState } from './lane-state.ts';
import { reportOf, waitsOf, type Surroundings } from './lane-waits.ts';
import type { LaneDemand } from './node-shares.ts';
import { begun, divided, ended, forgotten, putBack } from './pace.ts';
import type { MailKey, Rest } from './rests.ts';
import type { CompiledRule } from './shaping.ts';
import { type Learnt, newThrottle, type ThrottleLimits } from './throttle.ts';

export interface LaneControlDeps {
  clock: Clock;
  log: Log;
  pool: Pick<Pool, 'room' | 'usedBy' | 'waitingLong' | 'waitOf' | 'capOf' | 'tryNow'>;
  /** Returns the operator's limits for a lane, or null. */
  limitsOf: (lane: string) => LaneLimits | null;
  /** Returns what this node may use of a lane. */
  shares: LaneShares;
  /** Returns the jobs and workers of a lane. */
  viewOf(lane: string): LaneView;
  /** Returns why a lane has not as many workers as its limit and its jobs allow, where it waits for a slot; else null. */
  whyNoSlot(lane: string): NoSlot | null;
  /** Returns whether jobs of the lane are put aside. */
  hasAside(lane: string): boolean;
  /** Starts workers of the lane where it may have more. */
  pump(lane: string): void;
  /** Lets mail that rests be looked at again. */
  wake(): void;
}

export interface LaneControlOptions {
  lane: ThrottleLimits;
  rules: readonly CompiledRule[];
  /** Workers of lanes that need no network. */
  innerSlots: number;
}

/**
 * States of lanes kept in memory, about 1 KB each. Those of lanes that have work, rest or are slowed are kept beyond this number. With a
 * smaller one a broadcast to many domains would push out what other lanes have learnt.
 */
const MOST_LANE_STATES = 10_000;
/** Beyond this number those are forgotten that have learnt nothing. */
const MOST_UNTAUGHT = 2_000;
/** Lanes that are looked at when one has run out of work: more than one, so that those beyond the bound become fewer. */
const LOOKS = 3;
/** How long no worker is started after one that found no connection, in ms. */
const LULL_MS = 1_000;
/** A rest that ended, or a limit that changed, longer ago than this, in ms, does not keep its lane in memory. */
const REST_FORGOTTEN_MS = HOUR_MS;

export class LaneControl {
  private readonly deps: LaneControlDeps;
  private readonly options: LaneControlOptions;
  /** Those that ran out of work longest ago first. */
  private readonly states = new Map<string, LaneState>();
  /** Lanes by the hosts that they lead to. */
  private readonly byHost = new Map<string, Set<string>>();
  private readonly changes: LaneChanges;
  private readonly laneSlots: LaneSlots;
  private readonly learning: LaneLearning;

  constructor(deps: LaneControlDeps, options: LaneControlOptions) {
    this.deps = deps;
    this.options = options;
    this.changes = new LaneChanges(deps);
    this.laneSlots = new LaneSlots(deps);
    this.learning = new LaneLearning(deps, options, this.changes);
  }

  /** Notes that the lane leads to this site, by this source. */
  register(lane: string, site: Site, source: string | null): void {
    const state = this.stateOf(lane);
    if (state.site === site) return;
    if (!isShared(state)) this.leaveHosts(lane, state);
    state.site = site;
    state.source = source;
    if (isShared(state)) return;
    for (const host of hostKeysOf(state)) addTo(this.byHost, host, lane);
  }

  /** Replaces the shaping rules; what was counted for the others is forgotten. */
  reshape(rules: readonly CompiledRule[]): void {
    this.learning.rules = rules;
    for (const state of this.states.values()) state.shaping = null;
  }

  /** Returns the site and source that the lane leads to, or null where it is not known. */
  routeOf(lane: string): { site: string; source: string | null } | null {
    const state = this.states.get(lane);
    return state?.site == null ? null : { site: state.site.name, source: state.source };
  }

  /** Returns how many workers the lane may have now. */
  slots(lane: string): number {
    const state = this.states.get(lane);
    if (state?.site != null) return this.laneSlots.of(lane, state);
    return this.needsConnection(lane) ? 1 : this.options.innerSlots;
  }

  /** Returns whether mail of the lane goes to a host. */
  needsConnection(lane: string): boolean {
    return !isInnerLane(lane) || this.routeOf(lane) !== null;
  }

  /** Returns until when this mail rests, or null where it may go. */
  restUntil(lane: string, mail: MailKey): number | null {
    const state = this.states.get(lane);
    if (state === undefined) return null;
    const now = this.deps.clock.now();
    const rest = state.rests.of(mail, now);
    return rest === null ? null : Math.max(rest.until, now + PROBE_LOOK_MS);
  }

  /** Counts a mail that a worker takes among those of this minute; where a rest is over, it is the one that tries. */
  take(lane: string, mail: MailKey): void {
    const state = this.stateOf(lane);
    const now = this.deps.clock.now();
    state.pace = begun(state.pace, this.perMinuteOf(lane), now);
    state.rests.begin(mail, now);
  }

  /** Takes back `take` for a mail that was not begun after all. */
  putBack(lane: string, mail: MailKey): void {
    const state = this.stateOf(lane);
    state.pace = putBack(state.pace, this.perMinuteOf(lane));
    state.rests.ended(mail);
  }

  /** Learns from the outcome of an attempt. A refusal that is the receiver's answer to us comes back as one to wait for. */
  learn(lane: string, mail: MailKey, outcome: Outcome): Outcome {
    return this.learning.learn(lane, this.stateOf(lane), mail, outcome);
  }

  /** Notes that an attempt ended without an outcome. */
  dropped(lane: string, mail: MailKey): void {
    const state = this.stateOf(lane);
    state.pace = ended(state.pace);
    state.rests.ended(mail);
  }

  /** Notes that a worker found no connection and has ended: no other is started for a second, unless the pool wakes the lane. */
  foundNone(lane: string): void {
    this.stateOf(lane).lullUntil = this.deps.clock.now() + LULL_MS;
  }

  /** Wakes the lane: the pool has a connection for it. */
  wake(lane: string): void {
    const state = this.states.get(lane);
    if (state !== undefined) state.lullUntil = 0;
    this.deps.pump(lane);
  }

  /** Notes that a host refused one connection more than those that are open: no mail was tried. */
  noteRefusedConnection(lane: string, reply: string): void {
    const state = this.stateOf(lane);
    state.lastReply = reply;
    if (isShared(state)) return;
    const [first] = hostKeysOf(state).flatMap((host) => this.deps.pool.capOf(host) ?? []);
    if (first === undefined) return;
    const to = countConnections(first.cap);
    if (state.changes.at(-1)?.to === to) return;
    this.changes.note(lane, state, { what: 'connections', to, cause: reply.slice(0, 200) });
  }

  /** Notes that something happened to the lane's source. */
  noteSourceChange(lane: string, to: string, cause: string): void {
    this.changes.note(lane, this.stateOf(lane), { what: 'source', to, cause });
  }

  report(lane: string): LaneLimitsReport | null {
    const state = this.states.get(lane);
    return state?.site == null ? null : reportOf(state, this.surroundingsOf(lane));
  }

  /** Returns what this mail waits for, the most telling first. */
  waits(lane: string, mail: MailKey, site: Site | null): LaneWait[] {
    const state = this.states.get(lane);
    return state === undefined ? [] : waitsOf(state, mail, site, this.surroundingsOf(lane));
  }

  /** Returns the changes of a lane's limits, oldest first. */
  history(lane: string): LaneChange[] {
    return [...(this.states.get(lane)?.changes ?? [])];
  }

  /** Returns how much of the lane this node wants, and what it may have over all nodes. */
  demandOf(lane: string): LaneDemand {
    const { deps } = this;
    const state = this.states.get(lane);
    const { throttle } = state ?? { throttle: newThrottle(this.options.lane, 0) };
    const { waiting, slots } = deps.viewOf(lane);
    const given = deps.limitsOf(lane);
    return {
      demand: state !== undefined && this.laneSlots.isResting(state) ? slots : waiting + slots,
      hasRate: given?.perMinute != null,
      allowed: Math.min(throttle.limit, given?.connections ?? Infinity),
      learnt: throttle,
    };
  }

  /** Takes over what another node has learnt of the lane's receiver, where that is newer. */
  learnFrom(lane: string, learnt: Learnt): void {
    this.learning.adopt(lane, this.stateOf(lane), learnt);
  }

  /** Returns how many connections the lane may have here: its share, and those that wait for hosts of single organisations. */
  mostConnections(lane: string): number {
    return this.deps.shares.of(lane).connections + this.slowConnections(lane);
  }

  /** Returns the part of the lane that this node may use, and what others have. */
  shareOf(lane: string): LaneShare {
    return this.deps.shares.of(lane);
  }

  /** Counts the connections of an operator's lane that do not count against its limit. */
  slowConnections(lane: string): number {
    return this.states.get(lane)?.slowWorkers.count ?? 0;
  }

  /** Returns the lanes that would use one connection more to this host. */
  lanesWanting(host: string): readonly string[] {
    const users = this.byHost.get(host);
    if (users === undefined) return none;
    return [...users].filter((lane) => {
      const state = this.states.get(lane);
      const { waiting, slots } = this.deps.viewOf(lane);
      if (state === undefined) return false;
      // A worker without a connection is about to ask for one.
      const used = hostKeysOf(state).reduce((sum, one) => sum + this.deps.pool.usedBy(one, lane), 0);
      return slots > used || (waiting > 0 && slots < this.laneSlots.most(lane, state));
    });
  }

  /** Ends the lane's rests and pauses on an operator's request, as far as they touch the domain; one mail tries first. */
  tryNow(lane: string, domain: string | null): void {
    const state = this.states.get(lane);
    if (state === undefined) return;
    const now = this.deps.clock.now();
    state.rests.tryNow(domain, now);
    state.ruleRest = null;
    state.lullUntil = 0;
    if (state.pace.perMinute !== null)
      this.changes.setPace(lane, state, forgotten(state.pace, now), 'the operator asked for a try now');
    this.deps.pool.tryNow(hostKeysOf(state));
    this.deps.pump(lane);
  }

  /** Moves all times by `ms`, by which the clock was set: rests and paces last as long as before. */
  shift(ms: number): void {
    for (const state of this.states.values()) shiftLaneState(state, ms);
  }

  /** Returns for how long its limits and hosts let no worker of the lane begin, in ms; null where that is less than `ms`, or not known. */
  closedFor(lane: string, ms: number): number | null {
    const state = this.states.get(lane);
    if (state?.site == null || state.timer === null) return null;
    const left = state.timerAt - this.deps.clock.now();
    return left < ms || this.slots(lane) > 0 ? null : left;
  }

  /** Returns the names of the lanes that have learnt something or were registered lately. */
  names(): readonly string[] {
    return [...this.states.keys()];
  }

  /** Returns those that rest, or that have a limit which a receiver or the operator has set. */
  limited(): readonly string[] {
    return [...this.states].flatMap(([lane, state]) => (this.isLimited(lane, state) ? [lane] : []));
  }

  /** Returns the lanes of which all or a part rests now, after a refusal or by a rule. */
  atRest(): string[] {
    const now = this.deps.clock.now();
    return [...this.states].flatMap(([lane, { rests, ruleRest }]) =>
      rests.list().length > 0 || (ruleRest?.until ?? 0) > now ? [lane] : [],
    );
  }

  /** Returns the parts of lanes that rest now. */
  resting(): { lane: string; rest: Rest }[] {
    const now = this.deps.clock.now();
    return [...this.states].flatMap(([lane, { rests }]) =>
      rests.list().flatMap((rest) => (rest.until > now || rest.isProbing ? [{ lane, rest }] : [])),
    );
  }

  /** Notes that a lane has no work left. Beyond a bound of lanes forgets those that ran out of work longest ago. */
  noteEmpty(lane: string): void {
    const { states } = this;
    const state = states.get(lane);
    if (state !== undefined) this.moveToEnd(lane, state);
    let looks = 0;
    for (const [old, its] of states) {
      if (states.size <= MOST_UNTAUGHT || ++looks > LOOKS) return;
      if (this.isNeeded(old, its)) this.moveToEnd(old, its);
      else this.forget(old, its);
    }
  }

  /** Returns whether a lane's state is kept, however long ago it made progress: it has work, rests or is slowed, or there is room for what it knows. */
  private isNeeded(lane: string, state: LaneState): boolean {
    const { waiting, slots } = this.deps.viewOf(lane);
    if (waiting + slots > 0 || this.deps.hasAside(lane)) return true;
    if (this.states.size <= MOST_LANE_STATES && hasLearnt(state)) return true;
    const restsSince = this.deps.clock.now() - REST_FORGOTTEN_MS;
    const { rests, ruleRest, pace, throttle } = state;
    return (
      (throttle.halvedAt ?? 0) > restsSince ||
      (ruleRest?.until ?? 0) > restsSince ||
      (pace.perMinute !== null && pace.changedAt > restsSince) ||
      rests.list().some(({ until }) => until > restsSince)
    );
  }

  stop(): void {
    for (const state of this.states.values()) state.timer?.cancel();
  }

  private moveToEnd(lane: string, state: LaneState): void {
    this.states.delete(lane);
    this.states.set(lane, state);
  }

  private forget(lane: string, state: LaneState): void {
    state.timer?.cancel();
    this.leaveHosts(lane, state);
    this.states.delete(lane);
  }

  /** Forgets that the lane leads to its hosts. */
  private leaveHosts(lane: string, state: LaneState): void {
    for (const host of hostKeysOf(state)) takeFrom(this.byHost, host, lane);
  }

  /** Returns how many mails a minute the operator lets this node send. */
  private perMinuteOf(lane: string): number | null {
    const { limitsOf, shares } = this.deps;
    return divided(limitsOf(lane)?.perMinute ?? null, shares, lane);
  }

  private surroundingsOf(lane: string): Surroundings {
    const { deps } = this;
    return {
      given: deps.limitsOf(lane),
      perMinute: this.perMinuteOf(lane),
      share: deps.shares.of(lane),
      view: deps.viewOf(lane),
      noSlot: deps.whyNoSlot(lane),
      hasAside: deps.hasAside(lane),
      pool: deps.pool,
      clock: deps.clock,
    };
  }

  private stateOf(lane: string): LaneState {
    const existing = this.states.get(lane);
    if (existing !== undefined) return existing;
    const state = newLaneState(this.options.lane, this.deps.clock.now());
    this.states.set(lane, state);
    return state;
  }

  private isLimited(lane: string, state: LaneState): boolean {
    const { pool, clock, limitsOf } = this.deps;
    if (state.site === null) return false;
    const byHosts = isShared(state)
      ? this.deps.hasAside(lane)
      : hostKeysOf(state).some((host) => pool.capOf(host) !== null || pool.waitOf(host)?.why === 'closed');
    const rests = state.rests.list().length > 0 || (state.ruleRest !== null && state.ruleRest.until > clock.now());
    return byHosts || rests || state.pace.perMinute !== null || limitsOf(lane) !== null;
  }
}

const none: readonly string[] = [];
