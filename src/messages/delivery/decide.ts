/**
 * Decides what a change means for a delivery: one pure function, one switch. It is the only place that moves a delivery from one
 * status to another; a change that is not allowed in the present status changes nothing.
 */
import {
  HELD_WITHOUT_END,
  type DeliveryChange,
  type DeliveryState,
  type DeliveryStatus,
  type Hit,
  HELD_BY_US,
  factsWithoutHost,
  isSuppressing,
  type AttemptFacts,
  type Outcome,
  type Verdict,
} from './delivery.ts';
import { stopsClock } from './hold-mark.ts';
import { extendedGiveUpAt, domainIsGone, staysFull } from './retry.ts';
import type { SuppressionReason } from '../../storage/tables.ts';

export function decide(state: DeliveryState, change: DeliveryChange, now: number): Decision {
  switch (change.kind) {
    case 'claimed':
      return decideClaim(state, change, now);
    case 'outcome':
      return isHolder(state, change)
        ? decideOutcome(state, change.outcome, now)
        : decideLateOutcome(state, change, now);
    case 'released':
      return isHolder(state, change) ? decideRelease(state, change.dueAt, now) : ignoreChange(state);
    case 'orphaned':
      return state.claimEpoch === change.epoch && isWaiting(state.status)
        ? decideOrphan(state, change.retryAt, now)
        : ignoreChange(state);
    case 'aged':
      return isUnclaimed(state) && now >= expiryOf(state)
        ? giveUp(state, change.waitedFor ?? null)
        : ignoreChange(state);
    case 'came_due':
      return isUnclaimed(state) && state.status === 'scheduled' && state.heldBy === null && now >= state.queuedAt
        ? moveToStatus(state, 'queued')
        : ignoreChange(state);
    case 'held':
      return isUnclaimed(state) ? decideHold(state, change, now) : ignoreChange(state);
    case 'freed':
      return isUnclaimed(state) && state.heldBy !== null
        ? updateState(endHold(state, now), { dueAt: now })
        : ignoreChange(state);
    case 'canceled':
      return isUnclaimed(state) ? moveToStatus(state, 'canceled') : ignoreChange(state);
    case 'rescheduled':
      return decideReschedule(state, change, now);
    case 'bounced':
      return decideBounceReport(state, change);
    case 'complained':
      return decideComplaint(state, change);
    case 'opened':
      return decideEngagement(state, 'opened', change.hit, {
        client: change.client,
        os: change.os,
        device: change.device,
      });
    case 'clicked':
      return decideEngagement(state, 'clicked', change.hit, {
        url: cut(change.url, 2048),
        link_id: change.linkId,
        part: change.part,
      });
    case 'unsubscribed':
      return decideUnsubscribe(state, change);
    case 'flushed':
      return isUnclaimed(state) && state.heldBy === null && state.status !== 'scheduled'
        ? updateState(state, { dueAt: now })
        : ignoreChange(state);
  }
}

const isUnclaimed = (state: DeliveryState): boolean => state.claimEpoch === null && isWaiting(state.status);

/** Returns whether the claim is the delivery's present one: an older one has been replaced. */
const isHolder = (state: DeliveryState, claim: { epoch: number; attempt: number }): boolean =>
  state.claimEpoch === claim.epoch && state.attemptCount === claim.attempt && isWaiting(state.status);

/** Marks the delivery with its hold. Only a hold by the operator stops the clock, and no hold moves `expires_at`. */
function decideHold(before: DeliveryState, hold: Extract<DeliveryChange, { kind: 'held' }>, now: number): Decision {
  const state = before.heldBy === hold.by ? before : endHold(before, now);
  const marked = {
    ...state,
    heldBy: hold.by,
    heldAt: stopsClock(hold.by) ? Math.max(hold.since, state.queuedAt, state.heldAt ?? 0) : state.heldAt,
  };
  const limit = expiryOf(marked);
  if (now >= limit) return giveUp(state);
  const change = { dueAt: Math.min(hold.until ?? HELD_WITHOUT_END, limit) };
  // Its time has come, and it waits for the hold alone.
  const isDue = state.status === 'scheduled' && now >= state.queuedAt;
  return isDue ? moveToStatus(marked, 'queued', { change }) : updateState(marked, change);
}

