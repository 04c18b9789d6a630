/**
 * What a lane learns from outcomes. The subject of an answer says who waits for it (docs/delivery.md, "What a reply teaches"): only
 * answers about the receiver as a whole, or about us as its sender, touch the lane.
 */
import type { Outcome, Subject } from '../../messages/delivery/delivery.ts';
import type { LaneControlDeps, LaneControlOptions } from './lane-control.ts';
import type { LaneChanges } from './lane-changes.ts';
import { isShared, type LaneState } from './lane-state.ts';
import { ended, forgotten, slowed, taken } from './pace.ts';
import type { MailKey, RestKind } from './rests.ts';
import { shape, type CompiledRule } from './shaping.ts';
import { adopted, isNewer, type Learnt, lifted, pushedBack, succeeded, type ThrottleLimits } from './throttle.ts';

export type LaneLearningDeps = Pick<LaneControlDeps, 'clock' | 'viewOf' | 'shares' | 'pump' | 'wake'>;
export type LaneLearningOptions = Pick<LaneControlOptions, 'lane' | 'rules'>;

/** While one mail finds out whether a rest is over, the others are looked at again after so long. */
export const PROBE_LOOK_MS = 2_000;

const asksForLess: ReadonlySet<Subject> = new Set(['rate', 'load', 'connections']);
const restKinds: Readonly<Partial<Record<Subject, RestKind>>> = { load: 'load', sender: 'sender', tls: 'tls' };

export class LaneLearning {
  private readonly deps: LaneLearningDeps;
  private readonly options: LaneLearningOptions;
  private readonly changes: LaneChanges;
  /** The shaping rules. What a lane has counted belongs to these. */
  rules: readonly CompiledRule[];

  constructor(deps: LaneLearningDeps, options: LaneLearningOptions, changes: LaneChanges) {
    this.deps = deps;
    this.options = options;
    this.rules = options.rules;
    this.changes = changes;
  }

  learn(lane: string, state: LaneState, mail: MailKey, outcome: Outcome): Outcome {
    const now = this.deps.clock.now();
    state.lastProgressAt = now;
    state.lastReply = replyOf(outcome);
    if (outcome.kind === 'accepted') {
      this.noteAccepted(lane, state, mail, now);
      return outcome;
    }
    const about = subjectOfOutcome(outcome);
    const isWell = about === 'recipient' || about === 'message' || about === 'domain';
    // The server is well where it answers for one recipient or one mail: such answers make the lane grow like accepted mail.
    if (isWell) this.grow(lane, state, now);
    const isOneDomains =
      asksForLess.has(about) && isShared(state) && state.askers.isOneDomains(mail.domain, about === 'rate', now);
    const result = this.noteRefusal(lane, state, mail, outcome, about, isOneDomains);
    if (!isWell && !isOneDomains) {
      const operator = state.site?.operator?.name ?? null;
      state.shaping ??= new Map();
      for (const fired of shape(this.rules, state.shaping, operator, outcome, now))
        this.changes.applyRule(lane, state, fired);
    }
    return result;
  }

  /** Takes over what another node has learnt of the receiver, where that is newer. */
  adopt(lane: string, state: LaneState, learnt: Learnt): void {
    if (!isNewer(learnt, state.throttle)) return;
    const throttle = adopted(state.throttle, learnt, this.limitsOf(state), this.deps.clock.now());
    this.changes.setThrottle(lane, state, throttle, `learnt by another node: ${learnt.cause}`);
  }

  private grow(lane: string, state: LaneState, now: number): void {
    const { viewOf, shares } = this.deps;
    const isFull = viewOf(lane).slots + shares.of(lane).others >= state.throttle.limit;
    this.changes.setThrottle(lane, state, succeeded(state.throttle, this.limitsOf(state), isFull, now));
  }

  private limitsOf({ site }: LaneState): ThrottleLimits {
    const { lane } = this.options;
    const max = site?.operator?.maxConnections ?? lane.max;
    return { initial: Math.min(lane.initial, max), max };
  }

