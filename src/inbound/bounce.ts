/** Turns the words of a notice about one recipient into code, status, class and reason, by the rules for replies in a session. */
import { withoutControls } from '../mail/header.ts';
import type { DeliveryReport, ReportAction, ReportedRecipient } from '../mail/delivery-report.ts';
import { isByOwnRule, type Judge, type Judgement } from '../messages/delivery/classify.ts';
import type { BounceWords } from './bounce-words.ts';
import { findPassage, readPassage, statusOfWords, type Passage } from './diagnostic.ts';
import type { FoundRecipient } from './finding.ts';
import { linesByRecipient, recipientsNamedIn } from './named-recipients.ts';
import type { Notice } from './notice.ts';

/** The phrases and the rules that notices are read by. */
export interface ReadBy {
  words: BounceWords;
  /** Asks the rules for replies, the operator's own first. */
  judge: Judge;
}

/** The mail grew too old: RFC 3463 section 3.5, and other codes that servers use for it. */
const EXPIRED = new Set(['4.4.7', '5.4.7']);

/** Returns the recipients of a delivery report; prose is used if fields are empty. `actionInProse`: what it says became of the mail. */
export function reportedRecipients(
  delivery: DeliveryReport,
  notice: Notice,
  by: ReadBy,
  actionInProse: () => ReportAction | null = () => null,
): FoundRecipient[] {
  const prose = openProse(notice, by);
  return delivery.recipients.map((reported) => {
    const { originalRecipient, status } = reported;
    const address = addressOf(reported);
    const quoted = reported.diagnostic === null ? null : readPassage(reported.diagnostic);
    const isOpen = exact(status) === null || isRouting(status ?? '');
    const inProse = isOpen && !saysWhy(quoted, by.words) ? prose.about(address) : null;
    const isOther = originalRecipient !== null && originalRecipient.toLowerCase() !== address.toLowerCase();
    return {
      address,
      original: isOther ? originalRecipient : prose.origin(address),
      ...judged(
        { action: actionOf(reported, quoted) ?? actionInProse(), status, diagnostic: inProse ?? quoted },
        prose,
      ),
      diagnostic: printable(reported.diagnostic ?? inProse?.text ?? null),
    };
  });
}

const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Control characters, as binary rubbish in a report has them, spoil logs and terminals; those that turn the writing around mislead. */
export const printable = (text: string | null): string | null =>
  text === null ? null : withoutControls(text.replace(TURNING, '')).replace(/ +/g, ' ');

/** Returns the address that the server tried; the one we wrote to if the former is of another network or of an inner host. */
function addressOf({ finalRecipient, originalRecipient }: ReportedRecipient): string {
  const isOfTheNet = finalRecipient !== null && /@[^@]*\./.test(finalRecipient);
  return (isOfTheNet ? finalRecipient : (originalRecipient ?? finalRecipient)) ?? '';
}

export function namedRecipients(action: 'failed' | 'delayed', notice: Notice, by: ReadBy): FoundRecipient[] {
  const prose = openProse(notice, by);
  return recipientsNamedIn(notice).map(({ address, lines, line = '' }) => ({
    address,
    original: originIn(lines),
    ...judged({ action, status: null, diagnostic: prose.within(lines) ?? knownParagraph([line], by.judge) }, prose),
  }));
}

/** The prose of a notice, searched at most once as a whole however many recipients there are. */
type Prose = ReturnType<typeof openProse>;

function openProse(notice: Notice, by: ReadBy) {
  const { subject, isSubjectKnown, lines } = notice;
  const { words, judge } = by;
  const overall = once(() => findPassage(lines, words));
  const linesOf = once(() => linesByRecipient(notice));
  /** The reason: from these lines, else from all. */
  const within = (some: readonly string[]): Passage | null =>
    findPassage(some, words) ?? knownParagraph(some, judge) ?? overall();
  return {
    by,
    within,
    /** The reason: from the lines below the address, else from the whole text. */
    about: (address: string) => within(linesOf()(address)),
    /** The address before forwarding, from the lines below the address. */
    origin: (address: string) => originIn(linesOf()(address)),
    /** The status that the words of the whole text mean. */
    status: once(() => statusOfWords([...(isSubjectKnown ? [subject] : []), ...lines].join('\n'), words)),
  };
}

/** Exim's and Sendmail's words for an address that was forwarded to another. */
const FORWARDED = /\((?:(?:ultimately )?generated|expanded) from:? {1,3}<?([^\s<>()]{1,128}@[^\s<>()@]{1,255})>?\)/;

const originIn = (lines: readonly string[]): string | null => FORWARDED.exec(lines.join('\n'))?.[1] ?? null;

/** Returns the first paragraph below an address, if the rules for replies know its words. */
function knownParagraph(lines: readonly string[], judge: Judge): Passage | null {
  const first = lines.findIndex((line) => line !== '');
  if (first < 0) return null;
  const end = lines.indexOf('', first);
  const one = readPassage(lines.slice(first, end < 0 ? undefined : end).join(' '));
  return isSaid(one.text, judge) ? one : null;
}

function once<Value>(find: () => Value): () => Value {
  let found: { value: Value } | null = null;
  return () => (found ??= { value: find() }).value;
}

