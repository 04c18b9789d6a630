/** One attempt of one mail: it meets a host, the simulator or none, and ends in an outcome. Nothing is written to the database. */
import type { Judge } from '../../messages/delivery/classify.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import { nextTryAt, type RetryRule } from '../../messages/delivery/retry.ts';
import type { LaneControl } from '../lanes/lane-control.ts';
import type { MailKey } from '../../messages/limits/limit.ts';
import type { Failure, Prepared, Ready } from '../prepare/prepare.ts';
import { laneName } from '../names.ts';
import type { Site } from '../sites/sites.ts';
import type { Job } from '../due-queue.ts';
import type { Attempted } from '../worker.ts';
import { AttemptNotes, type AttemptNotesDeps } from './attempt-notes.ts';
import { deliver, type Tried } from './deliver.ts';
import { cannotBuild, discarded, outcomeOfRoute, waitForUs, type AttemptFrame } from './outcome.ts';
import type { Passage, Passages, SitePassage } from './passages.ts';
import { simulate, simulatedEnd } from './simulator.ts';

export interface AttemptDeps extends AttemptNotesDeps {
  random: () => number;
  /** Reads refusals, by the operator's rules too. */
  judge: Judge;
  passages: Pick<Passages, 'release' | 'contextOf'>;
  control: Pick<LaneControl, 'dropped' | 'learn'>;
  /** Returns whether a source of the job's pool, other than its own, may send it now. */
  hasOpenSource: (site: Site, job: Job) => boolean;
}

export interface AttemptOptions {
  retry: Pick<RetryRule, 'schedule'>;
  simulatorDomain: string;
}

/** How long a mail waits that no host could be asked to take, in ms. */
export const UNTRIED_MS = 2_000;

/** Makes the frame of an attempt that ended at the given time. */
type FrameAt = (endedAt: number) => AttemptFrame;
type Done = Extract<Attempted, { kind: 'done' }>;

export class Attempts {
  private readonly deps: AttemptDeps;
  private readonly options: AttemptOptions;
  private readonly notes: AttemptNotes;

  constructor(deps: AttemptDeps, options: AttemptOptions) {
    this.deps = deps;
    this.options = options;
    this.notes = new AttemptNotes(deps);
  }

  /** Tries the mail once. Throws only for a bug. */
  async attempt(job: Job, mail: Prepared, number: number, passage: Passage): Promise<Attempted> {
    if (mail.kind !== 'ready') {
      this.deps.passages.release(passage);
      return this.fail(job, mail, number);
    }
    if (passage.kind !== 'inner') return this.attemptSite(job, mail, number, passage);
    const { startedAt, destination } = passage;
    const now = this.deps.clock.now();
    let ended: Done;
    if (destination.kind === 'simulator') {
      const end = simulatedEnd(mail.testOutcome, mail.recipient, this.options.simulatorDomain);
      ended = { kind: 'done', ...simulate(end, number, now) };
    } else {
      const frame = this.frameOf(number, startedAt)(now);
      ended = done(destination.kind === 'discard' ? discarded(frame) : outcomeOfRoute(frame, destination.route));
    }
    this.notes.note(job, mail, destination, number, ended.outcome);
    return ended;
  }

  /** Returns the end of an attempt whose mail cannot be sent: it waits if a later try may send it. */
  fail({ id }: Job, failure: Failure, number: number): Attempted {
    const { log, clock } = this.deps;
    const now = clock.now();
    const frame = this.frameOf(number, now)(now);
    if (failure.kind === 'gone') return done(cannotBuild(frame, 'its rows are gone'));
    if (failure.kind === 'unbuildable') return done(cannotBuild(frame, failure.why));
    const facts = { recipient_id: id, delivery_id: id, reason: failure.why };
    if (failure.kind === 'unsigned')
      log.error({ event: 'signing_unavailable', ...facts }, 'a mail waits because it cannot be signed');
    else log.error({ event: 'composing_failed', ...facts }, 'a mail waits because it could not be loaded or composed');
    return done(waitForUs(frame, failure.why));
  }

  /** The wait before the next try begins when the attempt has ended: a host that lets us wait is not asked again at once. */
  private frameOf(number: number, startedAt: number, viaRelay = false): FrameAt {
    const { deps, options } = this;
    const lot = deps.random();
    return (endedAt) => ({
      startedAt,
      endedAt,
      retryAt: nextTryAt(options.retry, number, endedAt, lot),
      viaRelay,
      judge: deps.judge,
      retryWith: (hint) => nextTryAt(options.retry, number, endedAt, lot, hint),
    });
  }

  private async attemptSite(job: Job, mail: Ready, number: number, passage: SitePassage): Promise<Attempted> {
    const { control, clock } = this.deps;
    const { source = null } = job;
    const { destination: site } = passage;
    const lane = laneName(site.name, source);
    const key = mailKeyOf(job);
    delete job.pacedLane;
    let isLearnt = false;
    try {
      const tried = await this.sendToSite(source, mail, number, passage);
      if (tried.kind === 'untried') return { kind: 'untried', dueAt: clock.now() + UNTRIED_MS };
      if (tried.kind === 'unmade') return this.fail(job, tried.failure, number);
      const { outcome } = tried;
      isLearnt = true;
      // The mail has used up its part of what its source may send today.
      delete job.quotaSite;
      const learnt = control.learn(lane, key, aboutThisMail(mail, outcome), this.deps.hasOpenSource(site, job));
      this.notes.note(job, mail, site, number, learnt);
      return done(learnt);
    } finally {
      if (!isLearnt) control.dropped(lane, key);
    }
  }

  private async sendToSite(source: string | null, mail: Ready, number: number, passage: SitePassage): Promise<Tried> {
    const { passages, clock } = this.deps;
    const { startedAt, destination: site } = passage;
    const frameAt = this.frameOf(number, startedAt, site.relay !== null);
    if (passage.kind === 'unreached') return { kind: 'tried', outcome: passage.outcome(frameAt(clock.now())) };
    const context = passages.contextOf(source);
    return deliver(context, { site, mail, frameAt }, passage.connection);
  }
}

const done = (outcome: Outcome): Done => ({ kind: 'done', outcome, followUps: [] });

/** TLS that is missing for what one mail asks (REQUIRETLS) says nothing about other mail. */
function aboutThisMail({ tlsRequest = null }: Ready, outcome: Outcome): Outcome {
  if (tlsRequest === null || outcome.kind !== 'deferred' || outcome.verdict.reason !== 'tls_required') return outcome;
  return { ...outcome, grounds: { ...outcome.grounds, ...messageGrounds } };
}

const messageGrounds = { rule: 'tls', infrastructure: false, greylisting: false, about: 'message' } as const;

/** Returns the account and the domain of a job's mail. */
export const mailKeyOf = ({ share, domain }: Pick<Job, 'share' | 'domain'>): MailKey => ({ account: share, domain });
