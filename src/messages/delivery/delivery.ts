/**
 * The words of this program; use nothing else.
 *
 * - message: what a customer asked us to send, once. recipient: an address in it.
 * - delivery: one message to one recipient. It has a status and a time when it needs attention next (due).
 * - claim: the note, committed before dialling, that this process tries the delivery now: attempt number, epoch (which run
 *   of the program), and a lease after which the delivery falls due again by itself.
 * - attempt: one try of a delivery. outcome: what the try gave: accepted, deferred, refused, uncertain.
 * - change: anything that can move a delivery: a claim, an outcome, a bounce mail, a complaint, a cancel, its time running out.
 * - event: what we tell the customer about a change.
 * - lane: due work under one set of limits.
 *
 * How a delivery lives: it is born `queued` (or `scheduled` until its send_at, or `suppressed`, which is final). Its first
 * claim makes it `sent`. An outcome makes it `delivered`, `bounced`, or `deferred` and due again. A bounce mail may turn
 * `delivered` into `bounced`, a complaint may turn either into `complained`. `canceled`, `suppressed`, `failed` and
 * `complained` are final. decide.ts holds the arrows, record.ts writes them.
 */
import type { DeliveryStatus, SuppressionReason } from '../../storage/tables.ts';

export type { DeliveryStatus } from '../../storage/tables.ts';

/** The statuses of mail that is not finished. */
export const waitingStatuses = ['scheduled', 'queued', 'sent', 'deferred'] as const satisfies readonly DeliveryStatus[];

/** The scheduling domain of simulated mail: no host name can start with `~`. */
export const SIMULATOR_DOMAIN = '~simulator';

/**
 * The enhanced code of a wait that is our own doing (RFC 3463: system incorrectly configured), with no mail host beside it: mail
 * whose time runs out then has failed, it has not bounced.
 */
export const HELD_BY_US = '4.3.5';

/** Why mail did not arrive, for programs. The words are those of the event record. */
export type BounceReason =
  | 'mailbox_not_found'
  | 'mailbox_full'
  | 'domain_not_found'
  | 'message_too_large'
  | 'content_rejected'
  | 'policy'
  | 'reputation'
  | 'dmarc'
  | 'auth_required'
  | 'mailbox_disabled'
  | 'null_mx'
  | 'spam'
  | 'rate_limited'
  | 'tls_required'
  | 'routing_loop'
  | 'network'
  | 'expired'
  | 'other';

/** `hard`: this address will never work. `soft`: it may later. `block`: it is about us or the content, not the address. */
export type BounceClass = 'hard' | 'soft' | 'block' | 'undetermined';

export interface Verdict {
  class: BounceClass;
  reason: BounceReason;
}

/** Only an invalid recipient or domain is suppressed, never what was said about us or the content. */
const suppressing: ReadonlySet<BounceReason> = new Set([
  'mailbox_not_found',
  'mailbox_disabled',
  'domain_not_found',
  'null_mx',
]);
export const isSuppressing = (verdict: Verdict): boolean => verdict.class === 'hard' && suppressing.has(verdict.reason);

/** What one try saw, apart from what it means: the attempt record. Times in ms since the epoch, durations in ms. */
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
  /** The remote's own words, or ours where there was no reply. */
  smtpReply: string | null;
}

/**
 * What an answer is about, and so what waits for it (docs/delivery.md, "What a reply teaches"): one recipient, one message, one
 * recipient domain, the mail host, the number of connections or of mails in a time that the receiver takes, its load, its opinion
 * of us as the sender, a block list that names our address, the TLS that a policy of the recipient domain asks for, or our own set-up.
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

/** Why a verdict was given, for the log and for the lane. */
export interface Grounds {
  /** The rule of reading refusals that decided. */
  rule: string;
  /** True where our own set-up is at fault. */
  infrastructure: boolean;
  greylisting: boolean;
  about: Subject;
}

