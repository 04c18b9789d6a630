/** The lanes and their limits (limits/book.ts): how many workers a lane may have, which mail may go, what answers teach (learn.ts, allowance.ts). */
import { addTo, takeFrom } from '../../base/sets.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { LaneChange, LaneReport, LaneWait } from '../../messages/delivery/why.ts';
import type { PlaceLimits } from '../../messages/limits/book.ts';
import {
  covers,
  isClosing,
  isWhole,
  keyOf,
  stands,
  type About,
  type Limit,
  type MailKey,
} from '../../messages/limits/limit.ts';
import { isDown } from '../connection/pooled-host.ts';
import type { Engine } from '../engine.ts';
import {
  hostKeysOf,
  isShared,
  shiftLaneState,
  trafficsOf,
  LaneState,
  LaneWorkers,
  LOOK_AGAIN_MS,
} from './lane-state.ts';
import { changeOf, logOf, reportOf, waitsOf, type Surroundings } from './lane-waits.ts';
import { allowance, isProbed, shareOf, type Allowance, type LaneMoment } from '../limits/allowance.ts';
import {
  firstConnections,
  type ConnectionLimits,
  isAboutOne,
  learn,
  ruled,
  subjectOfOutcome,
  type LaneFacts,
} from '../limits/learn.ts';
import { compileRules, shape, type CompiledRule } from '../limits/shaping.ts';
import { hostKey, isInnerLane } from '../names.ts';
import type { Site } from '../sites/sites.ts';
import type { LaneView } from '../../scheduling/lanes.ts';

/** States of lanes in memory, about 1 KB each; lanes with work are kept beyond. With fewer a broadcast to many domains would push out the others. */
const MOST_LANE_STATES = 10_000;
/** Lanes that are looked at when one has run out of work: more than one, so that those beyond the bound become fewer. */
const LOOKS = 3;
/** How long no worker is started after one that found no connection, in ms. */
const LULL_MS = 1_000;
/** Changes of its limits that a lane remembers. */
const MOST_CHANGES = 20;
/** Workers for mail that needs no network: each waits for the grouped commit only, so that few of them would make small groups. */
export const INNER_SLOTS = 64;
/** Limits of single recipient domains that a report of a lane shows. */
const MOST_SHOWN = 20;

export interface SourceState {
  /** Nothing goes before then; null if it is open. */
  closedUntil: number | null;
  /** It was closed, and one mail finds out whether that is over. */
  isSuspect: boolean;
}

export class LaneControl {
  private readonly engine: Engine;
  private rules: readonly CompiledRule[];
  /** Those that ran out of work longest ago first. */
  private readonly states = new Map<string, LaneState>();
  /** Lanes by the hosts that they lead to. */
  private readonly byHost = new Map<string, Set<string>>();
  /** The keys of limits of which one mail finds out now whether they are over. */
  private readonly probes = new Set<string>();
  private readonly workers: LaneWorkers;

  constructor(engine: Engine) {
    this.engine = engine;
    this.rules = compileRules(engine.options.shaping);
    this.workers = new LaneWorkers(engine, {
      limitsOf: (state) => this.limitsAt(state),
      momentOf: (state) => this.momentOf(state),
    });
  }

  /** Notes that the lane leads to this site, by this source. */
  register(lane: string, site: Site, source: string | null): void {
    const state = this.stateOf(lane);
    if (state.site === site) return;
    if (!isShared(state)) this.leaveHosts(lane, state);
    state.site = site;
    state.source = source;
    state.limits = null;
    this.limitsAt(state);
    if (isShared(state)) return;
    for (const host of hostKeysOf(state)) addTo(this.byHost, host, lane);
  }

  /** Replaces the shaping rules; what was counted for the others is forgotten. */
  reshape(rules: Parameters<typeof compileRules>[0]): void {
    this.rules = compileRules(rules);
    for (const state of this.states.values()) state.shaping = null;
  }

  routeOf(lane: string): { site: string; source: string | null } | null {
    const state = this.states.get(lane);
    return state?.site == null ? null : { site: state.site.name, source: state.source };
  }

