/** Decides what the outcome of an attempt means: delivered, bounced, failed, or deferred until the next attempt. Pure. */
import { capped, moveToStatus, ignoreChange, type DecidedAttempt, type Decision } from './decision.ts';
import {
  HELD_BY_US,
  isSuppressing,
  type AttemptFacts,
  type DeliveryChange,
  type DeliveryState,
  type Outcome,
  type Verdict,
} from './delivery.ts';
import { domainIsGone, staysFull } from './retry.ts';

export function decideOutcome(state: DeliveryState, result: Outcome, now: number): Decision {
  const { facts } = result;
  switch (result.kind) {
    case 'accepted':
      return moveToStatus(withReply(state, facts), 'delivered', {
        change: { deliveredAt: now },
        attempt: { facts, outcome: 'accepted', verdict: null, nextAttemptAt: null },
        events: [{ type: 'delivered', detail: deliveredDetail(state, result) }],
      });
    case 'refused':
      return bounce(withReply(state, facts), result.verdict, {
        attempt: { facts, outcome: 'refused', verdict: result.verdict, nextAttemptAt: null },
      });
    case 'deferred':
      return decideDeferral(state, result, now);
    case 'uncertain':
      return deferUntil(
        withExistingDomain(withReply(state, facts)),
        { class: 'soft', reason: 'network' },
        facts,
        'uncertain',
        result.retryAt,
      );
    case 'failed':
      return moveToStatus(withReply(state, facts), 'failed', {
        attempt: { facts, outcome: 'refused', verdict: null, nextAttemptAt: null },
        events: [{ type: 'failed', detail: { reason: result.reason, message: result.message } }],
      });
  }
}

/** Resets the count of consecutive "no such domain" answers. */
const withExistingDomain = (state: DeliveryState): DeliveryState => ({
  ...state,
  noDomainCount: 0,
  noDomainSince: null,
});

function decideDeferral(state: DeliveryState, result: Extract<Outcome, { kind: 'deferred' }>, now: number): Decision {
  const { facts, verdict } = result;
  const next = withReply(state, facts);
  if (result.noDomain !== true) {
    const fullSince = verdict.reason === 'mailbox_full' ? (state.fullSince ?? now) : state.fullSince;
    if (verdict.reason === 'mailbox_full' && staysFull(fullSince ?? now, now)) {
      return bounce(next, verdict, { attempt: { facts, outcome: 'deferred', verdict, nextAttemptAt: null } });
    }
    return deferUntil({ ...withExistingDomain(next), fullSince }, verdict, facts, 'deferred', result.retryAt);
  }
  const count = state.noDomainCount + 1;
  const since = state.noDomainSince ?? now;
  if (domainIsGone(count, since, now)) {
    const gone: Verdict = { class: 'hard', reason: 'domain_not_found' };
    const final = { ...facts, enhancedCode: '5.1.2' };
    return bounce(withReply(state, final), gone, {
      attempt: { facts: final, outcome: 'refused', verdict: gone, nextAttemptAt: null },
    });
  }
  return deferUntil(
    { ...next, noDomainCount: count, noDomainSince: since },
    verdict,
    facts,
    'deferred',
    result.retryAt,
  );
}

/** Defers the delivery until `retryAt`, but no later than when it must be given up. */
function deferUntil(
  state: DeliveryState,
  verdict: Verdict,
  facts: AttemptFacts,
  outcome: 'deferred' | 'uncertain',
  retryAt: number,
): Decision {
  const dueAt = Math.min(retryAt, state.giveUpAt);
  // At the time to give up nothing is tried.
  const nextAttemptAt = retryAt < state.giveUpAt ? retryAt : null;
  return moveToStatus(state, 'deferred', {
    change: { dueAt, claimEpoch: null },
    attempt: { facts, outcome, verdict, nextAttemptAt },
    events: [
      {
        type: 'deferred',
        detail: {
          attempt: state.attemptCount,
          mx: facts.mx,
          smtp_code: facts.smtpCode,
          enhanced_code: facts.enhancedCode,
          smtp_reply: capped(facts.smtpReply),
          reason: verdict.reason,
          next_attempt_at: nextAttemptAt === null ? null : new Date(nextAttemptAt).toISOString(),
        },
      },
    ],
  });
}

