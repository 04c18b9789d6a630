/**
 * Finds the subject of a refusal. Each reply teaches something about exactly one thing, and only that thing waits
 * (docs/delivery.md, "What a reply teaches"). Pure, and linear in the first 500 characters of the reply.
 */
import type { BounceReason, Subject } from '../../messages/delivery/delivery.ts';
import type { Judgement, Refusal } from '../../messages/delivery/classify.ts';
import { withoutCodes } from '../../mail/diagnostic.ts';

/** Characters of a reply that are read; a hostile one may be long. */
const LOOKED_AT = 500;

/** Answers about the number of connections, or how often they are opened. */
const CONNECTIONS =
  /too many (?:\w+ ){0,4}?(?:connections?|sessions?|connects)\b|(?:connections?|sessions?)(?: \w+){0,3} (?:limit|exceed|rate)|(?:concurrent|simultaneous|parallel) (?:\w+ ){0,2}?(?:connections?|sessions?|deliveries)|(?:number|maximum|limit) (?:of )?(?:\w+ ){0,3}?(?:connections|sessions)|max(?:imum)? connections/i;
/** Answers about the number of mails over one connection, of which another one takes more; 4.7.653 is Outlook's code for it. */
const USED_UP =
  /\b(?:messages?|mails?|e-?mails?|transactions?|deliveries) (?:\w+ ){0,3}?(?:this|one|single|each|same|current|per) (?:SMTP )?(?:connection|session)\b|\b4\.7\.653\b/i;
export const isUsedUp = (text: string): boolean => USED_UP.test(text.slice(0, LOOKED_AT));
export const isAboutConnections = (text: string): boolean => CONNECTIONS.test(text) && !isUsedUp(text);

/** Answers about the number of mails in a time. */
const RATE =
  /(?:too (?:many|much)|number of|rate of|volume of) (?:\w+ ){0,3}?(?:messages?|mails?|e-?mails?|deliver\w+|recipients)\b|(?:per|this|each|last) (?:second|minute|min|hour|day)\b|(?:sending|message|mail|delivery|submission|sender|relay) (?:rate|quota|limit)|rate[- ]?limit|rate (?:is )?(?:too|exceed)|throttl|unusual rate|slow(?:ing)? down|hourly|daily (?:\w+ ){0,2}?(?:limit|quota|sending)/i;
/** Answers about one mailbox, whatever their code is, unless the mailbox is the one that sends. */
const MAILBOX =
  /(?:user|recipient|mailbox|inbox|addressee|account)\b[^.;:]{0,60}?(?:receiving|received|too (?:much|many|quickly)|at a rate|over ?quota|quota|is full|busy|exceed|temporarily (?:disabled|unavailable|locked))|\b(?:messages?|mails?|e-?mails?) (?:to|for) @ [^.;:]{0,40}?(?:deferred|excessive)/i;
/** Words of a relay about what its customer may send. */
const OUR_QUOTA =
  /\bsending (?:\w+ )?(?:rate|limits?|quota)|\bdaily\b(?! receiv)|\b(?:your|for this) (?:\w+ )?account\b/i;
