/**
 * One attempt: which end a mail meets (a host, the simulator, none), what is learned from it about the lane, the source, the
 * host's TLS and our own set-up, and its line in the log.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Judge } from '../messages/classify.ts';
import type { Outcome } from '../messages/delivery.ts';
import { nextTryAt, type RetryRule } from '../messages/retry.ts';
import type { Breaker } from './breaker.ts';
import type { PhaseTimeouts } from './connection/phases.ts';
import type { Pool } from './connection/pool.ts';
import type { TlsClient } from './connection/tls.ts';
import { deliver, type DeliverDeps } from './deliver.ts';
import type { HostTls } from './host-tls.ts';
import type { LaneControl } from './lane-control.ts';
import { cannotBuild, discarded, outcomeOfRoute, waitForUs, type AttemptFrame } from './outcome.ts';
import type { Prepared, Ready } from './prepare.ts';
import { createSetUpWarnings } from './set-up-warnings.ts';
import { simulate, simulatedEnd } from './simulator.ts';
import type { Destination, Sites } from './sites.ts';
import { laneName, type Source, type Sources } from './sources.ts';
import { SWEEP_MS } from './sweeper.ts';
import type { TlsSeen } from './tls-seen.ts';
import type { Transcripts } from './transcripts.ts';
import type { Job } from './windows.ts';
import type { Attempted, WorkerDeps } from './worker.ts';

export interface AttemptDeps {
  clock: Clock;
  log: Log;
  random: () => number;
  judge: Judge;
  sites: Pick<Sites, 'find'>;
  sources: Pick<Sources, 'find' | 'note'>;
  control: Pick<LaneControl, 'begin' | 'refused' | 'note' | 'told'>;
  breaker: Breaker;
  pool: Pool;
  tls: TlsClient;
  hostTls: Pick<HostTls, 'memory' | 'noteUse'>;
  transcripts: Pick<Transcripts, 'of'>;
  /** The lane's limits may have changed. */
  pump(lane: string): void;
  tlsSeen?: (seen: TlsSeen) => void;
  attempted?(outcome: Outcome): void;
}

export interface AttemptOptions {
  timeouts: PhaseTimeouts;
  retry: Pick<RetryRule, 'schedule'>;
  simulatorDomain: string;
  localOf: (source: Source) => { addresses: readonly string[]; families: readonly number[] };
}

/** Until a mail that nobody could be asked to take is looked at again. */
export const UNTRIED_MS = 2_000;
const EXHAUSTED_QUIET_MS = 60_000;

