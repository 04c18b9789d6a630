/** What is known of a lane, and what can be asked and told of it. */
import type { Timer } from '../../base/clock.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { LaneLimitsReport, LaneWait } from './lane-waits.ts';
import type { Pace } from './pace.ts';
import type { Part, Rest, Rests } from './rests.ts';
import type { ShapingMemory } from './shaping.ts';
import type { Site } from '../sites/sites.ts';
import type { Throttle } from './throttle.ts';

/** One change of a lane's limits. */
export interface LaneChange {
  at: number;
  what: 'connections' | 'pace' | 'pause' | 'rule' | 'source';
  /** What it is from then on, in words: `4 connections`. */
  to: string;
  cause: string;
}

export interface LaneState {
  site: Site | null;
  /** The source it sends by; null for the system's address. */
  source: string | null;
  throttle: Throttle;
  pace: Pace;
  shaping: ShapingMemory;
  rests: Rests;
  /** The last domains, one after the other, whose mail was accepted, and when; kept for operators' lanes. */
  accepted: { domain: string; at: number }[];
  /** Until when it rests by a shaping rule, and by which. */
  ruleRest: { until: number; since: number; cause: string } | null;
  /** Until then no worker is started that would find no connection, unless the pool calls before. */
  lullUntil: number;
  /** Workers that a host of an operator's lane keeps waiting, as counted last. */
  kept: { count: number; at: number };
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
  /** Until when this part of the lane's mail rests, or null where it may go. */
  restUntil(lane: string, part: Part): number | null;
  /** A worker takes a mail: it counts among those of this minute. */
  take(lane: string): void;
  /** It was not begun after all. */
  putBack(lane: string): void;
  /** A mail is on a connection and about to be tried. */
  begin(lane: string, part: Part): void;
  /** What the attempt gave, and when it began. A refusal that is the receiver's answer to us comes back as one to wait for. */
  learn(lane: string, part: Part, outcome: Outcome): Outcome;
  /** An attempt ended without an outcome. */
  dropped(lane: string, part: Part): void;
  /** A worker found no connection and has ended: no other is started before the pool calls, or a second has passed. */
  foundNone(lane: string): void;
  /** The pool has a connection for the lane. */
  called(lane: string): void;
  /** A connection more than those that are open was refused: no mail has been tried. */
  refused(lane: string, reply: string): void;
  /** Something happened to the lane's source. */
  told(lane: string, to: string, cause: string): void;
  report(lane: string): LaneLimitsReport | null;
  /** What mail of this part of the lane waits for, the most telling first. */
  waits(lane: string, part: Part, site: Site | null): LaneWait[];
  /** The changes of a lane's limits, oldest first. */
  history(lane: string): LaneChange[];
  /** Lanes that would use one connection more to this host. */
  lanesWanting(host: string): readonly string[];
  /** Somebody wants to know now: rests and pauses of the lane end, as far as they touch the domain; one mail tries first. */
  tryNow(lane: string, domain: string | null): void;
  /** The clock was set to another time, so many ms on: rests and paces last as long as before. */
  shift(ms: number): void;
  /** Names of the lanes that have learnt something or were met lately. */
  names(): readonly string[];
  /** Of these, the ones with a limit that a receiver or the operator has set, or that rest. */
  limited(): readonly string[];
  /** Whether some lane's mail may wait that no worker claims. */
  someWait(): boolean;
  /** Parts of lanes that rest now. */
  resting(): { lane: string; rest: Rest }[];
  /** What a lane has learnt outlives its mail, but not without bound. */
  forgetOld(): void;
  stop(): void;
}
