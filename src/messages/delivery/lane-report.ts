/**
 * A lane as the delivery engine reports it to operators: commands, pages and metrics. Times in ms since the epoch. A node sends
 * reports to another one as JSON. Pure.
 */
import type { Limit } from '../limits/limit.ts';
import type { LaneView } from '../../scheduling/lanes.ts';
import type { LaneWait } from './why.ts';

/** A limit that is in force, with its cause. */
export interface LaneLimit {
  what: 'connections' | 'mails_per_minute';
  to: number;
  /** The cause of the limit. `nodes`: the lane's limit is larger, and other nodes use the rest of it. */
  by: 'receiver' | 'operator' | 'start' | 'nodes';
  cause: string;
  since: number | null;
  /** The recipient domain that it is about; absent if it is about the whole lane. */
  domain?: string;
}

/** The limits of a lane. */
export interface LaneLimitsReport {
  /** The source it sends by; null for the system's address. */
  source: string | null;
  limit: number;
  cause: string;
  causeAt: number | null;
  /** Mails a minute, or null if nothing limits them. */
  perMinute: number | null;
  /** Each limit with its own cause. */
  limits: readonly LaneLimit[];
  /** No mail is tried before then, because no host is dialled or the lane rests; or null. */
  parkedUntil: number | null;
  /** The reasons why mail of the lane waits, the most telling first. */
  waits: readonly LaneWait[];
  lastReply: string | null;
  lastProgressAt: number;
}

/** A lane with its jobs in memory, of which more may wait on disk, its busy workers and its limits. */
export interface LaneReport extends LaneView, LaneLimitsReport {}

/** One change of a lane's limits. */
export interface LaneChange {
  at: number;
  what: 'connections' | 'pace' | 'pause' | 'rule' | 'source';
  /** The new value, in words: `4 connections`. */
  to: string;
  cause: string;
}

/** A source with the lists that it is on and its warm-up. */
export interface SourceReport {
  /** Null for the address that the system chooses. */
  readonly name: string | null;
  readonly pool: string;
  readonly ehlo: string;
  readonly ipv4: string | null;
  readonly ipv6: string | null;
  paused: boolean;
  /** Its addresses that this machine does not have. */
  absent: readonly string[];
  /** The sites that have it on a list, or all of them, and until when nothing goes there. */
  blocks: readonly { site: string; since: number; until: number; reply: string }[];
  /** Today's counts; empty if the source is warm. */
  warmUp: readonly { site: string; sent: number; cap: number | null }[];
}

/** Lines of SMTP dialogues as they were said. */
export interface TranscriptPage {
  lines: readonly TranscriptLine[];
  /** The position after the last line, and how many lines before the first were not kept. */
  position: number;
  lost: number;
}

export interface TranscriptLine {
  at: number;
  /** Connections are numbered, since several may speak at once. */
  connection: number;
  lane: string;
  host: string;
  messageId: string;
  /** `>` is us. */
  side: '<' | '>';
  text: string;
}

/** Returns the cause of a limit that the operator has set. */
export const operatorCause = ({ cause: note }: { cause: string }): string =>
  `set by the operator${note === '' ? '' : `: ${note}`}`;

/** Returns the numbers of a limit that the operator has set. */
export const limitsByHand = ({ connections, perMinute, cause, since }: Limit): LaneLimit[] =>
  [['connections', connections] as const, ['mails_per_minute', perMinute] as const].flatMap(([what, to]) =>
    to === null ? [] : [{ what, to, by: 'operator' as const, cause: operatorCause({ cause }), since }],
  );