/**
 * Decides an outcome whose claim is not the present one. That the mail was accepted still counts while no newer attempt has begun: the node was
 * removed while it waited for the answer. Of all else the attempt alone is written: the delivery has changed since, for example because a
 * bounce mail was faster than our own record.
 */
export function decideLateOutcome(
  state: DeliveryState,
  { outcome: result, attempt }: Extract<DeliveryChange, { kind: 'outcome' }>,
  now: number,
): Decision {
  const isLatest = state.claimEpoch === null && state.attemptCount === attempt && state.status === 'deferred';
  if (result.kind === 'accepted' && isLatest) return decideOutcome(state, result, now);
  const verdict = 'verdict' in result ? result.verdict : null;
  const kind = result.kind === 'failed' ? 'refused' : result.kind;
  return { ...ignoreChange(state), attempt: { facts: result.facts, outcome: kind, verdict, nextAttemptAt: null } };
}

export function decideOrphan(state: DeliveryState, retryAt: number, now: number): Decision {
  const facts: AttemptFacts = {
    startedAt: now,
    endedAt: now,
    mx: null,
    ip: null,
    source: null,
    tls: null,
    timings: {},
    smtpCode: null,
    enhancedCode: null,
    smtpReply: 'the program ended during this attempt',
  };
  return deferUntil(state, { class: 'soft', reason: 'network' }, facts, 'uncertain', retryAt);
}

/**
 * Gives the delivery up because its time is over. The last reply says why, or, if no host ever answered, `waitedFor`. Mail that we
 * held back ourselves has failed; it has not bounced.
 */
export function giveUp(state: DeliveryState, waitedFor: string | null = null): Decision {
  const { mx, enhancedCode, smtpReply } = state.lastReply;
  if (mx === null && enhancedCode === HELD_BY_US) {
    const message = `it expired while it was held back here: ${smtpReply ?? 'the reason is not known'}`;
    return moveToStatus(state, 'failed', { events: [{ type: 'failed', detail: { reason: 'expired', message } }] });
  }
  const lastReply = smtpReply === null ? { ...state.lastReply, smtpReply: waitedFor } : state.lastReply;
  return bounce({ ...state, lastReply }, { class: 'soft', reason: 'expired' }, {});
}

export function bounce(
  state: DeliveryState,
  verdict: Verdict,
  rest: { attempt?: DecidedAttempt; async?: boolean },
): Decision {
  const { lastReply } = state;
  const suppress = !state.test && !state.erased && isSuppressing(verdict);
  return moveToStatus(state, 'bounced', {
    ...(rest.attempt === undefined ? {} : { attempt: rest.attempt }),
    suppress: suppress ? 'hard_bounce' : null,
    events: [
      {
        type: 'bounced',
        detail: {
          class: verdict.class,
          reason: verdict.reason,
          async: rest.async ?? false,
          smtp_code: lastReply.smtpCode,
          enhanced_code: lastReply.enhancedCode,
          smtp_reply: capped(lastReply.smtpReply),
          mx: lastReply.mx,
          attempts: state.attemptCount,
          suppression_added: suppress,
        },
      },
    ],
  });
}

function deliveredDetail(
  state: DeliveryState,
  { facts, viaRelay }: Extract<Outcome, { kind: 'accepted' }>,
): Record<string, unknown> {
  return {
    mx: facts.mx,
    ip: facts.ip,
    smtp_code: facts.smtpCode,
    smtp_reply: capped(facts.smtpReply),
    tls: facts.tls?.protocol ?? null,
    attempt: state.attemptCount,
    queue_ms: Math.max(0, facts.endedAt - state.queuedAt),
    via_relay: viaRelay,
  };
}

/** Keeps the reply as the delivery's last one. */
const withReply = (state: DeliveryState, { smtpCode, enhancedCode, smtpReply, mx }: AttemptFacts): DeliveryState => ({
  ...state,
  lastReply: { smtpCode, enhancedCode, smtpReply, mx },
});