/** The rule of one recipient, or of one recipient organisation behind a host that serves many. */
const TENANT =
  /\b(?:recipient|user|customer|tenant|organi[sz]ation|company) (?:(?:has|have) (?:block|black|reject|refus|bann)|(?:does not|doesn't|do not|don't) (?:want|wish))|(?:blocked|blacklisted|banned|rejected|refused|denied|lists?|policy|rules?|filters?|settings?) (?:by|of) (?:\w+ ){0,4}?(?:recipient|user|customer|tenant|organi[sz]ation|company)\b|(?:recipient|user|customer|tenant|organi[sz]ation|company|domain)(?:'s|s'|s)? (?:own )?(?:\w+ )?(?:block|black|deny|reject|safe|allow)[ -]?list|(?:recipient|user|customer|tenant|organi[sz]ation|company)(?:'s|s'|s)? (?:\w+ ){0,2}?(?:policy|polic(?:ies)|rules?|filters?|settings?|administrator)|(?:our|the|this|your recipient's) (?:organi[sz]ation|company|tenant|customer)(?: \w+){0,3} (?:block|reject|den|refus|restrict|not accept)|not (?:in|on) (?:the )?(?:\w+ ){0,2}?(?:allow|safe|white)|allowed[- ]senders?|only accepts? (?:mail|messages) from|\bblocked senders\b|envelope blocked|RESOLVER\.RST/i;
const PUBLIC_LIST =
  /spamhaus|spamcop|barracudacentral|\bsorbs\b|\bsurbl\b|\buribl\b|uceprotect|\bpsbl\b|mailspike|abusix|abuseat|\bcbl\b|invaluement|hostkarma|0spam|senderscore|dnswl|\bdnsbls?\b|\brbls?\b|zen\.|S3140|S3150|\(BL\)/i;
/** Lists of domains and links: what is on them is in the mail or its sender, not our address. */
const DOMAIN_LIST =
  /\bdbl\b|\bsurbl\b|\buribl\b|\brhsbl\b|\bur[il]s?\b|\b(?:domain|link)s?(?: [^ ]{1,80}){0,8}? (?:black|block)?-?listed\b/i;
/** Temporary answers about the sending domain, which belongs to one account. */
const SENDING_DOMAIN = /\bsender (?:address|domain|verif)|\bfrom domain\b|\b(?:SPF|DKIM|DMARC)\b/i;
/** Such answers that may speak of a rate or a reputation, too; it is not that of the mail of all accounts. */
const OUR_DOMAIN = /\b(?:your|sending) (?:DKIM |SPF |URL )?domains?\b/i;
/** An IP address; in a refusal it is ours, nearly always. */
const ADDRESS = /\b(?:\d{1,3}\.){3}\d{1,3}\b|\b[0-9a-f]{1,4}:(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}/gi;
const LISTED = '(?:(?:block|black|deny) ?list(?:ed)?|listed|banned|blocked|(?:bad|poor|low) reputation)';
const CLIENT =
  '(?:ip|ip address|(?:client|sending|source|connecting|remote|your|their)(?: mail)? (?:host|server|address|network|mta))';
const LINK =
  '(?:is|are|was|were|has|have|been|being|it|because|due|to|currently|temporarily|permanently|locally|local|internal|rejected|refused|denied|on|in|with|an?|our|the|very|none)';
/**
 * Finds, in `wordsOf` a refusal, that an address of ours is listed or blocked: the word is said of the address or of what connects, or
 * a link looks the address up. Anywhere else an address only tells from where the mail came, which is blocked for another reason.
 */
const ADDRESS_LISTED = new RegExp(
  [
    `[ =](?:@|${CLIENT})(?: (?:@|${LINK})){0,6} ${LISTED} `,
    ` (?:black|block|deny) ?list(?:ed)? @ `,
    ` (?:${LISTED}|reputation)(?: (?:of|the|your|our|sending|sender)){0,3} (?:@|${CLIENT}) `,
    ` ${LISTED} see (?:[^ ]+ ){0,16}ip=@ `,
  ].join('|'),
);
/** Answers about the server as a whole. */
const OVERLOAD =
  /overload|system resources|insufficient (?:system )?(?:storage|resources|disk)|resources (?:are )?temporarily unavailable|service refuse|load (?:average )?(?:is )?(?:too )?high|(?:server|system|service) (?:is )?(?:too )?busy/i;

const RECIPIENT_REASONS: ReadonlySet<BounceReason> = new Set([
  'mailbox_not_found',
  'mailbox_full',
  'mailbox_disabled',
  'domain_not_found',
  'null_mx',
]);
/** Answers about one mail that the bounce rules classify as spam, or as a block. */
const CONTENT =
  /\bvirus|malware|\bphish|infected|\btrojan|\bbanned word|\battachments?\b|\bfile (?:type|name|extension)/i;
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
/** Those that are never about our address, which such an answer often names as well. */
const NOT_OUR_ADDRESS: ReadonlySet<BounceReason> = new Set(['dmarc', 'auth_required', 'tls_required']);
/** RFC 3463 as Exchange uses it: the recipient, often a group, takes mail from some senders only. */
const CLOSED_RECIPIENT = /^5\.7\.1(?:2\d|3\d)$/;

/** Returns whether a passing answer to a mail is about the number of connections, rather than about a mailbox. */
export const refusesConnections = (text: string): boolean => {
  const read = text.slice(0, LOOKED_AT);
  return isAboutConnections(read) && !MAILBOX.test(read);
};

export function subjectOf(refusal: Refusal, judged: Pick<Judgement, 'class' | 'reason' | 'greylisting'>): Subject {
  const { code, phase } = refusal;
  const text = withoutCodes(refusal.text.slice(0, LOOKED_AT), code).replace(/\s+/g, ' ');
  const enhanced = refusal.enhanced ?? '';
  if (phase === 'connect' || phase === 'banner' || phase === 'ehlo' || phase === 'tls') {
    if (isAboutConnections(text)) return 'connections';
    return isOnPublicList(text) || isAddressListed(text) ? 'block_list' : 'host';
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
  // Gmail answers so for a busy mailbox, with 5xx as well as 4xx.
  if (isAboutMailbox(phase, reason, text, reason === 'rate_limited')) return 'recipient';
  if (MESSAGE_REASONS.has(reason) || CONTENT.test(text)) return 'message';
  if (TENANT.test(text) || CLOSED_RECIPIENT.test(enhanced)) return 'domain';
  if (isOnPublicList(text) || (!NOT_OUR_ADDRESS.has(reason) && isAddressListed(text))) return 'block_list';
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
  if (isAboutMailbox(phase, reason, text, true)) return 'recipient';
  if (isAboutConnections(text)) return 'connections';
  if (isOnPublicList(text)) return 'block_list';
  if (greylisting && /gr[ae]y/i.test(text)) return 'recipient';
  if (NOT_OUR_ADDRESS.has(reason) || /^4\.(?:1\.[78]|7\.2[0-7])$/.test(enhanced) || OUR_DOMAIN.test(text))
    return 'sender';
  if (RATE.test(text)) return 'rate';
  if (greylisting || (/^4\.[12]\./.test(enhanced) && phase === 'rcpt' && code !== 421)) return 'recipient';
  if (MESSAGE_REASONS.has(reason)) return 'message';
  if (SENDING_DOMAIN.test(text)) return 'sender';
  // At RCPT many servers report a problem of one recipient in general words; an answer about all of them says so, or is a 421.
  const isForAll = OVERLOAD.test(text) || (SENDER_REASONS.has(reason) && !TENANT.test(text));
  return phase === 'rcpt' && code !== 421 && !/^4\.[347]\./.test(enhanced) && !isForAll ? 'recipient' : 'load';
}

/** At MAIL the server does not know the recipient: a mailbox that it speaks of is the sender's. */
function isAboutMailbox(phase: Refusal['phase'], reason: BounceReason, text: string, byWords: boolean): boolean {
  if (phase === 'mail') return false;
  return RECIPIENT_REASONS.has(reason) || (byWords && MAILBOX.test(withoutAddresses(text)) && !OUR_QUOTA.test(text));
}

/** The points in an address do not end a sentence. */
const withoutAddresses = (text: string): string =>
  text
    .split(' ')
    .map((word) => (word.includes('@') ? `@${/[.:;]$/.exec(word)?.[0] ?? ''}` : word))
    .join(' ');

export const publicListIn = (text: string): string | null => {
  const found = PUBLIC_LIST.exec(text.slice(0, LOOKED_AT))?.[0].toLowerCase() ?? null;
  return found === 'zen.' ? 'spamhaus' : found;
};

const isOnPublicList = (text: string): boolean =>
  PUBLIC_LIST.test(text) && (!DOMAIN_LIST.test(text) || isAddressListed(text));

function isAddressListed(text: string): boolean {
  const words = wordsOf(text);
  return /[ =]@ /.test(words) && ADDRESS_LISTED.test(words);
}

/** The words of a refusal between spaces, with `@` for an address and a point if a sentence ends. */
const wordsOf = (text: string): string =>
  ` ${text
    .toLowerCase()
    .replace(ADDRESS, '@')
    .replaceAll('.', ' . ')
    .replace(/[^a-z0-9@.=]+/g, ' ')} `.replace(/ +/g, ' ');
