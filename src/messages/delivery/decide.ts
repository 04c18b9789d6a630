/**
 * What a change means for a delivery: one pure function, one switch. Every arrow of the status table stands here and
 * nowhere else; a change that has no arrow from the present status changes nothing and is only noted.
 */
import type { SuppressionReason } from '../../storage/tables.ts';
import {
  HELD_BY_US,
  isSuppressing,
  HELD_WITHOUT_END,
  stopsClock,
  type AttemptFacts,
  type DeliveryState,
  type DeliveryStatus,
  type DeliveryChange,
  type Hit,
  type Outcome,
  type Verdict,
} from './delivery.ts';
import { domainIsGone, staysFull } from './retry.ts';

/** An event to be written: its type and the member named after it. */
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
  /** False where the change has no arrow from here: nothing is written but, where there was one, the attempt. */
  applied: boolean;
  /** The delivery afterwards. */
  state: DeliveryState;
  /** Statuses gone through, in order, for the books: `[from, to]`. */
  steps: readonly (readonly [DeliveryStatus, DeliveryStatus])[];
  events: readonly DecidedEvent[];
  attempt: DecidedAttempt | null;
  suppress: SuppressionReason | null;
}

const final: ReadonlySet<DeliveryStatus> = new Set([
  'delivered',
  'bounced',
  'complained',
  'suppressed',
  'failed',
  'canceled',
]);

/** True while the delivery is not finished. */
export const isWaiting = (status: DeliveryStatus): boolean => !final.has(status);

export function decide(state: DeliveryState, change: DeliveryChange, now: number): Decision {
  switch (change.kind) {
    case 'claimed':
      return claimed(state, change, now);
    case 'outcome':
      return isHolder(state, change) ? outcome(state, change.outcome, now) : late(state, change.outcome);
    case 'released':
      return isHolder(state, change)
        ? same(state, { dueAt: change.dueAt, claimEpoch: null, attemptCount: state.attemptCount - 1 })
        : nothing(state);
    case 'orphaned':
      return state.claimEpoch === change.epoch && isWaiting(state.status)
        ? orphaned(state, change.retryAt, now)
        : nothing(state);
    case 'aged':
      return state.claimEpoch === null && isWaiting(state.status) && now >= limitOf(state)
        ? gaveUp(state, change.waitedFor ?? null)
        : nothing(state);
    case 'held':
      return state.claimEpoch === null && isWaiting(state.status) ? held(state, change, now) : nothing(state);
    case 'freed':
      return state.claimEpoch === null && isWaiting(state.status) && state.heldBy !== null
        ? same(goneOn(state, now), { dueAt: now })
        : nothing(state);
    case 'canceled':
      return state.claimEpoch === null && isWaiting(state.status) ? to(state, 'canceled') : nothing(state);
    case 'rescheduled':
      return rescheduled(state, change, now);
    case 'bounced':
      return bouncedLater(state, change);
    case 'complained':
      return complained(state, change);
    case 'opened':
      return hit(state, 'opened', change.hit, {
        client: change.client,
        os: change.os,
        device: change.device,
      });
    case 'clicked':
      return hit(state, 'clicked', change.hit, {
        url: cut(change.url, 2048),
        link_id: change.linkId,
        part: change.part,
      });
    case 'unsubscribed':
      return unsubscribed(state, change.method);
    case 'flushed':
      return state.claimEpoch === null &&
        state.heldBy === null &&
        (state.status === 'queued' || state.status === 'sent' || state.status === 'deferred')
        ? same(state, { dueAt: now })
        : nothing(state);
  }
}

const isHolder = (state: DeliveryState, claim: { epoch: number; attempt: number }): boolean =>
  state.claimEpoch === claim.epoch && state.attemptCount === claim.attempt && isWaiting(state.status);

const nothing = (state: DeliveryState): Decision => ({
  applied: false,
  state,
  steps: [],
  events: [],
  attempt: null,
  suppress: null,
});

const same = (state: DeliveryState, change: Partial<DeliveryState>): Decision => ({
  ...nothing(state),
  applied: true,
  state: { ...state, ...change },
});

