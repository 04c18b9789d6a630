/**
 * What a refusal means. The order matters: words that speak of us, of the content or of a passing state veto everything
 * else, since servers hang `5.1.1` on rate limits and block lists too; then the enhanced code (RFC 3463), then the words
 * about the mailbox, then the basic code. Before RCPT nobody has looked at the recipient yet, so nothing there is `hard`.
 */
import type { Verdict } from './delivery.ts';

export interface Refusal {
  /** Where in the session it was said; `report` is a bounce mail. */
  phase: 'connect' | 'banner' | 'ehlo' | 'tls' | 'auth' | 'mail' | 'rcpt' | 'data' | 'dot' | 'report';
  code: number | null;
  enhanced: string | null;
  text: string;
}

/** Regular expressions of bounded reach only: what a hostile server writes must not cost more than reading it. */
type Rule = readonly [words: RegExp, verdict: Verdict];
const block = (reason: Verdict['reason']): Verdict => ({ class: 'block', reason });
const soft = (reason: Verdict['reason']): Verdict => ({ class: 'soft', reason });
const hard = (reason: Verdict['reason']): Verdict => ({ class: 'hard', reason });

/** Said of a mailbox in words that elsewhere speak of us: asked before the vetoes. */
const beforeVetoes: readonly Rule[] = [
  // Exchange Online's directory-based blocking: `550 5.4.1 Recipient address rejected: Access denied`.
  [/\b5\.4\.1\b.{0,60}(?:recipient address rejected.{0,10})?access denied/i, hard('mailbox_not_found')],
]; // prettier-ignore

