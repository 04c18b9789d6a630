/**
 * Classifies refusals by rules that are data (config/bounce-rules.json; docs/classification.md). The first rule that fits decides, in this order: the
 * operator's own rules; words about us, the content or a passing state, since servers also give `5.1.1` for rate limits and block lists; the enhanced
 * code (RFC 3463); codes with a meaning of their own at one mail operator; words about the mailbox; the basic code and its phase. Before RCPT no
 * server has looked at the recipient, so nothing there is `hard`.
 */
import { createPhraseIndex, wordingOf, type PhraseIndex, type Wording } from '../../base/phrase.ts';
import type { BounceRule, refusalPhases } from '../../config/bounce-rule.ts';
import { readDiagnostic, withoutCodes } from '../../mail/diagnostic.ts';
import { enhancedOf } from '../../mail/smtp-reply.ts';
import { isSuppressing, type Grounds, type Verdict } from './delivery.ts';

import file from '../../../config/bounce-rules.json' with { type: 'json' };
import operators from '../../../config/operators.json' with { type: 'json' };

export interface Refusal {
  /** The phase of the session; `report` is a bounce mail, whose text may name phase and codes itself. */
  phase: (typeof refusalPhases)[number];
  code: number | null;
  enhanced: string | null;
  text: string;
  /** The host that refused, if known: some hosts give the same words another meaning. */
  mx?: string | null;
}

export interface Judgement extends Verdict, Omit<Grounds, 'about'> {
  /** True if the address goes on the suppression list. */
  suppress: boolean;
}

export type Judge = (refusal: Refusal) => Judgement;

export const isByOwnRule = ({ rule }: Pick<Grounds, 'rule'>): boolean => rule.startsWith('own:');

/** Returns a judge that asks the operator's rules, then the shipped ones. */
export function createJudge(own: readonly BounceRule[] = []): Judge {
  const index = createPhraseIndex();
  const rules = [...own.map((rule) => ({ stage: 'own', rule })), ...shippedRules].map((one) => compile(one, index));
  const naming = rules.filter(({ byWords, rule }) => byWords && rule.class === 'hard');
  return (refusal) => {
    const reply = prepare(refusal, index);
    const found = rules.find((rule) => rule.fits(reply));
    // The last rule of the shipped ones fits everything.
    if (found === undefined) throw new Error('no rule fits');
    return soften(found, reply, () => naming.some((rule) => rule.fits({ ...reply, phase: 'rcpt' })));
  };
}

let shipped: Judge | null = null;

export function judge(refusal: Refusal): Judgement {
  shipped ??= createJudge();
  return shipped(refusal);
}

/** Classifies a refusal (4xx or 5xx), or a failure described in words, by the shipped rules. */
export function classify(refusal: Refusal): Verdict {
  const { class: bounceClass, reason } = judge(refusal);
  return { class: bounceClass, reason };
}

interface PreparedReply {
  names: Wording['names'];
  /** The numbers of the phrase lists that match. */
  found: ReadonlySet<number>;
  phase: Refusal['phase'];
  isReport: boolean;
  code: number | null;
  enhanced: readonly [level: string, subject: string, detail: string] | null;
  /** The same without the guess of a bounce mail beside a reply that it quotes. */
  said: PreparedReply['enhanced'];
  /** The mail operator of the host, null for a host of none; undefined without a host. */
  operator: string | null | undefined;
}

interface Compiled {
  label: string;
  rule: BounceRule;
  /** True if the rule looks at words, not at codes alone. */
  byWords: boolean;
  fits(reply: PreparedReply): boolean;
}

const MOST_TEXT = 2000;

function prepare({ phase, code, enhanced, text: whole, mx }: Refusal, index: PhraseIndex): PreparedReply {
  const text = whole.slice(0, MOST_TEXT);
  const diagnostic = phase === 'report' ? readDiagnostic(text) : null;
  const ownCode = code ?? diagnostic?.code ?? null;
  // The status field of a report is often a guess of the reporting system; the reply quoted in its text is better.
  const ownEnhanced =
    diagnostic?.enhanced ?? (diagnostic === null ? enhanced : informativeStatus(enhanced)) ?? embedded(text);
  const { words, names } = wordingOf(withoutCodes(diagnostic?.text ?? text, ownCode));
  return {
    names,
    found: index.find(words),
    phase: diagnostic?.phase ?? phase,
    isReport: diagnostic !== null,
    code: ownCode,
    enhanced: triple(ownEnhanced),
    said: triple(diagnostic?.code == null ? ownEnhanced : (diagnostic.enhanced ?? embedded(text))),
    operator: mx == null ? undefined : operatorOf(mx),
  };
}