  private noteAccepted(lane: string, state: LaneState, mail: MailKey, now: number): void {
    this.grow(lane, state, now);
    this.changes.setPace(lane, state, taken(state.pace, now), 'a minute in which all of it was used');
    if (isShared(state) && state.askers.isTakenBack(mail.domain, now)) this.takeBack(lane, state, now);
    const over = state.rests.accepted(mail, now);
    for (const { cause } of over) this.changes.note(lane, state, { what: 'pause', to: 'the rest is over', cause });
    if (over.length === 0) return;
    this.deps.wake();
    this.deps.pump(lane);
  }

  /** Takes back the limits that the answers of one domain have set: another one's mail is taken. */
  private takeBack(lane: string, state: LaneState, now: number): void {
    state.throttle = lifted(state.throttle);
    if (state.pace.perMinute === null) return;
    this.changes.setPace(
      lane,
      state,
      forgotten(state.pace, now),
      'another domain takes mail: one alone had asked for less',
    );
    this.deps.pump(lane);
  }

  /** `isOneDomains`: the answer asks one domain's mail, of many in an operator's lane, to go slower. */
  private noteRefusal(
    lane: string,
    state: LaneState,
    mail: MailKey,
    outcome: Outcome,
    about: Subject,
    isOneDomains: boolean,
  ): Outcome {
    const { changes } = this;
    const now = this.deps.clock.now();
    const reply = outcome.facts.smtpReply ?? '';
    const kind = isOneDomains && about === 'rate' ? 'rate' : restKinds[about];
    if (about === 'rate' && !isOneDomains)
      changes.setPace(lane, state, slowed(state.pace, reply, outcome.facts.startedAt, now), reply.slice(0, 200));
    else state.pace = ended(state.pace);
    if ((about === 'connections' || about === 'load') && !isOneDomains)
      changes.setThrottle(lane, state, pushedBack(state.throttle, reply, now));
    // Whatever the answer is about, this mail finds out nothing more: the next one may try.
    state.rests.ended(mail);
    if (kind === undefined) return outcome;
    const found = state.rests.refused(kind, isForAll(outcome) ? { ...mail, account: null } : mail, reply, now);
    if (found === null) return outcome;
    const { rest, isNew } = found;
    if (isNew || rest.loggedStep !== rest.step) changes.noteRest(lane, state, rest);
    if (kind !== 'sender') return outcome;
    // Mail that was not refused yet tries before it: it falls due when the rest ends.
    const retryAt = Math.max(rest.until, now) + PROBE_LOOK_MS;
    if (outcome.kind === 'deferred') return { ...outcome, retryAt: Math.max(outcome.retryAt, retryAt) };
    return isNew || outcome.kind !== 'refused' ? outcome : { ...outcome, kind: 'deferred', retryAt };
  }
}

/** A demand for TLS is the same whichever account sends. */
const isForAll = (outcome: Outcome): boolean =>
  (outcome.kind === 'refused' || outcome.kind === 'deferred') && outcome.verdict.reason === 'tls_required';

/** An outcome without an answer of the other side is about the host, whose connection broke or was never there. */
function subjectOfOutcome(outcome: Outcome): Subject {
  if (outcome.kind === 'deferred' && outcome.grounds === undefined && outcome.verdict.reason === 'tls_required')
    return 'tls';
  if (outcome.kind === 'deferred' || outcome.kind === 'refused') return outcome.grounds?.about ?? 'host';
  return outcome.kind === 'failed' ? 'ourselves' : 'host';
}

/** Returns the reply with its code. */
function replyOf({ facts: { smtpCode, smtpReply } }: Outcome): string | null {
  if (smtpReply === null || smtpCode === null || smtpReply.startsWith(String(smtpCode))) return smtpReply;
  return `${String(smtpCode)} ${smtpReply}`;
}