export function createAttempts(deps: AttemptDeps, options: AttemptOptions): WorkerDeps['attempt'] {
  const { clock, log, control, sources } = deps;
  const warnings = createSetUpWarnings({ clock, log });
  const common = {
    clock,
    pool: deps.pool,
    tls: deps.tls,
    memory: deps.hostTls.memory,
    breaker: deps.breaker,
    transcripts: deps.transcripts,
    timeouts: options.timeouts,
    ...(deps.tlsSeen === undefined ? {} : { tlsSeen: deps.tlsSeen }),
  };
  /** What a delivery by each source may touch. */
  const bySource = new Map<string | null, DeliverDeps>();
  let toldExhaustedAt = -Infinity;

  function deliverDepsOf(name: string | null): DeliverDeps {
    let known = bySource.get(name);
    if (known === undefined) {
      const source = sources.find(name);
      known = { ...common, hostname: source.ehlo, source: name, local: () => options.localOf(source) };
      bySource.set(name, known);
    }
    return known;
  }

  /** Once a minute: every mail that falls due meets it. */
  function tellExhausted(text: string): void {
    if (clock.now() - toldExhaustedAt < EXHAUSTED_QUIET_MS && clock.now() >= toldExhaustedAt) return;
    toldExhaustedAt = clock.now();
    log.error(
      { event: 'no_descriptors', reason: text },
      'no connection can be opened: mail waits without attempts (see LimitNOFILE and delivery.maxConnections)',
    );
  }

  async function attempt(job: Job, mail: Prepared, number: number, connected: () => void): Promise<Attempted> {
    const startedAt = clock.now();
    const lot = deps.random();
    // The wait begins when the attempt has ended: a host that lets us wait is not asked again at once.
    const frame = (endedAt: number, viaRelay = false): AttemptFrame => ({
      startedAt,
      endedAt,
      retryAt: nextTryAt(options.retry, number, endedAt, lot),
      viaRelay,
      judge: deps.judge,
      retryWith: (hint) => nextTryAt(options.retry, number, endedAt, lot, hint),
    });
    const done = (outcome: Outcome): Attempted => ({ kind: 'done', outcome, followUps: [] });
    if (mail.kind !== 'ready') return done(notReady(frame(clock.now()), job, mail));
    const destination = await deps.sites.find(job.domain);
    const attempted = await toDestination(job, destination, mail, number, frame, connected);
    if (attempted.kind === 'done') note(job, mail, destination, number, attempted.outcome);
    return attempted;
  }

  async function toDestination(
    job: Job,
    destination: Destination,
    mail: Ready,
    number: number,
    frame: (endedAt: number, viaRelay?: boolean) => AttemptFrame,
    connected: () => void,
  ): Promise<Attempted> {
    const now = clock.now();
    switch (destination.kind) {
      case 'simulator':
        return {
          kind: 'done',
          ...simulate(simulatedEnd(mail.testOutcome, mail.recipient, options.simulatorDomain), number, now),
        };
      case 'discard':
        return { kind: 'done', outcome: discarded(frame(now)), followUps: [] };
      case 'hold':
        return { kind: 'untried', dueAt: now + SWEEP_MS };
      case 'nowhere':
        return { kind: 'done', outcome: outcomeOfRoute(frame(now), destination.route), followUps: [] };
      case 'site': {
        const relayed = destination.relay !== null;
        const { source = null } = job;
        const lane = laneName(destination.name, source);
        control.begin(lane);
        const tried = await deliver(
          deliverDepsOf(source),
          destination,
          mail,
          (endedAt) => frame(endedAt, relayed),
          connected,
          number === 1,
        );
        if (tried.kind === 'untried') {
          if (tried.exhausted !== undefined) tellExhausted(tried.exhausted);
          if (tried.refusal !== null) control.refused(lane, tried.refusal);
          return { kind: 'untried', dueAt: clock.now() + UNTRIED_MS };
        }
        // Its place is used up.
        delete job.placeAt;
        return { kind: 'done', outcome: tried.outcome, followUps: [] };
      }
    }
  }

  function notReady(frame: AttemptFrame, job: Job, mail: Exclude<Prepared, Ready>): Outcome {
    if (mail.kind === 'unsigned') {
      log.error(
        { event: 'signing_unavailable', delivery_id: job.id, reason: mail.why },
        'a mail waits because it cannot be signed',
      );
      return waitForUs(frame, mail.why);
    }
    if (mail.kind === 'unready') {
      log.error(
        { event: 'composing_failed', delivery_id: job.id, reason: mail.why },
        'a mail waits because it could not be composed',
      );
      return waitForUs(frame, mail.why);
    }
    return cannotBuild(frame, mail.kind === 'gone' ? 'its rows are gone' : mail.why);
  }

  function note(job: Job, mail: Ready, destination: Destination, number: number, outcome: Outcome): void {
    const { facts } = outcome;
    const { source = null } = job;
    const lane = destination.kind === 'site' ? laneName(destination.name, source) : destination.kind;
    deps.attempted?.(outcome);
    log.info(
      {
        event: 'attempt',
        message_id: mail.messageId,
        delivery_id: job.id,
        domain: job.domain,
        attempt: number,
        outcome: outcome.kind,
        host: facts.mx,
        ip: facts.ip,
        source: facts.source,
        code: facts.smtpCode,
        enhanced: facts.enhancedCode,
        text: facts.smtpReply,
        rule: 'grounds' in outcome ? outcome.grounds.rule : null,
        tls: facts.tls?.protocol ?? null,
        tls_policy: facts.tls?.policy ?? null,
        tls_verified: facts.tls?.verified ?? null,
        ms: facts.endedAt - facts.startedAt,
        timings: facts.timings,
        lane,
      },
      'delivery attempt',
    );
    if (destination.kind !== 'site') return;
    warnings.note(lane, outcome);
    control.note(lane, outcome);
    const block = sources.note(source, destination.name, outcome);
    if (block !== null) {
      control.told(lane, `sends nothing until ${new Date(block.until).toISOString()}`, block.reply);
      deps.pump(lane);
    }
    const port = destination.hosts.find(({ name }) => name === facts.mx)?.port;
    if (outcome.kind === 'accepted' && port !== undefined && destination.relay === null && destination.tls !== 'none')
      deps.hostTls.noteUse(`${facts.mx ?? ''}:${String(port)}`, facts.tls !== null);
  }

  return attempt;
}