/** The arrow to `status`. A finished delivery is due no more and belongs to nobody. */
function to(
  state: DeliveryState,
  status: DeliveryStatus,
  rest: Partial<Omit<Decision, 'state'>> & { change?: Partial<DeliveryState> } = {},
): Decision {
  const { change, ...others } = rest;
  const ended = final.has(status) ? { dueAt: null, claimEpoch: null, heldBy: null, heldAt: null } : {};
  return {
    ...nothing(state),
    applied: true,
    state: { ...state, ...ended, ...change, status },
    steps: stepsBetween(state.status, status),
    ...others,
  };
}

/** Scheduled mail whose time has come passes through `queued` on its way, so that the books show the arrows of the table. */
function stepsBetween(from: DeliveryStatus, status: DeliveryStatus): Decision['steps'] {
  if (from === status) return [];
  if (from !== 'scheduled' || status === 'queued' || status === 'canceled' || status === 'suppressed')
    return [[from, status]];
  return [
    [from, 'queued'],
    ['queued', status],
  ];
}

/** Written once, however long it lasts. Only the operator's hold stops the clock, and none moves `expires_at`. */
function held(before: DeliveryState, hold: Extract<DeliveryChange, { kind: 'held' }>, now: number): Decision {
  const state = before.heldBy === hold.by ? before : goneOn(before, now);
  const marked = {
    ...state,
    heldBy: hold.by,
    heldAt: stopsClock(hold.by) ? Math.max(hold.since, state.queuedAt, state.heldAt ?? 0) : state.heldAt,
  };
  const limit = limitOf(marked);
  if (now >= limit) return gaveUp(state);
  return same(marked, { dueAt: Math.min(hold.until ?? HELD_WITHOUT_END, limit) });
}

/** When it is given up as things stand: while the operator holds it, only at the time its sender has set. */
const limitOf = ({ heldBy, giveUpAt, expiresAt }: DeliveryState): number =>
  heldBy !== null && stopsClock(heldBy) ? (expiresAt ?? HELD_WITHOUT_END) : giveUpAt;

/** Held no more. What an operator's hold has taken is given back, once. */
function goneOn(state: DeliveryState, now: number): DeliveryState {
  if (state.heldBy === null) return state;
  if (!stopsClock(state.heldBy)) return { ...state, heldBy: null };
  const giveUpAt = state.giveUpAt + Math.max(0, now - (state.heldAt ?? now));
  return { ...state, heldBy: null, heldAt: now, giveUpAt: Math.min(giveUpAt, state.expiresAt ?? Infinity) };
}

function claimed(before: DeliveryState, claim: Extract<DeliveryChange, { kind: 'claimed' }>, now: number): Decision {
  const state = goneOn(before, now);
  // A claim that is due has outlived its lease: who made it is gone or stuck, and what it may yet say comes too late.
  if (!isWaiting(state.status) || state.dueAt === null || state.dueAt > now) return nothing(before);
  if (now >= state.giveUpAt) return gaveUp(state);
  if (claim.suppressedBy !== undefined) {
    const { id, reason } = claim.suppressedBy;
    return to(state, 'suppressed', { events: [{ type: 'suppressed', detail: { reason, suppression_id: id } }] });
  }
  const change = { attemptCount: state.attemptCount + 1, claimEpoch: claim.epoch, dueAt: claim.leaseUntil };
  if (state.status === 'sent' || state.status === 'deferred') return same(state, change);
  const sent: DecidedEvent = { type: 'sent', detail: { attempt: change.attemptCount, mx: null, sending_ip: null } };
  return to(state, 'sent', { change, events: [sent] });
}

/** Only what nobody has tried yet: afterwards the schedule of retries decides. */
function rescheduled(
  state: DeliveryState,
  { sendAt, giveUpAt }: Extract<DeliveryChange, { kind: 'rescheduled' }>,
  now: number,
): Decision {
  const untried = state.status === 'scheduled' || (state.status === 'queued' && state.attemptCount === 0);
  if (!untried || state.claimEpoch !== null) return nothing(state);
  const at = Math.max(sendAt, now);
  return to(state, at > now ? 'scheduled' : 'queued', {
    change: { dueAt: at, queuedAt: at, giveUpAt, heldBy: null, heldAt: null },
  });
}

