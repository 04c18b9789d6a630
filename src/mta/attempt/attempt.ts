/**
 * One attempt: which end a mail meets (a host, the simulator, none) and by which connection, what is learned from it about the
 * lane, the source, the host's TLS and our own set-up, and its line in the log.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Judge } from '../../messages/delivery/classify.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import { nextTryAt, type RetryRule } from '../../messages/delivery/retry.ts';
import type { PhaseTimeouts } from '../connection/phases.ts';
import type { LeaseWait, Pool } from '../connection/pool.ts';
import type { TlsClient } from '../connection/tls.ts';
import { deliver, idleWay, reach, type DeliverDeps, type Reached, type Wanted, type Way } from './deliver.ts';
import type { HostTls } from '../tls/host-tls.ts';
import type { LaneControl } from '../lanes/lane-state.ts';
import { cannotBuild, discarded, outcomeOfRoute, waitForUs, type AttemptFrame } from './outcome.ts';
import type { Prepared, Ready } from '../prepare/prepare.ts';
import type { Part } from '../lanes/rests.ts';
import { createSetUpWarnings } from './set-up-warnings.ts';
import { simulate, simulatedEnd } from './simulator.ts';
import type { Destination, Site, Sites } from '../sites/sites.ts';
import { laneName, type Source, type Sources } from '../sources/sources.ts';
import type { TlsSeen } from '../tls/tls-seen.ts';
import type { Transcripts } from './transcripts.ts';
import type { Job } from '../due-queue.ts';
import type { Attempted } from '../worker.ts';

export interface AttemptDeps {
  clock: Clock;
  log: Log;
  random: () => number;
  judge: Judge;
  sites: Pick<Sites, 'known' | 'find'>;
  sources: Pick<Sources, 'find' | 'note'>;
  control: Pick<LaneControl, 'begin' | 'dropped' | 'refused' | 'learn' | 'told'>;
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

/** How a mail goes to its end: over a connection, without one, or not at all, since no host of its site let us in. */
export type Passage = { startedAt: number; destination: Exclude<Destination, { kind: 'hold' | 'unresolved' }> } & (
  | { kind: 'connected'; destination: Site; way: Way }
  | { kind: 'inner' }
  | { kind: 'unreached'; destination: Site; outcome: Extract<Reached, { kind: 'unreached' }>['outcome'] }
);

/** No passage now: it waits for a connection, its destination is another by now, or this machine cannot dial. */
export type NoPassage =
  { kind: 'wait'; hosts: Site['hosts']; waits: readonly LeaseWait[] } | { kind: 'elsewhere' } | { kind: 'exhausted' };

export interface Attempts {
  /** A passage that takes no time, or null. */
  passageNow(job: Job, wanted: Wanted | null): Passage | null;
  passage(job: Job, wanted: Wanted | null): Promise<Passage | NoPassage>;
  /** The passage is not used. */
  leave(passage: Passage): void;
  /** Tries the mail once. Throws only for a bug. */
  attempt(job: Job, mail: Prepared, number: number, passage: Passage): Promise<Attempted>;
}

/** Until a mail that nobody could be asked to take is looked at again. */
export const UNTRIED_MS = 2_000;
const EXHAUSTED_QUIET_MS = 60_000;

