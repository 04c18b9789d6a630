/** The state of a lane in memory beside its limits: where it leads, its mails of the last minute, and what is shown of it. */
import type { Timer } from '../../base/clock.ts';
import type { LaneChange } from '../../messages/delivery/lane-report.ts';
import type { PlaceLimits } from '../../messages/limits/book.ts';
import type { ShapingMemory } from '../limits/shaping.ts';
import { Traffic } from '../limits/traffic.ts';
import { hostKey } from '../names.ts';
import type { Site } from '../sites/sites.ts';

export interface LaneState {
  site: Site | null;
  /** The source that it sends by; null for the system's address. */
  source: string | null;
  /** Its limits, once it is known where it leads. */
  limits: PlaceLimits | null;
  readonly traffic: Traffic;
  /** The mails of single recipient domains, in operators' lanes. Those that had mail longest ago are first. */
  domains: Map<string, Traffic> | null;
  /** Null until a reply is counted. */
  shaping: ShapingMemory | null;
  /** The recipient domains that asked for less since the last accepted mail. */
  asking: readonly string[];
  acceptedAt: number;
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

/** Recipient domains of an operator's lane whose mails are counted. */
const MOST_DOMAINS = 1_000;
/** Made with each lane, of which there are thousands. */
const none: readonly never[] = [];

export const newLaneState = (now: number): LaneState => ({
  site: null,
  source: null,
  limits: null,
  traffic: new Traffic(now),
  domains: null,
  shaping: null,
  asking: none,
  acceptedAt: -Infinity,
  lullUntil: 0,
  slowWorkers: { count: 0, at: -Infinity },
  timer: null,
  timerAt: 0,
  lastReply: null,
  lastProgressAt: now,
  changes: [],
});

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

/** Returns the pool's names of the lane's hosts. */
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