const ACTIONS: Readonly<Record<string, ReportAction>> = { 2: 'delivered', 4: 'delayed', 5: 'failed' };

/** Some gateways leave the action out, or misspell it. A recipient counts as failed only if the report says so: by its status, else by the reply that it quotes. */
function actionOf({ action, status }: ReportedRecipient, quoted: Passage | null): ReportAction | null {
  const level = status ?? quoted?.code?.toString() ?? quoted?.enhanced ?? '';
  return action ?? ACTIONS[level.charAt(0)] ?? null;
}

interface Said {
  action: ReportAction | null;
  status: string | null;
  diagnostic: Passage | null;
}

function judged(said: Said, prose: Prose): Omit<FoundRecipient, 'address' | 'original'> {
  const { action, diagnostic } = said;
  const text = diagnostic?.text ?? '';
  const found = text === '' ? prose.status() : statusOfWords(text, prose.by.words);
  const inWords = atLevelOf(diagnostic?.code ?? null, found);
  const known = exact(diagnostic?.enhanced ?? null) ?? exact(said.status);
  const status = saidStatus(said.status, diagnostic?.enhanced ?? null);
  const isOpen = action === 'failed' || action === 'delayed';
  return {
    action,
    status,
    impliedStatus: status === null ? inWords : null,
    diagnostic: printable(text === '' ? null : text),
    code: diagnostic?.code ?? null,
    ...(isOpen
      ? atLevelOfStatus(said.status, verdictOf({ ...said, action }, known, inWords, prose.by.judge))
      : { verdict: null, rule: null }),
  };
}

/** Returns the report's status, or the more exact quoted one if both agree whether it is final: the reporter knows its attempts. */
function saidStatus(reported: string | null, quoted: string | null): string | null {
  if (reported === null || quoted === null) return reported ?? quoted;
  if (!quoted.startsWith(reported.charAt(0))) return reported;
  return exact(quoted) ?? exact(reported) ?? (quoted.endsWith('.0.0') ? reported : quoted);
}

type Ruled = Pick<FoundRecipient, 'verdict' | 'rule'>;

/** Judges by the quoted reply as if we had got it, else by the words for the failure. The operator's own rules come first. */
function verdictOf(
  { action, status, diagnostic }: Said & { action: 'failed' | 'delayed' },
  known: string | null,
  inWords: string | null,
  judge: Judge,
): Ruled {
  const level = (action === 'delayed' ? '4' : (status ?? known ?? inWords))?.startsWith('4') === true ? 450 : 550;
  const text = diagnostic?.text ?? '';
  const code = diagnostic?.code ?? level;
  const enhanced = known ?? diagnostic?.enhanced ?? status;
  const byReply = judge({ phase: 'report', code, enhanced, text });
  if (isByOwnRule(byReply)) return toRuled(byReply);
  if (known !== null && EXPIRED.has(known)) return expired;
  const isCertain =
    diagnostic !== null && byReply.class !== 'undetermined' && (diagnostic.code !== null || isSaid(text, judge));
  if (inWords === null || isCertain || (known !== null && !isRouting(known))) return toRuled(byReply);
  const byWords = judge({ phase: 'report', code, enhanced: inWords, text: '' });
  return EXPIRED.has(inWords) && !isByOwnRule(byWords) ? expired : toRuled(byWords);
}

/** Nothing is hard that the report itself calls temporary, unless an own rule says so. */
function atLevelOfStatus(status: string | null, { verdict, rule }: Ruled): Ruled {
  const isTemporary = status?.startsWith('4') === true && !(rule !== null && isByOwnRule({ rule }));
  if (!isTemporary || verdict?.class !== 'hard') return { verdict, rule };
  return { verdict: { class: 'soft', reason: 'other' }, rule: rule === null ? null : `${rule}@4xx` };
}

/** True if the rules for replies know these words, whatever the code of the reply. */
const isSaid = (text: string, judge: Judge): boolean =>
  !judge({ phase: 'report', code: null, enhanced: null, text }).rule.startsWith('fallback:');

export const toRuled = ({ class: bounceClass, reason, rule }: Judgement): Ruled => ({
  verdict: { class: bounceClass, reason },
  rule,
});

const expired: Ruled = { verdict: { class: 'soft', reason: 'expired' }, rule: null };

/** The reply's code decides whether a failure is final, not its words. */
const atLevelOf = (code: number | null, status: string | null): string | null =>
  code === null || status === null ? status : `${String(code).charAt(0)}${status.slice(1)}`;

/** Returns the status, or null if it only says success or failure. */
const exact = (status: string | null): string | null => (isVague(status) ? null : status);

/** `5.0.0`, `5.1.0` and protocol errors (`5.5.0`) are codes that gateways write for everything. */
const isVague = (status: string | null): boolean => status === null || /^[245]\.(?:[05]\.|[12]\.0$)/.test(status);

/** Servers give `5.4.4` for domains that do not exist, and for DNS servers that did not answer. */
const isRouting = (status: string): boolean => /^[45]\.4\.[04]$/.test(status);

const saysWhy = (diagnostic: Passage | null, words: BounceWords): boolean =>
  diagnostic !== null &&
  (diagnostic.code !== null || diagnostic.enhanced !== null || statusOfWords(diagnostic.text, words) !== null);
