/** The state of a lane in memory beside its limits: where it leads, its mails of the last minute, and what is shown of it. */
import type { Timer } from '../../base/clock.ts';
import type { LaneChange } from '../../messages/delivery/why.ts';
import type { PlaceLimits } from '../../messages/limits/book.ts';
import type { About } from '../../messages/limits/limit.ts';
import { isDown } from '../connection/pooled-host.ts';
import type { Engine } from '../engine.ts';
import { allowance, connectionsOf, type Allowance, type LaneMoment, Traffic } from '../limits/allowance.ts';
import type { ShapingMemory } from '../limits/shaping.ts';
import { hostKey } from '../names.ts';
import type { Site } from '../sites/sites.ts';

/** Recipient domains of an operator's lane whose mails are counted. */
const MOST_DOMAINS = 1_000;
/** Made with each lane, of which there are thousands. */
const none: readonly never[] = [];

export class LaneState {
  site: Site | null = null;
  /** The source that it sends by; null for the system's address. */
  source: string | null = null;
  /** Its limits, once it is known where it leads; what they are about, and the key of its number of connections. */
  limits: { at: PlaceLimits; about: About; connections: string } | null = null;
  /** How it is looked at by allowance.ts, made once. */
  moment: LaneMoment | null = null;
  readonly traffic: Traffic;
  /** The mails of single recipient domains, in operators' lanes. Those that had mail longest ago are first. */
  domains: Map<string, Traffic> | null = null;
  /** Null until a reply is counted. */
  shaping: ShapingMemory | null = null;
  /** The recipient domains that asked for less since the last accepted mail. */
  asking: readonly string[] = none;
  acceptedAt = -Infinity;
  /** No worker is started before then that would find no connection, unless the pool wakes the lane. */
  lullUntil = 0;
  /** Workers that single hosts of an operator's lane keep waiting, and when they were counted. */
  slowWorkers = { count: 0, at: -Infinity };
  timer: Timer | null = null;
  timerAt = 0;
  lastReply: string | null = null;
  lastProgressAt: number;
  changes: LaneChange[] = [];

  constructor(now: number) {
    this.traffic = new Traffic(now);
    this.lastProgressAt = now;
  }
}

/** Returns the counts that a mail belongs to: those of the lane, and of its domain in an operator's lane. */
export function trafficsOf(state: LaneState, domain: string, now: number): Traffic[] {
  if (!isShared(state)) return [state.traffic];
  const domains = (state.domains ??= new Map<string, Traffic>());
  const own = domains.get(domain) ?? new Traffic(now);
  domains.delete(domain);
  domains.set(domain, own);
  if (domains.size > MOST_DOMAINS)
    for (const [first, traffic] of domains) {
      if (traffic.isBusy) continue;
      domains.delete(first);
      break;
    }
  return [state.traffic, own];
}

/** Returns whether the lane is an operator's: it leads to many host sets, each with a domain of its own. */
export const isShared = (state: LaneState): boolean => state.site?.operator != null;

export const hostKeysOf = ({ site, source }: LaneState): string[] =>
  (site?.hosts ?? []).map((host) => hostKey(host, source));

/** Moves all times by `ms`, by which the clock was set. */
export function shiftLaneState(state: LaneState, ms: number): void {
  for (const traffic of [state.traffic, ...(state.domains?.values() ?? [])]) traffic.shift(ms);
  state.timerAt += ms;
  state.acceptedAt += ms;
  if (state.lullUntil > 0) state.lullUntil += ms;
  state.lastProgressAt += ms;
}

/** A lane that waits for the pool is looked at again after so long even if the pool does not wake it. */
export const LOOK_AGAIN_MS = 2_000;
/** A host of an operator's lane that lets a worker wait longer than this keeps only that worker, not its place in the lane. */
const SLOW_HOST_MS = 2_000;
const SLOW_WORKERS_LOOK_MS = 1_000;
const MOST_SLOW_WORKERS = 40;

/** Decides how many workers a lane may have now, and when a lane that may have none is looked at again. */
export class LaneWorkers {
  private readonly engine: Engine;
  private readonly lanes: { limitsOf(state: LaneState): PlaceLimits; momentOf(state: LaneState): LaneMoment };

  constructor(engine: Engine, lanes: LaneWorkers['lanes']) {
    this.engine = engine;
    this.lanes = lanes;
  }

  of(lane: string, state: LaneState): number {
    const most = this.most(lane, state);
    return most === 0 ? 0 : Math.min(most + this.slowWorkers(lane, state), this.reachable(lane, state));
  }

  /** Returns how many workers the limits allow, whether or not they would find a connection. */
  most(lane: string, state: LaneState): number {
    const now = this.engine.clock.now();
    const whole = this.allowance(state);
    if (whole.kind === 'wait' && whole.until > now) {
      this.wakeAt(lane, state, whole.until);
      return 0;
    }
    return this.connections(lane, state);
  }

  /** Returns how many connections this node may use, by the receiver's limit and the operator's. */
  connections(lane: string, state: LaneState): number {
    const most = connectionsOf(this.lanes.limitsOf(state).of(null));
    const { nodes, isNew } = this.engine.parts.of(lane);
    return isNew ? 1 : Math.ceil(most / nodes);
  }

  allowance(state: LaneState): Allowance {
    return allowance(this.lanes.limitsOf(state).of(null), null, this.lanes.momentOf(state), this.engine.clock.now());
  }

  /** Returns how many workers find a connection: those that have one, and as many as the hosts let in. */
  private reachable(lane: string, state: LaneState): number {
    // The hosts of an operator's lane differ from mail to mail: mail whose hosts cannot be had is put aside by itself.
    if (isShared(state)) return Infinity;
    const hosts = state.site?.hosts ?? [];
    if (hosts.length === 0) return 1;
    const { pool, clock } = this.engine;
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
    if (isLull) this.wakeAt(lane, state, state.lullUntil);
    else if (sum === 0) this.wakeWhenOpen(lane, state);
    return sum;
  }

  /** Counts workers of an operator's lane that wait for single hosts to answer or greet. They are outside its limit: a few would stop all mail. */
  private slowWorkers(lane: string, state: LaneState): number {
    if (!isShared(state)) return 0;
    const { clock, pool } = this.engine;
    const now = clock.monotonic();
    if (now - state.slowWorkers.at >= SLOW_WORKERS_LOOK_MS)
      state.slowWorkers = {
        count: Math.min(MOST_SLOW_WORKERS, pool.waitingLong(SLOW_HOST_MS).get(lane) ?? 0),
        at: now,
      };
    if (state.timer === null) this.wakeAt(lane, state, clock.now() + LOOK_AGAIN_MS);
    return state.slowWorkers.count;
  }

  private wakeWhenOpen(lane: string, state: LaneState): void {
    const { clock, pool } = this.engine;
    const ends = hostKeysOf(state).flatMap((host) => pool.waitOf(host)?.until ?? []);
    // If the end is not known (another lane's dial, say) the pool wakes the lane; but its reason may be gone by then.
    const wait = ends.length === 0 ? LOOK_AGAIN_MS : Math.max(1, Math.min(...ends) - clock.monotonic());
    this.wakeAt(lane, state, clock.now() + wait);
  }

  private wakeAt(lane: string, state: LaneState, at: number): void {
    if (state.timer !== null && state.timerAt <= at) return;
    const { clock } = this.engine;
    state.timer?.cancel();
    state.timerAt = at;
    state.timer = clock.after(Math.max(0, at - clock.now()), () => {
      state.timer = null;
      this.engine.lanes.pump(lane);
    });
  }
}