/** Words that settle it whatever the code says. */
const vetoes: readonly Rule[] = [
  [/\b(?:dmarc|domain-based message authentication)\b/i, block('dmarc')],
  [/\b(?:spf|dkim|sender id)\b.{0,60}\b(?:fail|failed|failure|not pass|invalid|required|missing)|\bunauthenticated (?:mail|email|message|sender)/i, block('auth_required')],
  [/\bgr[ae]y-?list/i, soft('rate_limited')],
  [/too many (?:connections|recipients|messages|emails|errors|concurrent|invalid|simultaneous)|\brate[- ]?limit|at a rate|throttl|(?:hour|dai)ly (?:limit|quota)|sending (?:too|limit)|slow down|exceeded the (?:rate|number)/i, block('rate_limited')],
  // Outlook's own marks for what it holds against us, and Facebook's for a recipient who blocks us, which hangs on a 5.1.1.
  [/\bRP-00\d\b/, block('rate_limited')],
  [/\b(?:SC|DY|OU)-00\d\b/, block('reputation')],
  [/\bRCP-P2\b/, block('policy')],
  [/\bsender(?:'s)? (?:address|domain)\b|\bdomain of (?:the )?sender\b/i, block('policy')],
  [/\b(?:spam|junk|unsolicited|bulk mail|phish|malware|virus|uribl|surbl)/i, block('spam')],
  [/block(?:ed|ing)? ?list|blacklist|\b[rd]n?sbl\b|spamhaus|barracudacentral|spamcop|sorbs|proofpoint|cloudmark|\bip\b.{0,30}\b(?:blocked|banned|refused|denied|rejected|reputation)|reputation|\b(?:banned|blocked) (?:for|by|due|using)/i, block('reputation')],
  [/content (?:rejected|blocked|filter|not allowed|restrict)|message (?:content|body) .{0,20}(?:rejected|prohibited)|prohibited (?:attachment|content)|attachment .{0,30}(?:not allowed|blocked|prohibited)/i, block('content_rejected')],
  [/(?:mailbox|quota|inbox|storage|disk).{0,30}(?:full|exceed|over|insufficient)|over ?quota|(?:exceed|over).{0,30}(?:quota|storage)|insufficient (?:system )?storage/i, soft('mailbox_full')],
  [/(?:message|mail|size|content).{0,20}(?:too (?:large|big)|exceeds|over).{0,40}|exceed.{0,30}(?:size|maximum)/i, soft('message_too_large')],
  [/(?:must|require).{0,30}(?:starttls|tls|encrypt)|encryption (?:required|needed)/i, block('tls_required')],
  [/mail(?:er)? loop|routing loop|too many hops|loops? back to (?:myself|itself)/i, soft('routing_loop')],
  [/relay(?:ing)? (?:access )?(?:denied|not (?:permitted|allowed))|access denied|not (?:authori[sz]ed|permitted|allowed)|polic(?:y|ies)|sender .{0,30}(?:rejected|denied|refused)|reverse dns|ptr record|rdns/i, block('policy')],
]; // prettier-ignore

/** Words about the mailbox. */
const mailboxWords: readonly Rule[] = [
  [/(?:mailbox|account|user|recipient).{0,40}(?:disabled|inactive|suspended|deactivated|closed|expired|locked|terminated)|no longer (?:active|available|in use|works|employed)/i, hard('mailbox_disabled')],
  [/(?:no such|unknown|invalid|non-?exist\w*|bad|undeliverable|not a valid|unrouteable) (?:local )?(?:user|recipient|mailbox|address|account|destination)|(?:user|recipient|mailbox|address|account).{0,60}(?:unknown|not (?:found|exist|known|valid|listed)|does ?n.?t exist|does not exist|doesn't have|invalid|rejected: user)|no mailbox|user doesn't|couldn't be found|no account|not our customer|unknown in (?:local|virtual)/i, hard('mailbox_not_found')],
  [/(?:domain|host).{0,30}(?:not found|does not exist|unknown|invalid)|no such domain/i, hard('domain_not_found')],
]; // prettier-ignore

const byEnhanced: Readonly<Record<string, Verdict>> = {
  '1.1': hard('mailbox_not_found'),
  '1.2': hard('domain_not_found'),
  '1.3': hard('mailbox_not_found'),
  '1.6': hard('mailbox_not_found'),
  // Exchange Online: a server behind it knows no such recipient.
  '1.351': hard('mailbox_not_found'),
  // The sender's address, not the recipient's.
  '1.7': block('policy'),
  '1.8': block('policy'),
  '1.10': hard('null_mx'),
  '2.1': hard('mailbox_disabled'),
  '2.2': soft('mailbox_full'),
  '2.3': soft('message_too_large'),
  '3.4': soft('message_too_large'),
  '4.6': soft('routing_loop'),
  '7.5': block('tls_required'),
  '7.10': block('tls_required'),
  '7.20': block('auth_required'),
  '7.21': block('auth_required'),
  '7.22': block('auth_required'),
  '7.23': block('auth_required'),
  '7.25': block('policy'),
  '7.26': block('auth_required'),
  '7.28': block('rate_limited'),
};

/** By the middle figure alone, where the pair is not known. */
const bySubject: Readonly<Record<string, Verdict>> = {
  '3': soft('other'),
  '4': soft('network'),
  '6': block('content_rejected'),
  '7': block('policy'),
};

const recipientPhases: ReadonlySet<string> = new Set(['rcpt', 'report']);

/** Classifies a refusal (4xx or 5xx) or a failure told in words. */
export function classify(refusal: Refusal): Verdict {
  const { text } = refusal;
  const verdict =
    firstOf(beforeVetoes, text) ??
    firstOf(vetoes, text) ??
    enhancedVerdict(refusal) ??
    firstOf(mailboxWords, text) ??
    basic(refusal);
  return verdict.class === 'hard' ? onlyAboutTheRecipient(verdict, refusal) : verdict;
}

function firstOf(rules: readonly Rule[], text: string): Verdict | null {
  const head = text.slice(0, 1000);
  for (const [words, verdict] of rules) if (words.test(head)) return verdict;
  return null;
}

function enhancedVerdict({ enhanced }: Refusal): Verdict | null {
  const [level, subject, detail] = enhanced?.split('.') ?? [];
  if (level === undefined || subject === undefined || detail === undefined) return null;
  const verdict = byEnhanced[`${subject}.${detail}`] ?? bySubject[subject] ?? null;
  // A 4.1.1 is a server that cannot tell yet.
  return level === '4' && verdict?.class === 'hard' ? soft('other') : verdict;
}

function basic({ code, phase }: Refusal): Verdict {
  if (code === null) return soft('network');
  if (code === 552) return soft('mailbox_full');
  if (code < 500) return soft('other');
  if (phase === 'rcpt' && (code === 550 || code === 551 || code === 553))
    return { class: 'undetermined', reason: 'other' };
  return recipientPhases.has(phase) ? { class: 'undetermined', reason: 'other' } : block('policy');
}

/** Hard needs a permanent answer given when the recipient was known; after DATA only if the text names the mailbox. */
function onlyAboutTheRecipient(verdict: Verdict, { phase, code, enhanced, text }: Refusal): Verdict {
  const permanent = code === null ? enhanced?.startsWith('5') === true : code >= 500;
  if (!permanent) return soft(verdict.reason);
  if (recipientPhases.has(phase)) return verdict;
  if ((phase === 'data' || phase === 'dot') && firstOf(mailboxWords, text)?.class === 'hard') return verdict;
  return block('policy');
}