/** Returns when the delivery is given up: while the operator holds it, only at the sender's own `expires_at`. */
const expiryOf = ({ heldBy, giveUpAt, expiresAt }: DeliveryState): number =>
  heldBy !== null && stopsClock(heldBy) ? (expiresAt ?? HELD_WITHOUT_END) : giveUpAt;

/** Ends the hold, if there is one. The time that an operator's hold took is added to `giveUpAt`, once. */
function endHold(state: DeliveryState, now: number): DeliveryState {
  if (state.heldBy === null) return state;
  if (!stopsClock(state.heldBy)) return { ...state, heldBy: null };
  const giveUpAt = state.giveUpAt + Math.max(0, now - (state.heldAt ?? now));
  return { ...state, heldBy: null, heldAt: now, giveUpAt: Math.min(giveUpAt, state.expiresAt ?? Infinity) };
}

function decideClaim(
  before: DeliveryState,
  claim: Extract<DeliveryChange, { kind: 'claimed' }>,
  now: number,
): Decision {
  const held = endHold(before, now);
  const state = claim.extraTime === undefined ? held : { ...held, giveUpAt: extendedGiveUpAt(held, claim.extraTime) };
  // A claimed delivery that is due has outlived its lease: its worker is gone or stuck, and its outcome will be ignored.
  if (!isWaiting(state.status) || state.dueAt === null || state.dueAt > now) return ignoreChange(before);
  if (now >= state.giveUpAt) return giveUp(state);
  if (claim.suppressedBy !== undefined) {
    const { id, reason } = claim.suppressedBy;
    return moveToStatus(state, 'suppressed', {
      events: [{ type: 'suppressed', detail: { reason, suppression_id: id } }],
    });
  }
  const change = { attemptCount: state.attemptCount + 1, claimEpoch: claim.epoch, dueAt: claim.leaseUntil };
  if (state.status === 'sent' || state.status === 'deferred') return updateState(state, change);
  const sent: DecidedEvent = { type: 'sent', detail: { attempt: change.attemptCount, mx: null, sending_ip: null } };
  return moveToStatus(state, 'sent', { change, events: [sent] });
}

/** Moves the time of sending before the first attempt; afterwards the retry schedule decides. */
function decideReschedule(
  state: DeliveryState,
  { sendAt, giveUpAt }: Extract<DeliveryChange, { kind: 'rescheduled' }>,
  now: number,
): Decision {
  const untried = state.status === 'scheduled' || (state.status === 'queued' && state.attemptCount === 0);
  if (!untried || state.claimEpoch !== null) return ignoreChange(state);
  const at = Math.max(sendAt, now);
  return moveToStatus(state, at > now ? 'scheduled' : 'queued', {
    change: { dueAt: at, queuedAt: at, giveUpAt, heldBy: null, heldAt: null },
  });
}

function decideBounceReport(state: DeliveryState, report: Extract<DeliveryChange, { kind: 'bounced' }>): Decision {
  if (state.status !== 'sent' && state.status !== 'deferred' && state.status !== 'delivered')
    return ignoreChange(state);
  const { smtpCode, enhancedCode, smtpReply } = report;
  return bounce({ ...state, lastReply: { ...state.lastReply, smtpCode, enhancedCode, smtpReply } }, report.verdict, {
    async: true,
  });
}

function decideComplaint(state: DeliveryState, report: Extract<DeliveryChange, { kind: 'complained' }>): Decision {
  if (!['sent', 'deferred', 'delivered', 'bounced'].includes(state.status)) return ignoreChange(state);
  const { feedbackType, source, arrivalDate, userAgent } = report;
  const isListed = !state.test && !state.erased;
  return moveToStatus(state, 'complained', {
    suppress: isListed ? 'complaint' : null,
    events: [
      {
        type: 'complained',
        detail: {
          feedback_type: feedbackType,
          source,
          arrival_date: arrivalDate === null ? null : new Date(arrivalDate).toISOString(),
          user_agent: cutOrNull(userAgent, 512),
          suppression_added: isListed,
        },
      },
    ],
  });
}

