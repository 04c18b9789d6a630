/**
 * What a refusal is about. Each reply teaches something about exactly one thing, and only that thing waits
 * (docs/delivery.md, "What a reply teaches"). Pure, and linear in the first 500 characters of the reply.
 */
import type { BounceReason, Subject } from '../../messages/delivery/delivery.ts';
import type { Judgement, Refusal } from '../../messages/delivery/classify.ts';

/** A hostile reply may be long; what matters is at its beginning. */
const LOOKED_AT = 500;

/** The number of connections, or how often they are opened. */
const CONNECTIONS =
  /too many (?:\w+ ){0,4}?(?:connections?|sessions?|connects)\b|(?:connections?|sessions?)(?: \w+){0,3} (?:limit|exceed|rate)|(?:concurrent|simultaneous|parallel) (?:\w+ ){0,2}?(?:connections?|sessions?|deliveries)|(?:number|maximum|limit) (?:of )?(?:\w+ ){0,3}?(?:connections|sessions)|max(?:imum)? connections/i;
/** Mails in a time. */
const RATE =
  /(?:too (?:many|much)|number of|rate of|volume of) (?:\w+ ){0,3}?(?:messages?|mails?|e-?mails?|deliver\w+|recipients)\b|(?:per|this|each|last) (?:second|minute|min|hour|day)\b|(?:sending|message|mail|delivery|submission|sender|relay) (?:rate|quota|limit)|rate[- ]?limit|rate (?:is )?(?:too|exceed)|throttl|unusual rate|slow(?:ing)? down|hourly|daily (?:limit|quota|sending)/i;
/** One mailbox, whatever code stands before it. */
const MAILBOX =
  /(?:user|recipient|mailbox|inbox|addressee|account)\b[^.;:]{0,60}?(?:receiving|received|too (?:much|many|quickly)|at a rate|over ?quota|quota|is full|busy|exceed|temporarily (?:disabled|unavailable|locked))/i;
