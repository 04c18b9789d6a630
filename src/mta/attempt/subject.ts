/**
 * Finds the subject of a refusal. Each reply teaches something about exactly one thing, and only that thing waits
 * (docs/delivery.md, "What a reply teaches"). Pure, and linear in the first 500 characters of the reply.
 */
import type { BounceReason, Subject } from '../../messages/delivery/delivery.ts';
import type { Judgement, Refusal } from '../../messages/delivery/classify.ts';

/** Characters of a reply that are read; a hostile one may be long. */
const LOOKED_AT = 500;

/** Answers about the number of connections, or how often they are opened. */
const CONNECTIONS =
  /too many (?:\w+ ){0,4}?(?:connections?|sessions?|connects)\b|(?:connections?|sessions?)(?: \w+){0,3} (?:limit|exceed|rate)|(?:concurrent|simultaneous|parallel) (?:\w+ ){0,2}?(?:connections?|sessions?|deliveries)|(?:number|maximum|limit) (?:of )?(?:\w+ ){0,3}?(?:connections|sessions)|max(?:imum)? connections/i;
/** Tells whether an answer is about the number of connections. */
export const isAboutConnections = (text: string): boolean => CONNECTIONS.test(text);

/** Answers about the number of mails in a time. */
const RATE =
  /(?:too (?:many|much)|number of|rate of|volume of) (?:\w+ ){0,3}?(?:messages?|mails?|e-?mails?|deliver\w+|recipients)\b|(?:per|this|each|last) (?:second|minute|min|hour|day)\b|(?:sending|message|mail|delivery|submission|sender|relay) (?:rate|quota|limit)|rate[- ]?limit|rate (?:is )?(?:too|exceed)|throttl|unusual rate|slow(?:ing)? down|hourly|daily (?:limit|quota|sending)/i;
/** Answers about one mailbox, whatever their code is. */
const MAILBOX =
  /(?:user|recipient|mailbox|inbox|addressee|account)\b[^.;:]{0,60}?(?:receiving|received|too (?:much|many|quickly)|at a rate|over ?quota|quota|is full|busy|exceed|temporarily (?:disabled|unavailable|locked))/i;
/** The rule of one recipient organisation behind a host that serves many. */
const TENANT =
  /(?:recipient|user|customer|tenant|organi[sz]ation|company|domain)(?:'s|s'|s)? (?:own )?(?:\w+ )?(?:block|black|deny|reject|safe|allow)[ -]?list|(?:recipient|user|customer|tenant|organi[sz]ation|company)(?:'s|s'|s)? (?:\w+ ){0,2}?(?:policy|polic(?:ies)|rules?|filters?|settings?|administrator)|(?:our|the|this|your recipient's) (?:organi[sz]ation|company|tenant|customer)(?: \w+){0,3} (?:block|reject|den|refus|restrict|not accept)|not (?:in|on) (?:the )?(?:\w+ ){0,2}?(?:allow|safe|white)|allowed[- ]senders?|only accepts? (?:mail|messages) from|RESOLVER\.RST/i;
/** Names of public block lists. */
const PUBLIC_LIST =
  /spamhaus|spamcop|barracudacentral|\bsorbs\b|\bsurbl\b|\buribl\b|uceprotect|\bpsbl\b|mailspike|abusix|abuseat|\bcbl\b|invaluement|hostkarma|0spam|senderscore|dnswl|\bdnsbl\b|\brbl\b|zen\.|S3140|S3150/i;
/** Lists of domains and links: what is on them is in the mail or its sender, not our address. */
const DOMAIN_LIST = /\bdbl\b|\bsurbl\b|\buribl\b|\brhsbl\b|\bur[il]s?\b/i;
/** Temporary answers about the sending domain, which belongs to one account. */
const SENDING_DOMAIN = /\bsender (?:address|domain|verif)|\b(?:SPF|DKIM|DMARC)\b/i;
const LISTED =
  /block(?:ed)?[ -]?list|black[ -]?list|deny[ -]?list|listed\b|banned|blocked|block list|bad reputation|poor reputation|low reputation/i;
/** An IP address; in a refusal it is ours, nearly always. */
const ADDRESS = /\b(?:\d{1,3}\.){3}\d{1,3}\b|\b[0-9a-f]{1,4}:(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}/i;
/** Tells whether a passing answer to a mail is about the number of connections, rather than about a mailbox. */
export const refusesConnections = (text: string): boolean => {
  const read = text.slice(0, LOOKED_AT);
  return CONNECTIONS.test(read) && !MAILBOX.test(read);
};

/** Answers about the server as a whole. */
const OVERLOAD =
  /overload|system resources|insufficient (?:system )?(?:storage|resources|disk)|load (?:average )?(?:is )?(?:too )?high|(?:server|system|service) (?:is )?(?:too )?busy/i;

const RECIPIENT_REASONS: ReadonlySet<BounceReason> = new Set([
  'mailbox_not_found',
  'mailbox_full',
  'mailbox_disabled',
  'domain_not_found',
  'null_mx',
]);
/** Answers about one mail that the bounce rules classify as spam. */
const INFECTED = /\bvirus|malware|\bphish|infected|\btrojan/i;
const MESSAGE_REASONS: ReadonlySet<BounceReason> = new Set(['content_rejected', 'message_too_large']);
/** Reasons that, as permanent answers, are about the sender. */
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

/** Returns the subject of a refusal that was classified as `judged`. */
export function subjectOf(refusal: Refusal, judged: Pick<Judgement, 'class' | 'reason' | 'greylisting'>): Subject {
  const { code, phase } = refusal;
  const text = refusal.text.slice(0, LOOKED_AT);
  const enhanced = refusal.enhanced ?? '';
  if (phase === 'connect' || phase === 'banner' || phase === 'ehlo' || phase === 'tls') {
    if (isAboutConnections(text)) return 'connections';
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
  // Gmail answers so for a busy mailbox, with 5xx as well as 4xx.
  if (reason === 'rate_limited' && MAILBOX.test(text)) return 'recipient';
  if (TENANT.test(text) || CLOSED_RECIPIENT.test(enhanced)) return 'domain';
  if (isOnList(text)) return 'block_list';
  if (SENDER_REASONS.has(reason) && bounceClass !== 'hard') return 'sender';
  // Before RCPT the server does not know recipient or content.
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
  if (isAboutConnections(text)) return 'connections';
  if (isOnList(text) && PUBLIC_LIST.test(text)) return 'block_list';
  if (greylisting && /gr[ae]y/i.test(text)) return 'recipient';
  if (reason === 'dmarc' || reason === 'auth_required' || /^4\.(?:1\.[78]|7\.2[0-7])$/.test(enhanced)) return 'sender';
  if (RATE.test(text)) return 'rate';
  if (greylisting || (/^4\.[12]\./.test(enhanced) && phase === 'rcpt')) return 'recipient';
  if (MESSAGE_REASONS.has(reason)) return 'message';
  if (SENDING_DOMAIN.test(text)) return 'sender';
  // At RCPT many servers report a problem of one recipient in general words; an answer about all of them says so, or is a 421.
  return phase === 'rcpt' && code !== 421 && !/^4\.[347]\./.test(enhanced) && !OVERLOAD.test(text)
    ? 'recipient'
    : 'load';
}

/** Tells whether the text names an address of ours as listed, or a public list. */
const isOnList = (text: string): boolean =>
  (PUBLIC_LIST.test(text) && !DOMAIN_LIST.test(text)) || (ADDRESS.test(text) && LISTED.test(text));
