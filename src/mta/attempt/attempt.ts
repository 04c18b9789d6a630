/** One attempt of one mail, over a connection or without (simulator, discarded, no route). It ends in an outcome; nothing goes to the database. */
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { MINUTE_MS } from '../../base/time.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import { nextTryAt, scheduleFor } from '../../messages/delivery/retry.ts';
import type { MailKey } from '../../messages/limits/limit.ts';
import {
  connectToSite,
  deliver,
  takeIdleConnection,
  withDeadline,
  type HostConnection,
  type Reached,
  type SourceContext,
  type Tried,
  type Wanted,
} from './deliver.ts';
import {
  policyAt,
  cannotBuild,
  discarded,
  outcomeOfRoute,
  waitForUs,
  type AttemptFrame,
  simulate,
  simulatedEnd,
} from './outcome.ts';
import { AddressMemory } from '../connection/connect.ts';
import type { LeaseWait } from '../connection/pool.ts';
import type { Job } from '../due-queue.ts';
import type { Engine } from '../engine.ts';
import { laneName } from '../names.ts';
import type { Failure, Prepared, Ready } from '../prepare/prepare.ts';
import type { Destination, Site } from '../sites/sites.ts';
import type { Attempted } from '../worker.ts';

export type SitePassage = { startedAt: number; destination: Site } & (
  | { kind: 'connected'; connection: HostConnection }
  /** Every host of the site was dialled, and none let us in. */
  | { kind: 'unreached'; outcome: Extract<Reached, { kind: 'unreached' }>['outcome'] }
);

export type Passage =
  | SitePassage
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

/** How long a mail waits that no host could be asked to take, in ms. */
export const UNTRIED_MS = 2_000;

type FrameAt = (endedAt: number) => AttemptFrame;
type Done = Extract<Attempted, { kind: 'done' }>;

const QUIET_MS = 10 * MINUTE_MS;
const MOST_REMEMBERED = 1_000;

export class Attempts {
  private readonly engine: Engine;
  private readonly warnOfSetUp: ReturnType<typeof createSetUpWarnings>;
  private readonly contexts = new Map<string | null, SourceContext>();
  private loggedExhaustedAt = -Infinity;

  constructor(engine: Engine) {
    this.engine = engine;
    this.warnOfSetUp = createSetUpWarnings(engine);
  }

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
    if (destination?.kind !== 'site') return { kind: 'moved' };
    const startedAt = this.engine.clock.now();
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

  release(passage: Passage): void {
    if (passage.kind === 'connected') passage.connection.lease.giveBack();
  }

  /** Tries the mail once. Throws only for a bug. */
  async attempt(job: Job, mail: Prepared, number: number, passage: Passage): Promise<Attempted> {
    if (mail.kind !== 'ready') {
      this.release(passage);
      return this.fail(job, mail, number);
    }
    if (passage.kind !== 'inner') return this.attemptSite(job, mail, number, passage);
    const { startedAt, destination } = passage;
    const now = this.engine.clock.now();
    let ended: Done;
    if (destination.kind === 'simulator') {
      const end = simulatedEnd(mail.testOutcome, mail.recipient, this.engine.options.simulatorDomain);
      ended = { kind: 'done', ...simulate(end, number, now) };
    } else {
      const frame = this.frameOf(job, mail.stream, number, startedAt)(now);
      ended = done(destination.kind === 'discard' ? discarded(frame) : outcomeOfRoute(frame, destination.route));
    }
    this.note(job, mail, destination, number, ended.outcome);
    return ended;
  }

  /** Returns the end of an attempt whose mail cannot be sent: it waits if a later try may send it. */
  fail(job: Job, failure: Failure, number: number): Attempted {
    const { id } = job;
    const { log, clock } = this.engine;
    const now = clock.now();
    const frame = this.frameOf(job, job.preference?.stream ?? '', number, now)(now);
    if (failure.kind === 'gone') return done(cannotBuild(frame, 'its rows are gone'));
    if (failure.kind === 'unbuildable') return done(cannotBuild(frame, failure.why));
    const facts = { recipient_id: id, delivery_id: id, reason: failure.why };
    if (failure.kind === 'unsigned')
      log.error({ event: 'signing_unavailable', ...facts }, 'a mail waits because it cannot be signed');
    else log.error({ event: 'composing_failed', ...facts }, 'a mail waits because it could not be loaded or composed');
    return done(waitForUs(frame, failure.why));
  }