/** The rule of one recipient organisation behind a host that serves many. */
const TENANT =
  /(?:recipient|user|customer|tenant|organi[sz]ation|company|domain)(?:'s|s'|s)? (?:own )?(?:\w+ )?(?:block|black|deny|reject|safe|allow)[ -]?list|(?:recipient|user|customer|tenant|organi[sz]ation|company)(?:'s|s'|s)? (?:\w+ ){0,2}?(?:policy|polic(?:ies)|rules?|filters?|settings?|administrator)|(?:our|the|this|your recipient's) (?:organi[sz]ation|company|tenant|customer)(?: \w+){0,3} (?:block|reject|den|refus|restrict|not accept)|not (?:in|on) (?:the )?(?:\w+ ){0,2}?(?:allow|safe|white)|allowed[- ]senders?|only accepts? (?:mail|messages) from|RESOLVER\.RST/i;
/** Lists of senders that are kept for everybody to ask. */
const PUBLIC_LIST =
  /spamhaus|spamcop|barracudacentral|\bsorbs\b|\bsurbl\b|\buribl\b|uceprotect|\bpsbl\b|mailspike|abusix|abuseat|\bcbl\b|invaluement|hostkarma|0spam|senderscore|dnswl|\bdnsbl\b|\brbl\b|zen\.|S3140|S3150/i;
/** Lists of domains and links: what is on them is in the mail or its sender, not our address. */
const DOMAIN_LIST = /\bdbl\b|\bsurbl\b|\buribl\b|\brhsbl\b|\bur[il]s?\b/i;
/** What is wrong with the domain that sends, which is one account's, in answers that may change. */
const SENDING_DOMAIN = /\bsender (?:address|domain|verif)|\b(?:SPF|DKIM|DMARC)\b/i;
const LISTED =
  /block(?:ed)?[ -]?list|black[ -]?list|deny[ -]?list|listed\b|banned|blocked|block list|bad reputation|poor reputation|low reputation/i;
/** An address literal; a refusal of ours names ours, nearly always. */
const ADDRESS = /\b(?:\d{1,3}\.){3}\d{1,3}\b|\b[0-9a-f]{1,4}:(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}/i;
/** The server as a whole cannot take mail now. */
const OVERLOAD =
  /overload|system resources|insufficient (?:system )?(?:storage|resources|disk)|load (?:average )?(?:is )?(?:too )?high|(?:server|system|service) (?:is )?(?:too )?busy/i;

const RECIPIENT_REASONS: ReadonlySet<BounceReason> = new Set([
  'mailbox_not_found',
  'mailbox_full',
  'mailbox_disabled',
  'domain_not_found',
  'null_mx',
]);
/** What is wrong with one mail, though the rules of reading refusals call it spam. */
const INFECTED = /\bvirus|malware|\bphish|infected|\btrojan/i;
const MESSAGE_REASONS: ReadonlySet<BounceReason> = new Set(['content_rejected', 'message_too_large']);
/** Said of who sends, when it is permanent. */
const SENDER_REASONS: ReadonlySet<BounceReason> = new Set([
  'policy',
  'reputation',
  'dmarc',
  'auth_required',
  'spam',
  'rate_limited',
  'tls_required',
]);
/** RFC 3463 as Exchange uses it: the recipient, often a group, takes mail from some senders only. */
const CLOSED_RECIPIENT = /^5\.7\.1(?:2\d|3\d)$/;

/** What this refusal, read as `judged`, is about. */
export function subjectOf(refusal: Refusal, judged: Pick<Judgement, 'class' | 'reason' | 'greylisting'>): Subject {
  const { code, phase } = refusal;
  const text = refusal.text.slice(0, LOOKED_AT);
  const enhanced = refusal.enhanced ?? '';
  if (phase === 'connect' || phase === 'banner' || phase === 'ehlo' || phase === 'tls') {
    if (CONNECTIONS.test(text)) return 'connections';
    return isOnList(text) ? 'block_list' : 'host';
  }
  if (phase === 'auth') return 'ourselves';
  if (code !== null && code >= 500) return permanent(refusal, judged, text, enhanced);
  return passing(refusal, judged, text, enhanced);
}

function permanent(
  { phase }: Refusal,
  { class: bounceClass, reason }: Pick<Judgement, 'class' | 'reason'>,
  text: string,
  enhanced: string,
): Subject {
  if (RECIPIENT_REASONS.has(reason)) return 'recipient';
  if (MESSAGE_REASONS.has(reason) || INFECTED.test(text)) return 'message';
  // Gmail says so of a busy mailbox, for good and for now.
  if (reason === 'rate_limited' && MAILBOX.test(text)) return 'recipient';
  if (TENANT.test(text) || CLOSED_RECIPIENT.test(enhanced)) return 'domain';
  if (isOnList(text)) return 'block_list';
  if (SENDER_REASONS.has(reason) && bounceClass !== 'hard') return 'sender';
  // Nobody has looked at recipient or content before RCPT.
  if (phase === 'mail') return 'sender';
  return phase === 'rcpt' ? 'recipient' : 'message';
}

function passing(
  { phase, code }: Refusal,
  { reason, greylisting }: Pick<Judgement, 'reason' | 'greylisting'>,
  text: string,
  enhanced: string,
): Subject {
  if (RECIPIENT_REASONS.has(reason) || MAILBOX.test(text)) return 'recipient';
  if (CONNECTIONS.test(text)) return 'connections';
  if (isOnList(text) && PUBLIC_LIST.test(text)) return 'block_list';
  if (greylisting && /gr[ae]y/i.test(text)) return 'recipient';
  if (reason === 'dmarc' || reason === 'auth_required' || /^4\.(?:1\.[78]|7\.2[0-7])$/.test(enhanced)) return 'sender';
  if (RATE.test(text)) return 'rate';
  if (greylisting || (/^4\.[12]\./.test(enhanced) && phase === 'rcpt')) return 'recipient';
  if (MESSAGE_REASONS.has(reason)) return 'message';
  if (SENDING_DOMAIN.test(text)) return 'sender';
  // At RCPT many servers say of one recipient that there is a problem here; what is about all of them says so, or is a 421.
  return phase === 'rcpt' && code !== 421 && !/^4\.[347]\./.test(enhanced) && !OVERLOAD.test(text)
    ? 'recipient'
    : 'load';
}

/** Whether the words say that an address of ours, or a public list, keeps us out. */
const isOnList = (text: string): boolean =>
  (PUBLIC_LIST.test(text) && !DOMAIN_LIST.test(text)) || (ADDRESS.test(text) && LISTED.test(text));