  slots(lane: string): number {
    const state = this.states.get(lane);
    if (state?.site == null) return this.needsConnection(lane) ? 1 : INNER_SLOTS;
    return this.workers.of(lane, state);
  }

  needsConnection(lane: string): boolean {
    return !isInnerLane(lane) || this.routeOf(lane) !== null;
  }

  /** Returns whether this mail may go in the lane, as far as limits of parts of it say. */
  allowanceOf(lane: string, mail: MailKey): Allowance {
    const state = this.stateOf(lane);
    return allowance(this.limitsAt(state).of(mail.domain), mail, this.momentOf(state), this.engine.clock.now());
  }

  /** Counts a mail that a worker takes among those of this minute; if a limit is over, it is the one that tries. */
  take(lane: string, mail: MailKey): void {
    const state = this.stateOf(lane);
    const now = this.engine.clock.now();
    const found = this.allowanceOf(lane, mail);
    for (const traffic of trafficsOf(state, mail.domain, now))
      traffic.begin(this.perMinuteOf(lane, state, mail.domain, traffic), now);
    if (found.kind === 'go') for (const limit of found.probed) this.probes.add(keyOf(limit));
    this.count(state, mail, 1);
  }

  /** Counts it no more: it was not offered. */
  putBack(lane: string, mail: MailKey): void {
    const state = this.stateOf(lane);
    const now = this.engine.clock.now();
    for (const traffic of trafficsOf(state, mail.domain, now))
      traffic.putBack(this.perMinuteOf(lane, state, mail.domain, traffic));
    this.count(state, mail, -1);
    this.endProbes(state, mail);
  }

  learn(lane: string, mail: MailKey, outcome: Outcome, hasOtherSource = false): Outcome {
    const state = this.stateOf(lane);
    const now = this.engine.clock.now();
    state.lastProgressAt = now;
    state.lastReply = replyOf(outcome);
    for (const traffic of trafficsOf(state, mail.domain, now))
      if (outcome.kind === 'accepted') traffic.take(now);
      else traffic.end();
    // Whatever the answer is about, this mail finds out nothing more: the next one may try.
    this.endProbes(state, mail);
    this.countOutcome(lane, state, mail, outcome);
    const lesson = learn(
      this.limitsAt(state),
      this.factsOf(lane, state, hasOtherSource),
      mail,
      outcome,
      this.engine.options.answers,
      now,
    );
    state.asking = lesson.asking;
    if (outcome.kind === 'accepted') state.acceptedAt = now;
    for (const limit of lesson.changed) this.change(lane, state, limit);
    if (lesson.ended.length > 0) this.end(lane, state, lesson.ended);
    this.applyRules(lane, state, lesson.isOneDomains ? mail.domain : null, outcome);
    return lesson.outcome;
  }

  /** Notes that a worker found no connection and has ended: no other is started for a second, unless the pool wakes the lane. */
  foundNone(lane: string): void {
    this.stateOf(lane).lullUntil = this.engine.clock.now() + LULL_MS;
  }

  /** Wakes the lane: the pool has a connection for it. */
  wake(lane: string): void {
    const state = this.states.get(lane);
    if (state !== undefined) state.lullUntil = 0;
    this.engine.lanes.pump(lane);
  }

  /** Notes that a host refused one connection more than those that are open: no mail was tried. */
  noteRefusedConnection(lane: string, reply: string): void {
    const state = this.stateOf(lane);
    state.lastReply = reply;
    if (isShared(state)) return;
    const [first] = hostKeysOf(state).flatMap((host) => this.engine.pool.capOf(host) ?? []);
    if (first === undefined) return;
    const to = first.cap === 1 ? '1 connection' : `${String(first.cap)} connections`;
    if (state.changes.at(-1)?.to !== to)
      this.note(lane, state, { what: 'connections', to, cause: reply.slice(0, 200) });
  }