function outcome(state: DeliveryState, result: Outcome, now: number): Decision {
  const { facts } = result;
  switch (result.kind) {
    case 'accepted':
      return to(remember(state, facts), 'delivered', {
        change: { deliveredAt: now },
        attempt: { facts, outcome: 'accepted', verdict: null, nextAttemptAt: null },
        events: [{ type: 'delivered', detail: deliveredDetail(state, result) }],
      });
    case 'refused':
      return bounced(remember(state, facts), result.verdict, {
        attempt: { facts, outcome: 'refused', verdict: result.verdict, nextAttemptAt: null },
      });
    case 'deferred':
      return deferred(state, result, now);
    case 'uncertain':
      return again(
        withDomain(remember(state, facts)),
        { class: 'soft', reason: 'network' },
        facts,
        'uncertain',
        result.retryAt,
      );
    case 'failed':
      return to(remember(state, facts), 'failed', {
        attempt: { facts, outcome: 'refused', verdict: null, nextAttemptAt: null },
        events: [{ type: 'failed', detail: { reason: result.reason, message: result.message } }],
      });
  }
}

/** Somebody answered for the domain, or nobody knows: the answers that said it does not exist are no longer in a row. */
const withDomain = (state: DeliveryState): DeliveryState => ({ ...state, noDomainCount: 0, noDomainSince: null });

function deferred(state: DeliveryState, result: Extract<Outcome, { kind: 'deferred' }>, now: number): Decision {
  const { facts, verdict } = result;
  const next = remember(state, facts);
  if (result.noDomain !== true) {
    if (verdict.reason === 'mailbox_full' && staysFull(state.queuedAt, now)) {
      return bounced(next, verdict, { attempt: { facts, outcome: 'deferred', verdict, nextAttemptAt: null } });
    }
    return again(withDomain(next), verdict, facts, 'deferred', result.retryAt);
  }
  const count = state.noDomainCount + 1;
  const since = state.noDomainSince ?? now;
  if (domainIsGone(count, since, now)) {
    const gone: Verdict = { class: 'hard', reason: 'domain_not_found' };
    return bounced(next, gone, { attempt: { facts, outcome: 'refused', verdict: gone, nextAttemptAt: null } });
  }
  return again({ ...next, noDomainCount: count, noDomainSince: since }, verdict, facts, 'deferred', result.retryAt);
}

/** Tried again at `retryAt`, but looked at no later than when its time runs out. */
function again(
  state: DeliveryState,
  verdict: Verdict,
  facts: AttemptFacts,
  outcome: 'deferred' | 'uncertain',
  retryAt: number,
): Decision {
  const dueAt = Math.min(retryAt, state.giveUpAt);
  return to(state, 'deferred', {
    change: { dueAt, claimEpoch: null },
    attempt: { facts, outcome, verdict, nextAttemptAt: dueAt },
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
          next_attempt_at: new Date(dueAt).toISOString(),
        },
      },
    ],
  });
}

/** What came after the delivery had moved on (a bounce mail overtook our own note, say): logged, no arrow. */
function late(state: DeliveryState, result: Outcome): Decision {
  const verdict = 'verdict' in result ? result.verdict : null;
  const kind = result.kind === 'failed' ? 'refused' : result.kind;
  return { ...nothing(state), attempt: { facts: result.facts, outcome: kind, verdict, nextAttemptAt: null } };
}

function orphaned(state: DeliveryState, retryAt: number, now: number): Decision {
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
  return again(state, { class: 'soft', reason: 'network' }, facts, 'uncertain', retryAt);
}

/**
 * Its time ran out: the last reply says why it never arrived, or, where nobody has answered, what it waited for. Where it was we
 * who kept it, that is our failure and not a bounce.
 */