  private contextOf(name: string | null): SourceContext {
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
        deadline: Infinity,
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

  /** The wait before the next try begins when the attempt has ended: a host that lets us wait is not asked again at once. */
  private frameOf(job: Job, stream: string, number: number, startedAt: number, viaRelay = false): FrameAt {
    const { options, judge, random } = this.engine;
    const lot = random();
    const rule = scheduleFor(options.retry, { account: job.share, domain: job.domain, stream });
    return (endedAt) => ({
      startedAt,
      endedAt,
      retryAt: nextTryAt(rule, number, endedAt, lot),
      viaRelay,
      judge,
      retryWith: (hint) => nextTryAt(rule, number, endedAt, lot, hint),
    });
  }

  private async attemptSite(job: Job, mail: Ready, number: number, passage: SitePassage): Promise<Attempted> {
    const { control, clock } = this.engine;
    const { source = null } = job;
    const { destination: site } = passage;
    const lane = laneName(site.name, source);
    const key = mailKeyOf(job);
    delete job.pacedLane;
    let isLearnt = false;
    try {
      const tried = await this.sendToSite(job, mail, number, passage);
      if (tried.kind === 'untried') return { kind: 'untried', dueAt: clock.now() + UNTRIED_MS };
      if (tried.kind === 'unmade') return this.fail(job, tried.failure, number);
      const { outcome } = tried;
      isLearnt = true;
      const hasOtherSource = this.engine.placing.hasOpenSource(site, job);
      const learnt = control.learn(lane, key, aboutThisMail(mail, outcome), hasOtherSource);
      this.note(job, mail, site, number, learnt);
      return done(learnt);
    } finally {
      if (!isLearnt) control.putBack(lane, key);
    }
  }

  private async sendToSite(job: Job, mail: Ready, number: number, passage: SitePassage): Promise<Tried> {
    const { clock } = this.engine;
    const { startedAt, destination: site } = passage;
    const frameAt = this.frameOf(job, mail.stream, number, startedAt, site.relay !== null);
    if (passage.kind === 'unreached') return { kind: 'tried', outcome: passage.outcome(frameAt(clock.now())) };
    const context = this.contextOf(job.source ?? null);
    return deliver(context, { site, mail, frameAt }, passage.connection);
  }

  /** Writes the line of an attempt in the log, and notes what it says about the source, the TLS of the host and our own set-up. */
  private note(job: Job, mail: Ready, destination: Passage['destination'], number: number, outcome: Outcome): void {
    const { engine } = this;
    const { facts } = outcome;
    const { source = null } = job;
    const lane = destination.kind === 'site' ? laneName(destination.name, source) : destination.kind;
    engine.attempted?.(outcome, destination);
    engine.log.info(
      {
        event: 'attempt',
        message_id: mail.messageId,
        request_id: mail.requestId,
        // The name of the views. `delivery_id` is that of earlier versions, and stays.
        recipient_id: job.id,
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
        tls_policy: facts.tls?.policy ?? policyOf(destination, facts.mx, mail),
        tls_verified: facts.tls?.verified ?? null,
        ms: facts.endedAt - facts.startedAt,
        timings: facts.timings,
        lane,
      },
      'delivery attempt',
    );
    if (destination.kind !== 'site') return;
    this.warnOfSetUp(lane, outcome);
    const port = destination.hosts.find(({ name }) => name === facts.mx)?.port;
    if (outcome.kind === 'accepted' && port !== undefined && destination.relay === null && destination.tls !== 'none')
      engine.hostTls.noteUse(`${facts.mx ?? ''}:${String(port)}`, facts.tls !== null);
  }
}

const done = (outcome: Outcome): Done => ({ kind: 'done', outcome, followUps: [] });

/** TLS that is missing for what one mail asks (REQUIRETLS) says nothing about other mail. */
function aboutThisMail({ tlsRequest = null }: Ready, outcome: Outcome): Outcome {
  if (tlsRequest === null || outcome.kind !== 'deferred' || outcome.verdict.reason !== 'tls_required') return outcome;
  return { ...outcome, grounds: { ...outcome.grounds, ...messageGrounds } };
}

const messageGrounds = { rule: 'tls', infrastructure: false, greylisting: false, about: 'message' } as const;

export const mailKeyOf = ({ share, domain, preference }: Pick<Job, 'share' | 'domain' | 'preference'>): MailKey => ({
  account: share,
  domain,
  stream: preference?.stream,
});

/** Plaintext has a policy, too: one that allows it, or one that kept the mail from the host. */
const policyOf = (
  destination: Passage['destination'],
  mx: string | null,
  { tlsRequest = null }: Ready,
): string | null => (destination.kind === 'site' ? policyAt(destination, mx, tlsRequest) : null);

/** Returns a function that warns the operator of refusals about our set-up, which customers cannot fix, once in 10 min for each lane and rule. */
export function createSetUpWarnings({
  clock,
  log,
}: {
  clock: Clock;
  log: Log;
}): (lane: string, outcome: Outcome) => void {
  const logged = new LRUCache<string, { at: number; since: number }>({ max: MOST_REMEMBERED });
  return (lane, outcome) => {
    if ((outcome.kind !== 'refused' && outcome.kind !== 'deferred') || outcome.grounds?.infrastructure !== true) return;
    const { facts, verdict, grounds } = outcome;
    const key = `${lane} ${grounds.rule}`;
    const before = logged.get(key);
    if (before !== undefined && clock.now() - before.at < QUIET_MS) {
      before.since++;
      return;
    }
    logged.set(key, { at: clock.now(), since: 0 });
    log.warn(
      {
        event: 'infrastructure_bounce',
        lane,
        host: facts.mx,
        source: facts.source,
        code: facts.smtpCode,
        enhanced: facts.enhancedCode,
        text: facts.smtpReply,
        reason: verdict.reason,
        rule: grounds.rule,
        unreported: before?.since ?? 0,
      },
      'mail is refused for reasons of our own set-up',
    );
  };
}