export function createAttempts(deps: AttemptDeps, options: AttemptOptions): Attempts {
  const { clock, log, control, sources } = deps;
  const warnings = createSetUpWarnings({ clock, log });
  const common = {
    clock,
    pool: deps.pool,
    tls: deps.tls,
    memory: deps.hostTls.memory,
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

  function passageNow(job: Job, wanted: Wanted | null): Passage | null {
    const destination = deps.sites.known(job.domain);
    if (destination === null || destination.kind === 'hold' || destination.kind === 'unresolved') return null;
    const startedAt = clock.now();
    if (destination.kind !== 'site' || wanted === null) return { kind: 'inner', startedAt, destination };
    const way = idleWay(deliverDepsOf(job.source ?? null), destination, wanted);
    return way === null ? null : { kind: 'connected', startedAt, destination, way };
  }

  async function passage(job: Job, wanted: Wanted | null): Promise<Passage | NoPassage> {
    const destination = deps.sites.known(job.domain);
    if (destination === null || destination.kind === 'hold' || destination.kind === 'unresolved')
      return { kind: 'elsewhere' };
    const startedAt = clock.now();
    if (destination.kind !== 'site' || wanted === null) return { kind: 'inner', startedAt, destination };
    const { source = null } = job;
    const reached = await reach(deliverDepsOf(source), destination, wanted);
    switch (reached.kind) {
      case 'reached':
        return { kind: 'connected', startedAt, destination, way: reached.way };
      case 'unreached':
        return { kind: 'unreached', startedAt, destination, outcome: reached.outcome };
      case 'exhausted':
        tellExhausted(reached.text);
        return { kind: 'exhausted' };
      case 'wait':
        if (reached.refusal !== null) control.refused(laneName(destination.name, source), reached.refusal);
        return { kind: 'wait', hosts: destination.hosts, waits: reached.waits };
    }
  }

  async function attempt(job: Job, mail: Prepared, number: number, found: Passage): Promise<Attempted> {
    const lot = deps.random();
    const viaRelay = found.destination.kind === 'site' && found.destination.relay !== null;
    // The wait begins when the attempt has ended: a host that lets us wait is not asked again at once.
    const frame = (endedAt: number): AttemptFrame => ({
      startedAt: found.startedAt,
      endedAt,
      retryAt: nextTryAt(options.retry, number, endedAt, lot),
      viaRelay,
      judge: deps.judge,
      retryWith: (hint) => nextTryAt(options.retry, number, endedAt, lot, hint),
    });
    if (mail.kind !== 'ready') {
      leave(found);
      return { kind: 'done', outcome: notReady(frame(clock.now()), job, mail), followUps: [] };
    }
    const { destination } = found;
    switch (destination.kind) {
      case 'simulator': {
        const end = simulatedEnd(mail.testOutcome, mail.recipient, options.simulatorDomain);
        return noted({ kind: 'done', ...simulate(end, number, clock.now()) }, job, mail, destination, number);
      }
      case 'discard': {
        const outcome = discarded(frame(clock.now()));
        return noted({ kind: 'done', outcome, followUps: [] }, job, mail, destination, number);
      }
      case 'nowhere': {
        const outcome = outcomeOfRoute(frame(clock.now()), destination.route);
        return noted({ kind: 'done', outcome, followUps: [] }, job, mail, destination, number);
      }
      case 'site':
        return toSite(job, mail, number, found, destination, frame);
    }
  }

  async function toSite(
    job: Job,
    mail: Ready,
    number: number,
    found: Passage,
    site: Site,
    frame: (endedAt: number) => AttemptFrame,
  ): Promise<Attempted> {
    const { source = null } = job;
    const lane = laneName(site.name, source);
    const part = partOf(job);
    control.begin(lane, part);
    delete job.turnIn;
    let isLearnt = false;
    try {
      let outcome: Outcome;
      if (found.kind === 'connected') {
        const tried = await deliver(deliverDepsOf(source), site, mail, found.way, frame, number === 1);
        if (tried.kind === 'untried') return { kind: 'untried', dueAt: clock.now() + UNTRIED_MS };
        outcome = tried.outcome;
      } else if (found.kind === 'unreached') outcome = found.outcome(frame(clock.now()));
      else throw new Error('a mail for a site has come without a connection');
      isLearnt = true;
      // Its place among the mails that its source may send today is used up.
      delete job.placeAt;
      return noted(
        { kind: 'done', outcome: control.learn(lane, part, asked(mail, outcome)), followUps: [] },
        job,
        mail,
        site,
        number,
      );
    } finally {
      if (!isLearnt) control.dropped(lane, part);
    }
  }

  function leave(found: Passage): void {
    if (found.kind === 'connected') found.way.lease.giveBack();
  }

  function noted<Done extends Extract<Attempted, { kind: 'done' }>>(
    done: Done,
    job: Job,
    mail: Ready,
    destination: Passage['destination'],
    number: number,
  ): Done {
    note(job, mail, destination, number, done.outcome);
    return done;
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

  function note(job: Job, mail: Ready, destination: Passage['destination'], number: number, outcome: Outcome): void {
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
        about: 'grounds' in outcome ? outcome.grounds.about : null,
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
    const block = sources.note(source, destination.name, outcome);
    if (block !== null) {
      control.told(lane, `sends nothing until ${new Date(block.until).toISOString()}`, block.reply);
      deps.pump(lane);
    }
    const port = destination.hosts.find(({ name }) => name === facts.mx)?.port;
    if (outcome.kind === 'accepted' && port !== undefined && destination.relay === null && destination.tls !== 'none')
      deps.hostTls.noteUse(`${facts.mx ?? ''}:${String(port)}`, facts.tls !== null);
  }

  return { passageNow, passage, leave, attempt };
}

/** TLS that is missing for what one mail asks (REQUIRETLS) says nothing about other mail. */
function asked({ tlsWish = null }: Ready, outcome: Outcome): Outcome {
  if (tlsWish === null || outcome.kind !== 'deferred' || outcome.verdict.reason !== 'tls_required') return outcome;
  return { ...outcome, grounds: { ...outcome.grounds, ...ofThisMail } };
}

const ofThisMail = { rule: 'tls', infrastructure: false, greylisting: false, about: 'message' } as const;

/** Whose mail it is, for what a lane learns. */
export const partOf = ({ share, domain }: Pick<Job, 'share' | 'domain'>): Part => ({ account: share, domain });