  report(lane: string): Omit<LaneReport, keyof LaneView> | null {
    const state = this.states.get(lane);
    return state?.site == null ? null : reportOf(state, this.surroundingsOf(lane, state, this.shownLimits(state)));
  }

  /** Returns what this mail waits for, the most telling first. */
  waits(lane: string, mail: MailKey, site: Site | null): LaneWait[] {
    const state = this.states.get(lane);
    return state === undefined
      ? []
      : waitsOf(state, mail, site, this.surroundingsOf(lane, state, this.limitsAt(state).of(mail.domain)));
  }

  /** Returns whether a source may send this mail to its site now. */
  sourceState(site: Site, source: string | null, mail: MailKey | null): SourceState {
    const { limits, clock, pool } = this.engine;
    const now = clock.now();
    const stored = limits.storedName(source);
    const all = limits
      .at(site.name, stored, site.operator?.name ?? null)
      .of(mail?.domain ?? null)
      .filter((limit) => stands(limit) && (mail === null ? isWhole(limit) : covers(limit, mail)));
    const closed = all.filter((limit) => (isClosing(limit) || limit.kind === 'rate') && limit.until > now);
    const downs = site.hosts.map((host) => pool.waitOf(hostKey(host, source), site.operator?.maxConnections));
    const isUnreachable = downs.length > 0 && downs.every((wait) => wait !== null && isDown(wait));
    const ahead = now - clock.monotonic();
    const opens = isUnreachable
      ? Math.min(...downs.map((wait) => (wait?.until == null ? now + LOOK_AGAIN_MS : wait.until + ahead)))
      : 0;
    const full = all.map((limit) => limits.counts.fullUntil(limit, mail));
    const until = Math.max(0, opens, ...closed.map((limit) => limit.until), ...full);
    return {
      closedUntil: until > now ? Math.round(until) : null,
      isSuspect:
        all.some((limit) => isProbed(limit) || (limit.kind === 'rate' && limit.step === -1)) ||
        downs.some((wait) => wait !== null && isDown(wait)),
    };
  }

  /** Returns how many connections the lane may have here: its part, and those that wait for hosts of single organisations. */
  mostConnections(lane: string): number {
    const part = this.engine.parts.of(lane);
    const state = this.states.get(lane);
    if (state === undefined || (part.nodes === 1 && !part.isNew)) return Infinity;
    return this.workers.connections(lane, state) + state.slowWorkers.count;
  }

  /** Counts the mails of the lane that wait or are being sent; none if all of it is closed. */
  mails(lane: string): number {
    const { waiting, slots } = this.engine.lanes.view(lane);
    const state = this.states.get(lane);
    return state !== undefined && this.workers.allowance(state).kind === 'wait' ? slots : waiting + slots;
  }

  /** Returns the lanes that would use one connection more to this host. */
  lanesWanting(host: string): readonly string[] {
    const users = this.byHost.get(host);
    if (users === undefined) return none;
    return [...users].filter((lane) => {
      const state = this.states.get(lane);
      const { waiting, slots } = this.engine.lanes.view(lane);
      if (state === undefined) return false;
      // A worker without a connection is about to ask for one.
      const used = hostKeysOf(state).reduce((sum, one) => sum + this.engine.pool.usedBy(one, lane), 0);
      return slots > used || (waiting > 0 && slots < this.workers.most(lane, state));
    });
  }

  /** Ends the lane's limits on an operator's request, as far as they touch the domain; one mail tries first. */
  tryNow(lane: string, domain: string | null): void {
    const { clock, limits, pool, lanes } = this.engine;
    const state = this.states.get(lane);
    if (state === undefined) return;
    const now = clock.now();
    const touched = this.limitsAt(state)
      .all()
      .filter(
        (limit) =>
          stands(limit) &&
          (isClosing(limit) || limit.kind === 'rate') &&
          (domain === null || limit.domain === null || limit.domain === domain),
      );
    const isOver = ({ kind }: Limit): boolean => kind === 'rate' || kind === 'rule' || kind === 'block_list';
    for (const limit of touched) this.probes.delete(keyOf(limit));
    limits.put(
      touched
        .filter((limit) => !isOver(limit))
        .map((limit) => ({ ...limit, until: Math.min(limit.until, now), changedAt: now })),
    );
    const over = touched.filter(isOver);
    limits.end(over);
    for (const limit of over)
      this.note(lane, state, { ...changeOf(limit, 'ended'), cause: 'the operator asked for a try now' });
    for (const traffic of [state.traffic, ...(state.domains?.values() ?? [])]) traffic.forgetSpread();
    state.lullUntil = 0;
    pool.tryNow(hostKeysOf(state));
    lanes.pump(lane);
  }

