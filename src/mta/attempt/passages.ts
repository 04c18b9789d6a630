/** Finds the way of a mail to its end: over a connection to a host of its site, or without one (simulator, discarded, no route). */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { AddressMemory } from '../connection/address-memory.ts';
import type { PhaseTimeouts } from '../connection/phases.ts';
import type { LeaseWait, Pool } from '../connection/pool.ts';
import type { TlsClient } from '../connection/tls.ts';
import type { LaneControl } from '../lanes/lane-control.ts';
import type { Destination, Site, Sites } from '../sites/sites.ts';
import { laneName } from '../names.ts';
import type { Source, Sources } from '../sources/sources.ts';
import type { HostTls } from '../tls/host-tls.ts';
import type { Job } from '../due-queue.ts';
import {
  connectToSite,
  takeIdleConnection,
  withDeadline,
  type HostConnection,
  type Reached,
  type SourceContext,
  type Wanted,
} from './reach.ts';
import type { Transcripts } from './transcripts.ts';

export interface PassageDeps {
  clock: Clock;
  log: Log;
  sites: Pick<Sites, 'known'>;
  sources: Pick<Sources, 'find'>;
  control: Pick<LaneControl, 'noteRefusedConnection'>;
  /** Returns whether a source of the job's pool, other than its own, may send it now. */
  hasOpenSource: (site: Site, job: Job) => boolean;
  pool: Pool;
  tls: TlsClient;
  /** See `OpenDeps.maySend`. */
  maySend?: () => boolean;
  hostTls: Pick<HostTls, 'memory'>;
  transcripts: Pick<Transcripts, 'of'>;
}

export interface PassageOptions {
  timeouts: PhaseTimeouts;
  /** The addresses of this machine that a source's connections come from, and the families it may dial. */
  localOf: (source: Source) => { addresses: readonly string[]; families: readonly number[] };
}

/** The way of a mail to its site. */
export type SitePassage = { startedAt: number; destination: Site } & (
  | { kind: 'connected'; connection: HostConnection }
  /** Every host of the site was dialled, and none let us in. */
  | { kind: 'unreached'; outcome: Extract<Reached, { kind: 'unreached' }>['outcome'] }
);

export type Passage =
  | SitePassage
  /** The mail needs no connection. */
  | {
      kind: 'inner';
      startedAt: number;
      destination: Exclude<Destination, { kind: 'site' | 'hold' | 'unresolved' }>;
    };

/** There is no passage now: the mail waits for a connection, its destination is another by now, or this machine cannot dial. */
export type NoPassage =
  { kind: 'wait'; hosts: Site['hosts']; waits: readonly LeaseWait[] } | { kind: 'moved' } | { kind: 'exhausted' };

/** At most one line in the log in this time, in ms: every mail that falls due meets the same. */
const EXHAUSTED_QUIET_MS = 60_000;

export class Passages {
  private readonly deps: PassageDeps;
  private readonly options: PassageOptions;
  private readonly contexts = new Map<string | null, SourceContext>();
  private loggedExhaustedAt = -Infinity;

  constructor(deps: PassageDeps, options: PassageOptions) {
    this.deps = deps;
    this.options = options;
  }

  /** Returns a passage that takes no time, or null. */
  findIdle(job: Job, wanted: Wanted): Passage | null {
    const destination = this.deps.sites.known(job.domain);
    if (destination === null || destination.kind === 'hold' || destination.kind === 'unresolved') return null;
    const startedAt = this.deps.clock.now();
    if (destination.kind !== 'site') return { kind: 'inner', startedAt, destination };
    const connection = takeIdleConnection(this.contextOf(job.source ?? null), destination, wanted);
    return connection === null ? null : { kind: 'connected', startedAt, destination, connection };
  }

  async find(job: Job, wanted: Wanted): Promise<Passage | NoPassage> {
    const destination = this.deps.sites.known(job.domain);
    if (destination === null || destination.kind === 'hold' || destination.kind === 'unresolved')
      return { kind: 'moved' };
    const startedAt = this.deps.clock.now();
    if (destination.kind !== 'site') return { kind: 'inner', startedAt, destination };
    const { source = null } = job;
    const reached = await connectToSite(withDeadline(this.contextOf(source)), destination, wanted);
    switch (reached.kind) {
      case 'reached':
        return { kind: 'connected', startedAt, destination, connection: reached.connection };
      case 'unreached':
        // Nothing was offered: another source is tried, and no attempt is spent.
        if (this.deps.hasOpenSource(destination, job)) return { kind: 'moved' };
        return { kind: 'unreached', startedAt, destination, outcome: reached.outcome };
      case 'exhausted':
        this.logExhausted(reached.text);
        return { kind: 'exhausted' };
      case 'wait':
        if (reached.refusal !== null)
          this.deps.control.noteRefusedConnection(laneName(destination.name, source), reached.refusal);
        return { kind: 'wait', hosts: destination.hosts, waits: reached.waits };
    }
  }

  /** Gives back a passage that is not used. */
  release(passage: Passage): void {
    if (passage.kind === 'connected') passage.connection.lease.giveBack();
  }

  /** Returns what a delivery by this source may use. */
  contextOf(name: string | null): SourceContext {
    let context = this.contexts.get(name);
    if (context === undefined) {
      const { clock, pool, tls, maySend, hostTls, transcripts, sources } = this.deps;
      const source = sources.find(name);
      context = {
        clock,
        pool,
        tls,
        maySend,
        memory: hostTls.memory,
        addresses: new AddressMemory(),
        transcripts,
        timeouts: this.options.timeouts,
        hostname: source.ehlo,
        source: name,
        local: () => this.options.localOf(source),
      };
      this.contexts.set(name, context);
    }
    return context;
  }

  private logExhausted(text: string): void {
    const { clock, log } = this.deps;
    const now = clock.now();
    if (now - this.loggedExhaustedAt < EXHAUSTED_QUIET_MS && now >= this.loggedExhaustedAt) return;
    this.loggedExhaustedAt = now;
    log.error(
      { event: 'no_descriptors', reason: text },
      'no connection can be opened: mail waits without attempts (see LimitNOFILE and delivery.maxConnections)',
    );
  }
}
