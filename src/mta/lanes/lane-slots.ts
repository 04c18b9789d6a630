/** Decides how many workers a lane may have now, and when a lane that may have none is looked at again. */
import { isDown } from '../connection/dial-gate.ts';
import { hostKey } from '../names.ts';
import type { LaneControlDeps } from './lane-control.ts';
import { hostKeysOf, isShared, type LaneState } from './lane-state.ts';
import { divided, readyAt } from './pace.ts';

export type LaneSlotsDeps = Pick<LaneControlDeps, 'clock' | 'pool' | 'limitsOf' | 'shares' | 'pump'>;

/** A lane that waits for the pool is looked at again after so long even where the pool does not wake it. */
const LOOK_AGAIN_MS = 2_000;
/** A host of an operator's lane that lets a worker wait longer than this keeps only that worker, not its place in the lane. */
const SLOW_HOST_MS = 2_000;
/** How often such workers are counted. */
const SLOW_WORKERS_LOOK_MS = 1_000;
const MOST_SLOW_WORKERS = 40;

export class LaneSlots {
  private readonly deps: LaneSlotsDeps;

  constructor(deps: LaneSlotsDeps) {
    this.deps = deps;
  }

  of(lane: string, state: LaneState): number {
    const most = this.most(lane, state);
    return most === 0 ? 0 : Math.min(most + this.slowWorkers(lane, state), this.reachable(lane, state));
  }

  /** Returns how many workers the limits allow, whether or not they would find a connection. */
  most(lane: string, state: LaneState): number {
    const now = this.deps.clock.now();
    const rest = laneRestUntil(state, now);
    const given = this.deps.limitsOf(lane);
    const paceAt = readyAt(state.pace, divided(given?.perMinute ?? null, this.deps.shares, lane), now);
    const at = Math.max(rest ?? 0, paceAt > now ? paceAt : 0);
    if (at > 0) {
      this.wakeAt(lane, state, at);
      return 0;
    }
    const most = Math.min(state.throttle.limit, given?.connections ?? Infinity, isProbing(state) ? 1 : Infinity);
    return Math.min(most, this.deps.shares.of(lane).connections);
  }

  /** Returns whether all of the lane rests, so that it needs no connections. */
  isResting(state: LaneState): boolean {
    return laneRestUntil(state, this.deps.clock.now()) !== null;
  }

  /** Returns how many workers find a connection: those that have one, and as many as the hosts let in. */
  private reachable(lane: string, state: LaneState): number {
    // The hosts of an operator's lane differ from mail to mail: mail whose hosts cannot be had is put aside by itself.
    if (isShared(state)) return Infinity;
    const hosts = state.site?.hosts ?? [];
    if (hosts.length === 0) return 1;
    const { pool, clock } = this.deps;
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

  /**
   * Counts the workers of an operator's lane that wait for hosts of single organisations (a dial without an answer, a banner that
   * does not come). They do not count against the lane's limit: a few such hosts would stop the mail for all the others.
   */
  private slowWorkers(lane: string, state: LaneState): number {
    if (!isShared(state)) return 0;
    const { clock, pool } = this.deps;
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
    const { clock, pool } = this.deps;
    const ends = hostKeysOf(state).flatMap((host) => pool.waitOf(host)?.until ?? []);
    // Where the end is not known (another lane's dial, say) the pool wakes the lane; but its reason may be gone by then.
    const wait = ends.length === 0 ? LOOK_AGAIN_MS : Math.max(1, Math.min(...ends) - clock.monotonic());
    this.wakeAt(lane, state, clock.now() + wait);
  }

  private wakeAt(lane: string, state: LaneState, at: number): void {
    if (state.timer !== null && state.timerAt <= at) return;
    const { clock } = this.deps;
    state.timer?.cancel();
    state.timerAt = at;
    state.timer = clock.after(Math.max(0, at - clock.now()), () => {
      state.timer = null;
      this.deps.pump(lane);
    });
  }
}

/** Returns until when all of the lane rests, or null. */
function laneRestUntil(state: LaneState, now: number): number | null {
  const whole = state.rests.list().filter(({ account, domain }) => account === null && domain === null);
  const ends = [...whole.map(({ until }) => until), state.ruleRest?.until ?? 0].filter((until) => until > now);
  return ends.length === 0 ? null : Math.max(...ends);
}

/** Returns whether one mail finds out if a rest of the whole lane is over: meanwhile only one goes at a time. */
const isProbing = (state: LaneState): boolean =>
  state.rests.list().some(({ account, domain }) => account === null && domain === null);
