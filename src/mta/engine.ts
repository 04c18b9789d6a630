/** The delivery engine as its parts see it: what it is given, and the parts, made with all of it (mta.ts). They ask each other once all are made. */
import type { ExtraTime, RetryRule } from '../messages/delivery/retry.ts';
import type { AnswerRules } from '../config/limit-rules.ts';
import type { Judge } from '../messages/delivery/classify.ts';
import type { Outcome } from '../messages/delivery/delivery.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import type { Holds } from '../messages/delivery/holds.ts';
import type { Occurrence, Recorder } from '../messages/delivery/record.ts';
import type { LimitBook } from '../messages/limits/book.ts';
import type { Lanes } from '../scheduling/lanes.ts';
import type { Notifier } from '../scheduling/notifier.ts';
import type { Database } from '../storage/database.ts';
import type { Nodes } from '../storage/nodes.ts';
import type { Owners } from '../storage/owners.ts';
import type { Attempts } from './attempt/attempt.ts';
import type { Transcripts } from './attempt/transcripts.ts';
import type { PhaseTimeouts } from './connection/phases.ts';
import type { Pool, PoolLimits } from './connection/pool.ts';
import type { TlsClient } from './connection/tls.ts';
import type { DueQueue, Job } from './due-queue.ts';
import type { LaneReports } from './lane-reports.ts';
import type { Aside } from './lanes/aside.ts';
import type { LaneControl } from './lanes/lane-control.ts';
import type { NodeParts } from './lanes/node-parts.ts';
import type { ConnectionLimits } from './limits/learn.ts';
import type { compileRules } from './limits/shaping.ts';
import type { Placing } from './placing.ts';
import type { Prepare, PrepareDeps } from './prepare/prepare.ts';
import type { Destination, Sites } from './sites/sites.ts';
import type { Source, Sources } from './sources/sources.ts';
import type { HostTls } from './connection/dial.ts';

export interface EngineDeps extends Omit<PrepareDeps, 'db' | 'holdOf' | 'ownName'> {
  db: Pick<Database, 'prepared' | 'maintenance' | 'commit'>;
  recorder: Pick<Recorder, 'record'>;
  /** `holds` notifies when the operator has set or ended a hold or limit, `limits` when what receivers teach was written. */
  notifiers: {
    deliveries: Notifier<readonly DueHint[]>;
    holds: Notifier;
    limits: Notifier;
    /** Mail for these domains, or all (`*`), is to be tried now. */
    tries: Notifier<readonly string[]>;
  };
  sites: Sites;
  sources: Sources;
  limits: LimitBook;
  holds: Holds;
  nodes: Pick<Nodes, 'epoch' | 'isLeader' | 'hasOthers' | 'ended' | 'listen' | 'onChange' | 'setDraining'>;
  owners: Pick<Owners, 'isOurs' | 'onChange'>;
  random: () => number;
  /** Reads refusals, by the operator's rules too. */
  judge: Judge;
  /** Returns the pool of sources that a stream of an account names. */
  poolOf(accountId: string, stream: string): Promise<string>;
  /** See `OpenDeps.maySend`. */
  maySend?: () => boolean;
  /** Is called with the outcome of every attempt, and what it was made at. */
  attempted?(outcome: Outcome, destination: Destination): void;
}

export interface EngineOptions {
  retry: RetryRule;
  /** The number of this run of the program. */
  epoch: number;
  hostname: string;
  timeouts: PhaseTimeouts;
  pool: PoolLimits;
  lane: ConnectionLimits;
  answers: AnswerRules;
  shaping: Parameters<typeof compileRules>[0];
  maxConnections: number;
  simulatorDomain: string;
  /** The addresses of this machine that a source's connections come from, and the families it may dial. */
  localOf(source: Source): { addresses: readonly string[]; families: readonly number[] };
  /** PEM certificates that mail hosts' certificates may chain to in addition to the system's; for private networks. */
  ca?: string;
}

export interface Engine extends EngineDeps {
  readonly options: EngineOptions;
  isStopping: boolean;
  /** Reports that the database failed; what was to be done is tried again. */
  failed(error: unknown): void;
  /** Takes outcomes that cannot be written, since the database is closed for this run. */
  unwritten(occurrences: readonly Occurrence[]): void;
  /** How long a claim lasts, in ms: longer than any attempt. */
  leaseMs: number;
  /** Returns the time for mail whose time ran out while the program did not run. */
  extraTime(): ExtraTime;
  freeHeldMail(): Promise<void>;
  tls: TlsClient;
  hostTls: HostTls;
  transcripts: Transcripts;
  prepare: Prepare;
  pool: Pool;
  dueQueue: DueQueue;
  lanes: Lanes<Job>;
  aside: Aside;
  parts: NodeParts;
  control: LaneControl;
  placing: Placing;
  attempts: Attempts;
  reports: LaneReports;
}
