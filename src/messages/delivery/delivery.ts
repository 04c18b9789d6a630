/**
 * The words of the delivery engine. docs/glossary.md has all of them.
 *
 * - message: a mail that a customer asked us to send, once. recipient: an address in it.
 * - delivery: one message to one recipient. It has a status and a due time, when it needs attention next.
 * - claim: the record, committed before dialling, that a worker tries the delivery now: attempt number, epoch (the run of the
 *   program) and lease (after it the delivery falls due again).
 * - attempt: one try of a delivery. outcome: its result: accepted, deferred, refused, uncertain or failed.
 * - change: anything that can happen to a delivery: a claim, an outcome, a bounce mail, a complaint, a cancellation, its time
 *   running out. It is given to decide().
 * - event: the report of a change to the customer.
 * - lane: the queue of one site and source.
 * - hold: a reason of ours to keep mail back: a pause, a domain that lost its verification, a hold set by the operator.
 *
 * A delivery begins as `queued` (or `scheduled` until its send_at, or `suppressed`, which is final). Its first claim makes it
 * `sent`. An outcome makes it `delivered`, `bounced`, or `deferred` and due again. A bounce mail can turn `delivered` into
 * `bounced`, a complaint can turn either into `complained`. `canceled`, `suppressed`, `failed` and `complained` are final.
 * decide.ts decides each change, record.ts writes it.
 */
import type { BounceRule } from '../../config/bounce-rule.ts';
import type { ExtraTime } from './retry.ts';
import type { DeliveryStatus, SuppressionReason } from '../../storage/tables.ts';

export type { DeliveryStatus } from '../../storage/tables.ts';

export const waitingStatuses = ['scheduled', 'queued', 'sent', 'deferred'] as const satisfies readonly DeliveryStatus[];

/** The queue domain of simulated mail: no host name can start with `~`. */
export const SIMULATOR_DOMAIN = '~simulator';

/** The enhanced code of our own deferral, without a host (RFC 3463: system incorrectly configured). Mail given up after it failed, not bounced. */
export const HELD_BY_US = '4.3.5';

export type BounceReason = BounceRule['reason'];

/** `hard`: the address will never work. `soft`: it may work later. `block`: the refusal is about us or the content, not the address. */
export type BounceClass = BounceRule['class'];

export interface Verdict {
  class: BounceClass;
  reason: BounceReason;
}

/** Only reasons about the recipient or the domain put an address on the suppression list, never those about us or the content. */
const suppressing: ReadonlySet<BounceReason> = new Set([
  'mailbox_not_found',
  'mailbox_disabled',
  'domain_not_found',
  'null_mx',
]);
export const isSuppressing = (verdict: Verdict): boolean => verdict.class === 'hard' && suppressing.has(verdict.reason);

/** The facts of one attempt, without their meaning. Times in ms since the epoch, durations in ms. */
export interface AttemptFacts {
  startedAt: number;
  endedAt: number;
  mx: string | null;
  ip: string | null;
  /** The local address the connection came from. */
  source: string | null;
  tls: { protocol: string; cipher: string; verified: boolean; policy: string } | null;
  timings: Readonly<Record<string, number>>;
  smtpCode: number | null;
  enhancedCode: string | null;
  /** The server's reply, or our own text if there was none. */
  smtpReply: string | null;
}

/** Returns the facts of an attempt in which no host was asked. */
export const factsWithoutHost = (
  times: Pick<AttemptFacts, 'startedAt' | 'endedAt'>,
  enhancedCode: string | null,
  smtpReply: string | null,
): AttemptFacts => ({
  ...times,
  ...{ mx: null, ip: null, source: null, tls: null, timings: {} },
  ...{ smtpCode: null, enhancedCode, smtpReply },
});

/**
 * The subject of a reply, which decides what waits for it (docs/delivery.md, "What a reply teaches"): one recipient, one message, one recipient
 * domain, the mail host, the number of connections or of mails in a time that the receiver takes, its load, its opinion of us as the sender, a block
 * list that names our address, the TLS that a policy of the recipient domain requires, or our own set-up.
 */
export type Subject =
  | 'recipient'
  | 'message'
  | 'domain'
  | 'host'
  | 'connections'
  | 'rate'
  | 'load'
  | 'sender'
  | 'block_list'
  | 'tls'
  | 'ourselves';

/** The reasons of a verdict, for the log and for the lane. */
export interface Grounds {
  /** The rule that decided: `veto:spam`. After an `@`, the reason why a hard verdict was softened: the phase, or `4xx`. */
  rule: string;
  /** True if our own set-up caused the refusal, not the recipient: the operator is warned. */
  infrastructure: boolean;
  /** True if the next attempt will probably pass. */
  greylisting: boolean;
  about: Subject;
}