function gaveUp(state: DeliveryState, waitedFor: string | null = null): Decision {
  const { mx, enhancedCode, smtpReply } = state.lastReply;
  if (mx === null && enhancedCode === HELD_BY_US) {
    const message = `it expired while it was held back here: ${smtpReply ?? 'no reason is known'}`;
    return to(state, 'failed', { events: [{ type: 'failed', detail: { reason: 'expired', message } }] });
  }
  const lastReply = smtpReply === null ? { ...state.lastReply, smtpReply: waitedFor } : state.lastReply;
  return bounced({ ...state, lastReply }, { class: 'soft', reason: 'expired' }, {});
}

function bounced(
  state: DeliveryState,
  verdict: Verdict,
  rest: { attempt?: DecidedAttempt; async?: boolean },
): Decision {
  const { lastReply } = state;
  const suppress = !state.test && isSuppressing(verdict);
  return to(state, 'bounced', {
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

function bouncedLater(state: DeliveryState, report: Extract<DeliveryChange, { kind: 'bounced' }>): Decision {
  if (state.status !== 'sent' && state.status !== 'deferred' && state.status !== 'delivered') return nothing(state);
  const { smtpCode, enhancedCode, smtpReply } = report;
  return bounced({ ...state, lastReply: { ...state.lastReply, smtpCode, enhancedCode, smtpReply } }, report.verdict, {
    async: true,
  });
}

function complained(state: DeliveryState, report: Extract<DeliveryChange, { kind: 'complained' }>): Decision {
  if (!['sent', 'deferred', 'delivered', 'bounced'].includes(state.status)) return nothing(state);
  const { feedbackType, source, arrivalDate, userAgent } = report;
  return to(state, 'complained', {
    suppress: state.test ? null : 'complaint',
    events: [
      {
        type: 'complained',
        detail: {
          feedback_type: feedbackType,
          source,
          arrival_date: arrivalDate === null ? null : new Date(arrivalDate).toISOString(),
          user_agent: cutOrNull(userAgent, 512),
          suppression_added: !state.test,
        },
      },
    ],
  });
}

const reached: ReadonlySet<DeliveryStatus> = new Set(['sent', 'deferred', 'delivered', 'bounced', 'complained']);

/** Whoever has the link has had the mail, whatever we know of it: a wish is never refused. It moves no status. */
function unsubscribed(state: DeliveryState, method: 'one_click' | 'mailto' | 'page'): Decision {
  return {
    ...same(state, {}),
    suppress: state.test ? null : 'unsubscribe',
    events: [{ type: 'unsubscribed', detail: { stream: state.stream, method } }],
  };
}

/** So soon after its delivery no person opens a mail. */
const MACHINE_MS = 2_000;

/**
 * What loads the image of a mail that has hardly arrived is a machine. Simulated mail reaches none, and a simulated open
 * follows its delivery at once.
 */
function botOf(state: DeliveryState, type: 'opened' | 'clicked', seen: Hit): Hit['bot'] {
  if (seen.bot !== null || type === 'clicked' || state.test) return seen.bot;
  const isTooSoon = state.deliveredAt === null ? state.claimEpoch !== null : seen.at - state.deliveredAt < MACHINE_MS;
  return isTooSoon ? 'prefetch' : null;
}

/** Engagement is another axis: it is counted and told, and moves no status. */
function hit(
  state: DeliveryState,
  type: 'opened' | 'clicked',
  seen: Hit,
  more: Readonly<Record<string, unknown>>,
): Decision {
  if (!reached.has(state.status)) return nothing(state);
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
    ...same(state, isBot ? {} : { [counter]: state[counter] + 1 }),
    events: [{ type, detail, machine: isBot }],
  };
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

const remember = (state: DeliveryState, { smtpCode, enhancedCode, smtpReply, mx }: AttemptFacts): DeliveryState => ({
  ...state,
  lastReply: { smtpCode, enhancedCode, smtpReply, mx },
});

const capped = (reply: string | null): string | null => cutOrNull(reply, 1000);
const cutOrNull = (text: string | null, most: number): string | null => (text === null ? null : cut(text, most));

/** The first characters, without half of one at the end. */
const cut = (text: string, most: number): string =>
  text.length <= most ? text : text.slice(0, most).replace(/[\ud800-\udbff]$/, '');
