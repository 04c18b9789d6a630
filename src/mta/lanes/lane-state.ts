/** The state of a lane, and the interface through which the rest of the engine reads and changes it. */
import type { Timer } from '../../base/clock.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import { hostKey } from '../names.ts';
import type { Site } from '../sites/sites.ts';
import type { LaneLimitsReport, LaneWait } from './lane-waits.ts';
import type { Pace } from './pace.ts';
import type { Part, Rest, Rests } from './rests.ts';
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

export interface LaneControl {
  /** Notes that the lane leads to this site, by this source. */
  register(lane: string, site: Site, source: string | null): void;
  /** Returns the site and source that the lane leads to, or null where it is not known. */
  routeOf(lane: string): { site: string; source: string | null } | null;
  /** Returns how many workers the lane may have now. */
  slots(lane: string): number;
  /** Returns until when this part of the lane's mail rests, or null where it may go. */
  restUntil(lane: string, part: Part): number | null;
  /** Counts a mail that a worker takes among those of this minute. */
  take(lane: string): void;
  /** Takes back `take` for a mail that was not begun after all. */
  putBack(lane: string): void;
  /** Notes that a mail is on a connection and about to be tried. */
  begin(lane: string, part: Part): void;
  /** Learns from the outcome of an attempt. A refusal that is the receiver's answer to us comes back as one to wait for. */
  learn(lane: string, part: Part, outcome: Outcome): Outcome;
  /** Notes that an attempt ended without an outcome. */
  dropped(lane: string, part: Part): void;
  /** Notes that a worker found no connection and has ended: no other is started for a second, unless the pool wakes the lane. */
  foundNone(lane: string): void;
  /** Wakes the lane: the pool has a connection for it. */
  wake(lane: string): void;
  /** Notes that a host refused one connection more than those that are open: no mail was tried. */
  noteRefusedConnection(lane: string, reply: string): void;
  /** Notes that something happened to the lane's source. */
  noteSourceChange(lane: string, to: string, cause: string): void;
  report(lane: string): LaneLimitsReport | null;
  /** Returns what mail of this part of the lane waits for, the most telling first. */
  waits(lane: string, part: Part, site: Site | null): LaneWait[];
  /** Returns the changes of a lane's limits, oldest first. */
  history(lane: string): LaneChange[];
  /** Returns the lanes that would use one connection more to this host. */
  lanesWanting(host: string): readonly string[];
  /** Ends the lane's rests and pauses on an operator's request, as far as they touch the domain; one mail tries first. */
  tryNow(lane: string, domain: string | null): void;
  /** Moves all times by `ms`, by which the clock was set: rests and paces last as long as before. */
  shift(ms: number): void;
  /** Returns the names of the lanes that have learnt something or were registered lately. */
  names(): readonly string[];
  /** Returns those that rest, or that have a limit which a receiver or the operator has set. */
  limited(): readonly string[];
  /** Tells whether some lane's mail may wait that no worker claims. */
  someWait(): boolean;
  /** Returns the parts of lanes that rest now. */
  resting(): { lane: string; rest: Rest }[];
  /** Forgets the lanes that made progress longest ago, beyond a bound. */
  forgetOld(): void;
  stop(): void;
}
