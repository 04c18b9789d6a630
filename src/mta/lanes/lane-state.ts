/** The state of a lane. */
import type { Timer } from '../../base/clock.ts';
import { hostKey } from '../names.ts';
import type { Site } from '../sites/sites.ts';
import type { Pace } from './pace.ts';
import type { Rests } from './rests.ts';
import type { ShapingMemory } from './shaping.ts';
import type { Throttle } from './throttle.ts';

/** One change of a lane's limits. */
export interface LaneChange {
  at: number;
  what: 'connections' | 'pace' | 'pause' | 'rule' | 'source';
  /** The new value, in words: `4 connections`. */
  to: string;
  cause: string;
}

export interface LaneState {
  site: Site | null;
  /** The source that it sends by; null for the system's address. */
  source: string | null;
  throttle: Throttle;
  pace: Pace;
  shaping: ShapingMemory;
  rests: Rests;
  /** The two domains whose mail was accepted last, and when; used in operators' lanes only. */
  accepted: { domain: string; at: number }[];
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

/** Tells whether the lane is an operator's: it leads to many host sets, each with a domain of its own. */
export const isShared = (state: LaneState): boolean => state.site?.operator != null;

/** Returns the pool's names of the lane's hosts. */
export const hostKeysOf = ({ site, source }: LaneState): string[] =>
  (site?.hosts ?? []).map((host) => hostKey(host, source));