  /** Takes notice of limits that other nodes have changed, or that have ended otherwise. */
  limitsChanged(changed: readonly Limit[]): void {
    const { limits, lanes, dueQueue } = this.engine;
    if (changed.length === 0) return;
    for (const [lane, { site, source }] of this.states)
      if (
        changed.some(
          (limit) => limit.source === limits.storedName(source) && (limit.site === '' || limit.site === site?.name),
        )
      )
        lanes.pump(lane);
    dueQueue.wake();
  }

  /** Moves all times by `ms`, by which the clock was set: limits last as long as before. */
  shift(ms: number): void {
    this.engine.limits.shift(ms);
    for (const state of this.states.values()) shiftLaneState(state, ms);
  }

  /** Returns for how long its limits and hosts let no worker of the lane begin, in ms; null if that is less than `ms`, or not known. */
  closedFor(lane: string, ms: number): number | null {
    const state = this.states.get(lane);
    if (state?.site == null || state.timer === null) return null;
    const left = state.timerAt - this.engine.clock.now();
    return left < ms || this.slots(lane) > 0 ? null : left;
  }

  names(): string[] {
    return [...this.states.keys()];
  }

  /** Returns the lanes of which all or a part is closed now. */
  atRest(): string[] {
    return [...this.states].flatMap(([lane, state]) =>
      this.limitsAt(state)
        .all()
        .some((limit) => this.isInForce(limit))
        ? [lane]
        : [],
    );
  }

  /** Notes that a lane has no work left. Beyond a bound of lanes forgets those that ran out of work longest ago. */
  noteEmpty(lane: string): void {
    const { states } = this;
    const state = states.get(lane);
    if (state !== undefined) this.moveToEnd(lane, state);
    let looks = LOOKS;
    for (const [old, its] of states) {
      if (states.size <= MOST_LANE_STATES || looks-- === 0) return;
      const { waiting, slots } = this.engine.lanes.view(old);
      if (waiting + slots > 0 || this.engine.aside.has(old)) this.moveToEnd(old, its);
      else this.forget(old, its);
    }
  }

  stop(): void {
    for (const state of this.states.values()) state.timer?.cancel();
  }

  /** Returns the limits of a lane. They are found once: `PlaceLimits` knows when they are others. */
  private limitsAt(state: LaneState): PlaceLimits {
    const { limits, clock } = this.engine;
    const { at, about, connections } = (state.limits ??= this.placeOf(state));
    if (state.site !== null && limits.get(connections) === undefined)
      limits.put([firstConnections(about, this.connectionsOf(state), clock.now())]);
    return at;
  }

  private placeOf({ site, source }: LaneState): NonNullable<LaneState['limits']> {
    const { limits } = this.engine;
    const about = { site: site?.name ?? '~', source: limits.storedName(source), domain: null, account: null };
    const at = limits.at(about.site, about.source, site?.operator?.name ?? null);
    return { at, about, connections: keyOf({ ...about, kind: 'connections' }) };
  }

  private aboutOf(state: LaneState): About {
    return (state.limits ??= this.placeOf(state)).about;
  }

  private connectionsOf({ site }: LaneState): ConnectionLimits {
    const { lane } = this.engine.options;
    const max = site?.operator?.maxConnections ?? lane.max;
    return { initial: Math.min(lane.initial, max), max };
  }