const reached: ReadonlySet<DeliveryStatus> = new Set(['sent', 'deferred', 'delivered', 'bounced', 'complained']);

/**
 * Accepted in every status, because only a recipient who has received the mail can use the link. The status stays. An erased recipient
 * is suppressed if the link has the address.
 */
function decideUnsubscribe(
  state: DeliveryState,
  { method, email }: Extract<DeliveryChange, { kind: 'unsubscribed' }>,
): Decision {
  const isListed = !state.test && (!state.erased || email !== undefined);
  return {
    ...updateState(state, { unsubscribed: true }),
    suppress: isListed ? 'unsubscribe' : null,
    events: state.unsubscribed ? [] : [{ type: 'unsubscribed', detail: { stream: state.stream, method } }],
  };
}

/** An open within this time of the delivery was a machine: no person opens mail so fast. */
const MACHINE_OPEN_MS = 2_000;

/** Returns the kind of machine, or null for a person. Simulated opens follow their delivery at once and do not indicate a machine. */
function botOf(state: DeliveryState, type: 'opened' | 'clicked', seen: Hit): Hit['bot'] {
  if (seen.bot !== null || type === 'clicked' || state.test) return seen.bot;
  const isTooSoon =
    state.deliveredAt === null ? state.claimEpoch !== null : seen.at - state.deliveredAt < MACHINE_OPEN_MS;
  return isTooSoon ? 'prefetch' : null;
}

/** Opens and clicks are counted and written as events; they do not change the status. */
function decideEngagement(
  state: DeliveryState,
  type: 'opened' | 'clicked',
  seen: Hit,
  more: Readonly<Record<string, unknown>>,
): Decision {
  if (!reached.has(state.status)) return ignoreChange(state);
  const counter = type === 'opened' ? 'opens' : 'clicks';
  const bot = botOf(state, type, seen);
  const isBot = bot !== null;
  const detail = {
    first: !isBot && state[counter] === 0,
    ...more,
    ip: seen.ip,
    user_agent: cutOrNull(seen.userAgent, 512),
    is_bot: isBot,
    bot,
  };
  return {
    ...updateState(state, isBot ? {} : { [counter]: state[counter] + 1 }),
    events: [{ type, detail, machine: isBot }],
  };
}