export type Outcome =
  | { kind: 'accepted'; facts: AttemptFacts; viaRelay: boolean }
  | { kind: 'deferred'; facts: AttemptFacts; verdict: Verdict; retryAt: number; noDomain?: true; grounds?: Grounds }
  | { kind: 'refused'; facts: AttemptFacts; verdict: Verdict; grounds?: Grounds }
  /** The connection broke after the final dot and before the reply. The mail may have arrived; it is tried again all the same. */
  | { kind: 'uncertain'; facts: AttemptFacts; retryAt: number }
  /** The mail cannot be built or signed, and a later try would not help. */
  | { kind: 'failed'; facts: AttemptFacts; reason: string; message: string };

/**
 * The form of a provider's report about a complaint. `arf`: a feedback report (RFC 5965). `jmrp`: the mail itself under the
 * header `X-HmXmrOriginalRecipient`, as Microsoft's Junk Mail Reporting Program sends it back. `other`: the mail itself, under
 * another provider's header or subject.
 */
export type FeedbackSource = 'arf' | 'jmrp' | 'other';

export type DeliveryChange =
  /** A worker takes it for an attempt. `extraTime`: for mail whose time ran out while the program did not run; none if absent. */
  | {
      kind: 'claimed';
      epoch: number;
      leaseUntil: number;
      extraTime?: ExtraTime;
      suppressedBy?: { id: string; reason: SuppressionReason };
    }
  | { kind: 'outcome'; epoch: number; attempt: number; outcome: Outcome }
  /** The claim is given back without an attempt: nothing was offered, because no connection was left or this server may not send now. */
  | { kind: 'released'; epoch: number; attempt: number; dueAt: number }
  /** The process with the claim ended; how far the attempt came is unknown. */
  | { kind: 'orphaned'; epoch: number; retryAt: number }
  /** The time of the mail is over: it is given up. `waitedFor`: what it waited for, if no host ever answered for it. */
  | { kind: 'aged'; waitedFor?: string }
  /** Its time of sending has come, and it waits for its turn. */
  | { kind: 'came_due' }
  /** A hold keeps it back (holds.ts): the delivery is marked with `by` and waits until then, or until it is freed. */
  | { kind: 'held'; by: string; since: number; until: number | null }
  | { kind: 'freed' }
  | { kind: 'canceled' }
  /** The time of sending is moved, before the first attempt. */
  | { kind: 'rescheduled'; sendAt: number; giveUpAt: number }
  | ({ kind: 'bounced'; verdict: Verdict } & Pick<AttemptFacts, 'smtpCode' | 'enhancedCode' | 'smtpReply'>)
  | {
      kind: 'complained';
      feedbackType: string;
      source: FeedbackSource;
      arrivalDate: number | null;
      userAgent: string | null;
    }
  | { kind: 'opened'; hit: Hit; client: string | null; os: string | null; device: string | null }
  | { kind: 'clicked'; hit: Hit; url: string; linkId: string; part: 'html' | 'text' }
  /** The recipient unsubscribed from this stream. `email`: the address in the link, which also those know by it who were erased since. */
  | { kind: 'unsubscribed'; method: 'one_click' | 'mailto' | 'page'; email?: string }
  | { kind: 'flushed' };

export interface Hit {
  at: number;
  ip: string | null;
  userAgent: string | null;
  bot: 'apple_mpp' | 'gmail_proxy' | 'scanner' | 'prefetch' | null;
}

/** The part of a delivery that decide() reads and changes. */
export interface DeliveryState {
  status: DeliveryStatus;
  dueAt: number | null;
  giveUpAt: number;
  attemptCount: number;
  claimEpoch: number | null;
  noDomainCount: number;
  noDomainSince: number | null;
  /** When an attempt found the mailbox full for the first time, or null. */
  fullSince: number | null;
  /** True for simulated mail, which never changes the suppression list. */
  test: boolean;
  queuedAt: number;
  /** The last reply, for the bounce event of mail whose time is over. */
  lastReply: Pick<AttemptFacts, 'smtpCode' | 'enhancedCode' | 'smtpReply' | 'mx'>;
  opens: number;
  clicks: number;
  stream: string;
  /** The time of delivery in ms since the epoch; null unless the status is `delivered`. */
  deliveredAt: number | null;
  /** The sender's own limit; no hold moves it. */
  expiresAt: number | null;
  heldBy: string | null;
  /** The start of the time under an operator's hold that is not yet added to `giveUpAt`. */
  heldAt: number | null;
  /** True if the recipient was erased: nothing personal is stored any more, and the address is not known here. */
  erased: boolean;
  /** True if an unsubscription has its event already, and its entry on the suppression list. */
  unsubscribed: boolean;
}

/** The due time of mail held without an end: the last time that RFC 3339 can write. */
export const HELD_WITHOUT_END = Date.UTC(9999, 11, 31, 23, 59, 59);