/** Many systems put 4.0.0 or 5.0.0 into every report. */
const informativeStatus = (status: string | null): string | null => (status?.endsWith('.0.0') === true ? null : status);

/** Some servers write the enhanced code after the words: `no mailbox here by that name. (#5.1.1)`. */
const embedded = (text: string): string | null => /[#([]([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)/.exec(text)?.[1] ?? null;

function triple(enhanced: string | null): PreparedReply['enhanced'] {
  const [, level, subject, detail] = /^([245])\.(\d{1,3})\.(\d{1,3})$/.exec(enhanced ?? '') ?? [];
  return level === undefined || subject === undefined || detail === undefined ? null : [level, subject, detail];
}

/** Returns the mail operator of this host by the end of its name, or null. */
function operatorOf(mx: string): string | null {
  const host = mx.toLowerCase().replace(/\.$/, '');
  const ends = (domain: string): boolean => host === domain || host.endsWith(`.${domain}`);
  return Object.entries(mailOperators).find(([, domains]) => domains.some(ends))?.[0] ?? null;
}

function compile({ stage, rule }: { stage: string; rule: BounceRule }, index: PhraseIndex): Compiled {
  const { names, enhanced, codes, operators, phases } = rule;
  const text = rule.text === undefined ? null : index.add(rule.text);
  const not = rule.not === undefined ? null : index.add(rule.not);
  const byWords = text !== null || names !== undefined;
  // The shipped rules mean bounce mails that name no phase; an operator who writes `report` means all.
  const isForReports = stage === 'own' && phases?.includes('report') === true;
  const hasWords = (reply: PreparedReply): boolean =>
    (text !== null && reply.found.has(text)) || names?.some((name) => reply.names.includes(name)) === true;
  const restsOnWords =
    stage !== 'own' && stage !== 'operator' && byWords && rule.class === 'hard' && enhanced === undefined;
  return {
    label: `${stage}:${rule.name}`,
    rule,
    byWords,
    fits: (reply) =>
      ((phases?.includes(reply.phase) ?? true) || (isForReports && reply.isReport)) &&
      (codes?.some((code) => isCode(code, reply.code)) ?? true) &&
      (enhanced?.some((pattern) => isEnhanced(pattern, reply.enhanced)) ?? true) &&
      (operators === undefined || isOf(operators, reply.operator)) &&
      (!byWords || hasWords(reply)) &&
      !(restsOnWords && isAboutTheMail(reply)) &&
      (not === null || !reply.found.has(not)),
  };
}

/**
 * True if the enhanced code, or without one that speaks of an address or a mailbox the phase, says that the refusal is about
 * this mail or about who may write. Then words make it hard only by a rule that names its codes, or is one operator's: in
 * such a reply, words of absence or closure mostly tell what the mail or the sender lacks.
 */
function isAboutTheMail({ enhanced, said, phase }: PreparedReply): boolean {
  if (aboutTheMail.some((pattern) => isEnhanced(pattern, said))) return true;
  return (phase === 'data' || phase === 'dot') && !aboutTheMailbox.some((pattern) => isEnhanced(pattern, enhanced));
}

/** RFC 3463: size for the mailbox or the system, the content, security and policy. */
const aboutTheMail = ['x.2.3', 'x.3.4', 'x.6.x', 'x.7.x'];
const aboutTheMailbox = ['x.1.x', 'x.2.x'];

const isOf = (operators: readonly string[], operator: PreparedReply['operator']): boolean =>
  operator === undefined || (operator !== null && operators.includes(operator));

const isCode = (pattern: number | string, code: number | null): boolean =>
  code === null ? pattern === 'none' : pattern === code || pattern === `${String(Math.floor(code / 100))}xx`;

function isEnhanced(pattern: string, enhanced: PreparedReply['enhanced']): boolean {
  if (enhanced === null) return pattern === 'none';
  return pattern.split('.').every((part, i) => part === 'x' || isNumber(part, enhanced[i] ?? ''));
}

/** `6xx` is 600 to 699. */
const isNumber = (pattern: string, number: string): boolean =>
  pattern.length === number.length && number.startsWith(pattern.replaceAll('x', ''));

/** Softens a hard verdict unless the reply was permanent and given when the recipient was known; after DATA, unless the words name the mailbox. */
function soften({ label, rule, byWords }: Compiled, reply: PreparedReply, namesMailbox: () => boolean): Judgement {
  // A server that asks to come back later does not block us.
  const passes = rule.class === 'block' && rule.reason === 'rate_limited' && isTemporary(reply);
  const verdict: Verdict = { class: passes ? 'soft' : rule.class, reason: rule.reason };
  if (rule.class !== 'hard') return judgement(verdict, label, rule, reply);
  if (!isPermanent(reply)) return judgement({ class: 'soft', reason: 'other' }, `${label}@4xx`, rule, reply);
  const { phase } = reply;
  if (phase === 'rcpt' || phase === 'report') return judgement(verdict, label, rule, reply);
  if ((phase === 'data' || phase === 'dot') && (byWords || namesMailbox()))
    return judgement(verdict, label, rule, reply);
  return judgement({ class: 'block', reason: 'policy' }, `${label}@${phase}`, rule, reply);
}

const isTemporary = ({ code, enhanced }: PreparedReply): boolean =>
  code === null ? enhanced?.[0] === '4' : code < 500;

/** A bounce mail without a code reports a mail that was given up. */
function isPermanent({ code, enhanced, phase }: PreparedReply): boolean {
  if (code !== null) return code >= 500;
  return enhanced === null ? phase === 'report' : enhanced[0] === '5';
}

function judgement(verdict: Verdict, rule: string, from: BounceRule, { enhanced }: PreparedReply): Judgement {
  return {
    ...verdict,
    rule,
    suppress: isSuppressing(verdict),
    infrastructure: from.infrastructure ?? (verdict.class === 'block' && enhanced?.[1] === '7'),
    greylisting: from.greylisting ?? false,
  };
}

const { groups, ...stages } = file;

/** A group is a list of words with bars between; in a phrase `{mailbox}` stands for any of them, `[{mailbox}]` for any or none. */
const choices = new Map(Object.entries(groups).map(([name, lines]) => [name, lines.join('|')]));

function expandGroups(phrase: string): string {
  const of = (name: string): string => {
    const found = choices.get(name);
    if (found === undefined) throw new Error(`config/bounce-rules.json: no group ${name}`);
    return found;
  };
  return phrase
    .replace(/\[\{([a-z-]+)\}\]/g, (_, name: string) => `[${of(name)}]`)
    .replace(/\{([a-z-]+)\}/g, (_, name: string) => `(${of(name)})`);
}

/** TypeScript gives JSON files no union types; test/config/bounce-rules.test.ts checks the file against its schema. */
const written = Object.entries(stages) as unknown as [string, readonly BounceRule[]][];

/** The rules in the order of the file: `first`, `veto`, `enhanced`, `operator`, `words`, `fallback`. */
export const shippedRules: readonly { stage: string; rule: BounceRule }[] = written.flatMap(([stage, rules]) =>
  rules.map((rule) => ({
    stage,
    rule: {
      ...rule,
      ...(rule.text === undefined ? {} : { text: rule.text.map(expandGroups) }),
      ...(rule.not === undefined ? {} : { not: rule.not.map(expandGroups) }),
    },
  })),
);

/** The ends of mail host names, by mail operator. */
export const mailOperators: Readonly<Record<string, readonly string[]>> = operators;

/** The start of each line of a reply (RFC 5321 section 4.2). */
const REPLY = /^([45]\d\d)(?:[ -]|$)/;

/**
 * Reads a line into a refusal. A line that begins with a code is a server's reply, to RCPT unless it says otherwise: as in a session, the first code
 * decides, whatever codes of other servers it quotes. Any other line is read as the diagnostic of a bounce mail.
 */
export function readRefusal(line: string, phase: Refusal['phase'] | null = null): Refusal {
  const diagnostic = readDiagnostic(line);
  const code = REPLY.exec(line)?.[1];
  if (code === undefined)
    return { phase: phase ?? 'report', code: diagnostic.code, enhanced: diagnostic.enhanced, text: line };
  const text = line.slice(code.length + 1);
  return { phase: phase ?? diagnostic.phase ?? 'rcpt', code: Number(code), enhanced: enhancedOf([text]), text };
}
