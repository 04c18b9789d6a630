/** Finds the way of a mail to its end: over a connection to a host of its site, or without one (simulator, discarded, no route). */
import { AddressMemory } from '../connection/address-memory.ts';
import type { LeaseWait } from '../connection/pool.ts';
import type { Destination, Site } from '../sites/sites.ts';
import { laneName } from '../names.ts';
import type { Job } from '../due-queue.ts';
import type { Engine } from '../engine.ts';
import {
  connectToSite,
  takeIdleConnection,
  withDeadline,
  type HostConnection,
  type Reached,
  type SourceContext,
  type Wanted,
} from './reach.ts';

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
  private readonly engine: Engine;
  private readonly contexts = new Map<string | null, SourceContext>();
  private loggedExhaustedAt = -Infinity;

  constructor(engine: Engine) {
    this.engine = engine;
  }

  /** Returns a passage that takes no time, or null. */
  findIdle(job: Job, wanted: Wanted): Passage | null {
    const destination = this.engine.sites.known(job.domain);
    if (destination === null || destination.kind === 'hold' || destination.kind === 'unresolved') return null;
    const startedAt = this.engine.clock.now();
    if (destination.kind !== 'site') return { kind: 'inner', startedAt, destination };
    const connection = takeIdleConnection(this.contextOf(job.source ?? null), destination, wanted);
    return connection === null ? null : { kind: 'connected', startedAt, destination, connection };
  }

  async find(job: Job, wanted: Wanted): Promise<Passage | NoPassage> {
    const destination = this.engine.sites.known(job.domain);
    if (destination === null || destination.kind === 'hold' || destination.kind === 'unresolved')
      return { kind: 'moved' };
    const startedAt = this.engine.clock.now();
    if (destination.kind !== 'site') return { kind: 'inner', startedAt, destination };
    const { source = null } = job;
    const reached = await connectToSite(withDeadline(this.contextOf(source)), destination, wanted);
    switch (reached.kind) {
      case 'reached':
        return { kind: 'connected', startedAt, destination, connection: reached.connection };
      case 'unreached':
        // Nothing was offered: another source is tried, and no attempt is spent.
        if (this.engine.placing.hasOpenSource(destination, job)) return { kind: 'moved' };
        return { kind: 'unreached', startedAt, destination, outcome: reached.outcome };
      case 'exhausted':
        this.logExhausted(reached.text);
        return { kind: 'exhausted' };
      case 'wait':
        if (reached.refusal !== null)
          this.engine.control.noteRefusedConnection(laneName(destination.name, source), reached.refusal);
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
      const { clock, pool, tls, maySend, hostTls, transcripts, sources, options } = this.engine;
      const source = sources.find(name);
      context = {
        clock,
        pool,
        tls,
        maySend,
        memory: hostTls.memory,
        addresses: new AddressMemory(),
        transcripts,
        timeouts: options.timeouts,
        hostname: source.ehlo,
        source: name,
        local: () => options.localOf(source),
      };
      this.contexts.set(name, context);
    }
    return context;
  }

  private logExhausted(text: string): void {
    const { clock, log } = this.engine;
    const now = clock.now();
    if (now - this.loggedExhaustedAt < EXHAUSTED_QUIET_MS && now >= this.loggedExhaustedAt) return;
    this.loggedExhaustedAt = now;
    log.error(
      { event: 'no_descriptors', reason: text },
      'no connection can be opened: mail waits without attempts (see LimitNOFILE and delivery.maxConnections)',
    );
  }
}