function decideOutcome(state: DeliveryState, result: Outcome, now: number): Decision {
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
      return deferUntil(withExistingDomain(withReply(state, facts)), noNetwork, facts, 'uncertain', result.retryAt);
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
function decideLateOutcome(
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

const decideOrphan = (state: DeliveryState, retryAt: number, now: number): Decision =>
  deferUntil(state, noNetwork, unanswered(now, 'the program ended during this attempt'), 'uncertain', retryAt);

/** The attempt does not count, as nothing was offered; mail that was never tried is deferred by it. */
function decideRelease(state: DeliveryState, dueAt: number, now: number): Decision {
  const deferred = deferUntil(state, noNetwork, unanswered(now, null), 'deferred', dueAt);
  const uncounted = { ...deferred.state, attemptCount: state.attemptCount - 1 };
  return state.status === 'deferred' ? updateState(uncounted, {}) : { ...deferred, state: uncounted, attempt: null };
}

const noNetwork: Verdict = { class: 'soft', reason: 'network' };

const unanswered = (now: number, smtpReply: string | null): AttemptFacts =>
  factsWithoutHost({ startedAt: now, endedAt: now }, null, smtpReply);

/**
 * Gives the delivery up because its time is over. The last reply says why, or, if no host ever answered, `waitedFor`. Mail that we
 * held back ourselves has failed; it has not bounced.
 */
function giveUp(state: DeliveryState, waitedFor: string | null = null): Decision {
  const { mx, enhancedCode, smtpReply } = state.lastReply;
  if (mx === null && enhancedCode === HELD_BY_US) {
    const message = `it expired while it was held back here: ${smtpReply ?? 'the reason is not known'}`;
    return moveToStatus(state, 'failed', { events: [{ type: 'failed', detail: { reason: 'expired', message } }] });
  }
  const lastReply = smtpReply === null ? { ...state.lastReply, smtpReply: waitedFor } : state.lastReply;
  return bounce({ ...state, lastReply }, { class: 'soft', reason: 'expired' }, {});
}

function bounce(state: DeliveryState, verdict: Verdict, rest: { attempt?: DecidedAttempt; async?: boolean }): Decision {
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

const withReply = (state: DeliveryState, { smtpCode, enhancedCode, smtpReply, mx }: AttemptFacts): DeliveryState => ({
  ...state,
  lastReply: { smtpCode, enhancedCode, smtpReply, mx },
});

/** An event to write: its type, and the object that the API shows under the name of the type. */
export interface DecidedEvent {
  type: string;
  detail: Readonly<Record<string, unknown>>;
  machine?: boolean;
}

export interface DecidedAttempt {
  facts: AttemptFacts;
  outcome: 'accepted' | 'deferred' | 'refused' | 'uncertain';
  verdict: Verdict | null;
  nextAttemptAt: number | null;
}

export interface Decision {
  /** False if the change is not allowed in this status: only the attempt is written, if there was one. */
  applied: boolean;
  state: DeliveryState;
  /** The changes of status, in order, for the books: `[from, to]`. */
  steps: readonly (readonly [DeliveryStatus, DeliveryStatus])[];
  events: readonly DecidedEvent[];
  attempt: DecidedAttempt | null;
  suppress: SuppressionReason | null;
}

const waiting: ReadonlySet<DeliveryStatus> = new Set(['scheduled', 'queued', 'sent', 'deferred']);

export const isWaiting = (status: DeliveryStatus): boolean => waiting.has(status);

export const ignoreChange = (state: DeliveryState): Decision => ({
  applied: false,
  state,
  steps: [],
  events: [],
  attempt: null,
  suppress: null,
});

/** Changes the state within its status. */
export const updateState = (state: DeliveryState, change: Partial<DeliveryState>): Decision => ({
  ...ignoreChange(state),
  applied: true,
  state: { ...state, ...change },
});

/** Moves the delivery to `status`. A finished delivery has no due time, no claim and no hold. */
export function moveToStatus(
  state: DeliveryState,
  status: DeliveryStatus,
  rest: Partial<Omit<Decision, 'state'>> & { change?: Partial<DeliveryState> } = {},
): Decision {
  const { change, ...others } = rest;
  const ended = isWaiting(status) ? {} : { dueAt: null, claimEpoch: null, heldBy: null, heldAt: null };
  return {
    ...ignoreChange(state),
    applied: true,
    state: { ...state, ...ended, ...change, status },
    steps: stepsBetween(state.status, status),
    ...others,
  };
}

/** Scheduled mail passes through `queued` when its time has come, so that the books show only the documented changes. */
function stepsBetween(from: DeliveryStatus, status: DeliveryStatus): Decision['steps'] {
  if (from === status) return [];
  if (from !== 'scheduled' || status === 'queued' || status === 'canceled' || status === 'suppressed')
    return [[from, status]];
  return [
    [from, 'queued'],
    ['queued', status],
  ];
}

/** Limits a reply to the 1,000 characters that attempts, deliveries and events keep. */
export const capped = (reply: string | null): string | null => cutOrNull(reply, 1000);
export const cutOrNull = (text: string | null, most: number): string | null => (text === null ? null : cut(text, most));

/** Returns the first `most` characters, without half a surrogate pair at the end. */
export const cut = (text: string, most: number): string =>
  text.length <= most ? text : text.slice(0, most).replace(/[\ud800-\udbff]$/, '');