  private momentOf(state: LaneState): LaneMoment {
    return (state.moment ??= {
      probes: this.probes,
      trafficOf: (domain: string | null) => (domain === null ? state.traffic : (state.domains?.get(domain) ?? null)),
      fullUntil: (limit, mail) => this.engine.limits.counts.fullUntil(limit, mail),
    });
  }

  private factsOf(lane: string, state: LaneState, hasOtherSource: boolean): LaneFacts {
    const { lanes, clock } = this.engine;
    const { site, traffic, domains, asking, acceptedAt } = state;
    return {
      isShared: isShared(state),
      isRelay: site?.relay != null,
      connections: this.connectionsOf(state),
      isFull: lanes.view(lane).slots >= this.workers.connections(lane, state),
      hasOtherSource,
      asking,
      acceptedAt,
      lastMinute: (domain, ms) => (domain === null ? traffic : domains?.get(domain))?.lastMinute(clock.now(), ms) ?? 0,
      ...this.aboutOf(state),
    };
  }

  private change(lane: string, state: LaneState, limit: Limit): void {
    const { limits, log, lanes, placing } = this.engine;
    const before = limits.get(keyOf(limit));
    limits.put([limit]);
    if (!stands(limit)) return;
    if (limit.kind === 'rate')
      this.momentOf(state)
        .trafficOf(limit.domain)
        ?.rest(limit.until, limit.perMinute ?? 1);
    const isChanged =
      before?.connections !== limit.connections ||
      before.perMinute !== limit.perMinute ||
      (isClosing(limit) && before.until !== limit.until);
    if (!isChanged) return;
    this.note(lane, state, changeOf(limit, 'set'));
    logOf(log, lane, state.source, limit);
    if (limit.kind === 'connections' && (limit.connections ?? 0) > (before?.connections ?? 0)) lanes.pump(lane);
    else if (limit.until > this.engine.clock.now() && limit.kind !== 'connections') placing.moveOn(lane);
  }

  private end(lane: string, state: LaneState, over: readonly Limit[]): void {
    const { limits, dueQueue, lanes } = this.engine;
    limits.end(over);
    const stood = over.filter(stands);
    for (const limit of stood) this.note(lane, state, changeOf(limit, 'ended'));
    if (stood.length === 0) return;
    dueQueue.wake();
    lanes.pump(lane);
  }

  /** Counts the answer for the shaping rules: of one recipient domain of an operator, or of the whole lane. */
  private applyRules(lane: string, state: LaneState, domain: string | null, outcome: Outcome): void {
    const about = subjectOfOutcome(outcome);
    if (outcome.kind === 'accepted' || isAboutOne(about)) return;
    state.shaping ??= new Map();
    const now = this.engine.clock.now();
    const answerer = { operator: state.site?.operator?.name ?? null, domain };
    for (const { rule, reply } of shape(this.rules, state.shaping, answerer, outcome, now)) {
      const { name, action, dryRun } = rule;
      const cause = `${name}: ${reply}`;
      this.engine.log.warn(
        { event: 'shaping_rule', lane, rule: name, action, dry_run: dryRun, reply },
        'a shaping rule applies',
      );
      if (dryRun || action === 'alarm') {
        this.note(lane, state, { what: 'rule', to: dryRun ? `dry run: ${action}` : 'alarm', cause });
        continue;
      }
      const done = action === 'slow' ? ({ kind: action } as const) : ({ kind: action, ms: rule.for, domain } as const);
      const limit = ruled(this.limitsAt(state), this.aboutOf(state), done, cause, now);
      if (limit !== null) this.change(lane, state, limit);
    }
  }

  private note(lane: string, state: LaneState, change: Omit<LaneChange, 'at'>): void {
    state.changes.push({ at: this.engine.clock.now(), ...change });
    if (state.changes.length > MOST_CHANGES) state.changes.shift();
    this.engine.log.info({ event: 'lane_changed', lane, ...change }, 'the limits of a lane have changed');
  }

