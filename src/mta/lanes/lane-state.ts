/** The state of a lane: how it begins, and how its times move with the clock. */
import type { Timer } from '../../base/clock.ts';
import type { LaneChange } from '../../messages/delivery/lane-report.ts';
import { hostKey } from '../names.ts';
import type { Site } from '../sites/sites.ts';
import { Askers } from './askers.ts';
import { newPace, shifted, type Pace } from './pace.ts';
import { Rests } from './rests.ts';
import type { ShapingMemory } from './shaping.ts';
import { newThrottle, type Throttle, type ThrottleLimits } from './throttle.ts';

export interface LaneState {
  site: Site | null;
  /** The source that it sends by; null for the system's address. */
  source: string | null;
  throttle: Throttle;
  pace: Pace;
  /** Null until a reply is counted. */
  shaping: ShapingMemory | null;
  rests: Rests;
  /** Which domains ask for less; used in operators' lanes only. */
  askers: Askers;
  /** The rest that a shaping rule has set, or null. */
  ruleRest: { until: number; since: number; cause: string } | null;
  /** No worker is started before then that would find no connection, unless the pool wakes the lane. */
  lullUntil: number;
  /** Workers that single hosts of an operator's lane keep waiting, and when they were counted. */
  slowWorkers: { count: number; at: number };
  timer: Timer | null;
  timerAt: number;
  lastReply: string | null;
  lastProgressAt: number;
  changes: LaneChange[];
}

/** Returns the state of a lane that has learnt nothing. */
export function newLaneState(limits: ThrottleLimits, now: number): LaneState {
  const state: LaneState = {
    site: null,
    source: null,
    throttle: newThrottle(limits, now),
    pace: newPace(now),
    shaping: null,
    rests: new Rests({ isShared: () => isShared(state), isRelay: () => state.site?.relay != null }),
    askers: new Askers(),
    ruleRest: null,
    lullUntil: 0,
    slowWorkers: { count: 0, at: -Infinity },
    timer: null,
    timerAt: 0,
    lastReply: null,
    lastProgressAt: now,
    changes: [],
  };
  return state;
}

/** Moves all times by `ms`, by which the clock was set: rests and paces last as long as before. */
export function shiftLaneState(state: LaneState, ms: number): void {
  const { throttle } = state;
  state.rests.shift(ms);
  state.askers.shift(ms);
  if (state.ruleRest !== null) state.ruleRest = { ...state.ruleRest, until: state.ruleRest.until + ms };
  state.timerAt += ms;
  if (state.lullUntil > 0) state.lullUntil += ms;
  const { halvedAt, probeAt } = throttle;
  state.throttle = { ...throttle, halvedAt: halvedAt === null ? null : halvedAt + ms, probeAt: probeAt + ms };
  state.pace = shifted(state.pace, ms);
  state.lastProgressAt += ms;
}

/** Returns whether the lane knows more of its receiver than a new one: a limit, a count of answers, or which domains ask for less. */
export const hasLearnt = (state: LaneState): boolean =>
  state.changes.length > 0 || state.shaping !== null || !state.rests.isEmpty || isShared(state);

/** Returns whether the lane is an operator's: it leads to many host sets, each with a domain of its own. */
export const isShared = (state: LaneState): boolean => state.site?.operator != null;

/** Returns the pool's names of the lane's hosts. */
export const hostKeysOf = ({ site, source }: LaneState): string[] =>
  (site?.hosts ?? []).map((host) => hostKey(host, source));