/** What a try gave. */
export type Outcome =
  | { kind: 'accepted'; facts: AttemptFacts; viaRelay: boolean }
  | { kind: 'deferred'; facts: AttemptFacts; verdict: Verdict; retryAt: number; noDomain?: true; grounds?: Grounds }
  | { kind: 'refused'; facts: AttemptFacts; verdict: Verdict; grounds?: Grounds }
  /** The connection died after the final dot and before the reply: it may have arrived, and is tried again all the same. */
  | { kind: 'uncertain'; facts: AttemptFacts; retryAt: number }
  /** Our own fault: it cannot be built or signed in a way that a later try would mend. */
  | { kind: 'failed'; facts: AttemptFacts; reason: string; message: string };

/** Everything that can move a delivery. */
export type DeliveryChange =
  | { kind: 'claimed'; epoch: number; leaseUntil: number; suppressedBy?: { id: string; reason: SuppressionReason } }
  | { kind: 'outcome'; epoch: number; attempt: number; outcome: Outcome }
  /** The claim is given back untried (the program stops): no attempt is spent. */
  | { kind: 'released'; epoch: number; attempt: number; dueAt: number }
  /** The process that held the claim is gone; nobody knows how far it came. */
  | { kind: 'orphaned'; epoch: number; retryAt: number }
  /** A look at the clock: mail whose time has run out is given up. `waitedFor`: what it waited for where nobody has answered for it. */
  | { kind: 'aged'; waitedFor?: string }
  /** Something of ours keeps it back (messages/delivery/holds.ts): marked with `by`, it rests until then, or until it is freed. */
  | { kind: 'held'; by: string; since: number; until: number | null }
  /** What kept it back has ended: it is due. */
  | { kind: 'freed' }
  | { kind: 'canceled' }
  /** Its time of sending is moved, before the first attempt. */
  | { kind: 'rescheduled'; sendAt: number; giveUpAt: number }
  | {
      kind: 'bounced';
      verdict: Verdict;
      smtpCode: number | null;
      enhancedCode: string | null;
      smtpReply: string | null;
    }
  | { kind: 'complained'; feedbackType: string; source: string; arrivalDate: number | null; userAgent: string | null }
  | { kind: 'opened'; hit: Hit; client: string | null; os: string | null; device: string | null }
  | { kind: 'clicked'; hit: Hit; url: string; linkId: string; part: 'html' | 'text' }
  /** The recipient wants no more mail of this stream. */
  | { kind: 'unsubscribed'; method: 'one_click' | 'mailto' | 'page' }
  /** The operator wants it tried now. */
  | { kind: 'flushed' };

/** A pixel load or a followed link. */
export interface Hit {
  at: number;
  ip: string | null;
  userAgent: string | null;
  bot: 'apple_mpp' | 'gmail_proxy' | 'scanner' | 'prefetch' | null;
}

/** What decide() needs to know of a delivery. */
export interface DeliveryState {
  status: DeliveryStatus;
  dueAt: number | null;
  giveUpAt: number;
  attemptCount: number;
  claimEpoch: number | null;
  noDomainCount: number;
  noDomainSince: number | null;
  /** Simulated mail never touches the suppression list. */
  test: boolean;
  queuedAt: number;
  /** What the last reply said, for the bounce that says the time ran out. */
  lastReply: { smtpCode: number | null; enhancedCode: string | null; smtpReply: string | null; mx: string | null };
  opens: number;
  clicks: number;
  /** The stream of its message. */
  stream: string;
  /** Since when it is delivered, in ms since the epoch; null while it is not, or no more. */
  deliveredAt: number | null;
  /** As the sender asked for: no hold moves it. */
  expiresAt: number | null;
  /** What keeps it back, or null. */
  heldBy: string | null;
  /** From when on the time that an operator's hold takes has not been given back yet. */
  heldAt: number | null;
}

/** The due time of mail that is held until somebody frees it: the last that RFC 3339 can write. */
export const HELD_WITHOUT_END = Date.UTC(9999, 11, 31, 23, 59, 59);

/** Whether what holds a mail is the operator's own doing: then the time until it is given up stands still. */
export const stopsClock = (heldBy: string): boolean =>
  heldBy.startsWith('hld_') || heldBy.startsWith('account:') || heldBy.startsWith('paused:');