  /** Counts a mail among those of the hour and the day that are under way, or no longer. */
  private count(state: LaneState, mail: MailKey, by: 1 | -1): void {
    for (const limit of this.limitsAt(state).of(mail.domain))
      if (limit.kind === 'count' && covers(limit, mail)) this.engine.limits.counts.begin(limit, mail, by);
  }

  /** Counts a mail that was offered. If it was the last that may go, the others look for another source. */
  private countOutcome(lane: string, state: LaneState, mail: MailKey, outcome: Outcome): void {
    const { limits, placing } = this.engine;
    let isFull = false;
    for (const limit of this.limitsAt(state).of(mail.domain))
      if (limit.kind === 'count' && covers(limit, mail)) isFull = limits.counts.end(limit, mail, outcome) || isFull;
    if (isFull) placing.moveOn(lane);
  }

  private endProbes(state: LaneState, mail: MailKey): void {
    if (this.probes.size === 0) return;
    for (const limit of this.limitsAt(state).of(mail.domain)) if (covers(limit, mail)) this.probes.delete(keyOf(limit));
  }

  private isInForce(limit: Limit): boolean {
    const now = this.engine.clock.now();
    if (limit.kind === 'count') return isWhole(limit) && this.engine.limits.counts.fullUntil(limit, null) > now;
    return stands(limit) && isClosing(limit) && (limit.until > now || this.probes.has(keyOf(limit)));
  }

  /** Returns the mails a minute that this node spreads evenly: of the whole lane, or of a domain in an operator's lane. */
  private perMinuteOf(lane: string, state: LaneState, domain: string, traffic: unknown): number | null {
    const about = traffic === state.traffic ? null : domain;
    const { nodes } = this.engine.parts.of(lane);
    let least = Infinity;
    for (const limit of this.limitsAt(state).of(about))
      if (limit.domain === about && limit.account === null && stands(limit))
        least = Math.min(least, shareOf(limit, nodes) ?? Infinity);
    return least === Infinity ? null : least;
  }

  /** Returns the limits of the lane, and of those of single domains the ones that the receiver set last. */
  private shownLimits(state: LaneState): Limit[] {
    const known = this.limitsAt(state);
    const ofDomains = known.all().filter((limit) => limit.domain !== null && stands(limit));
    return [...known.of(null), ...ofDomains.sort((a, b) => b.refusedAt - a.refusedAt).slice(0, MOST_SHOWN)];
  }

  private surroundingsOf(lane: string, state: LaneState, limits: readonly Limit[]): Surroundings {
    const { parts, lanes, aside, pool, clock } = this.engine;
    return {
      limits: limits.filter(stands),
      moment: this.momentOf(state),
      counts: this.engine.limits.counts,
      part: parts.of(lane),
      connections: this.workers.connections(lane, state),
      view: lanes.view(lane),
      waitsForSlot: lanes.waitsForSlot(lane),
      hasAside: aside.has(lane),
      pool,
      clock,
    };
  }

  private stateOf(lane: string): LaneState {
    const existing = this.states.get(lane);
    if (existing !== undefined) return existing;
    const state = new LaneState(this.engine.clock.now());
    this.states.set(lane, state);
    return state;
  }

  private moveToEnd(lane: string, state: LaneState): void {
    this.states.delete(lane);
    this.states.set(lane, state);
  }

  private forget(lane: string, state: LaneState): void {
    const { limits } = this.engine;
    state.timer?.cancel();
    this.leaveHosts(lane, state);
    this.states.delete(lane);
    if (state.site !== null) limits.forget(state.site.name, limits.storedName(state.source));
  }

  private leaveHosts(lane: string, state: LaneState): void {
    for (const host of hostKeysOf(state)) takeFrom(this.byHost, host, lane);
  }
}

const none: readonly string[] = [];

function replyOf({ facts: { smtpCode, smtpReply } }: Outcome): string | null {
  if (smtpReply === null || smtpCode === null || smtpReply.startsWith(String(smtpCode))) return smtpReply;
  return `${String(smtpCode)} ${smtpReply}`;
}
