/**
 * What a refusal means, by rules that are data (config/bounce-rules.json; docs/classification.md). The first that fits
 * decides: the operator's own; words that speak of us, of the content or of a passing state, since servers hang `5.1.1` on
 * rate limits and block lists too; the enhanced code (RFC 3463); what single mail operators mean by theirs; the words about
 * the mailbox; the basic code and where it was said. Before RCPT nobody has looked at the recipient yet, so nothing there
 * is `hard`.
 */
import { createPhraseIndex, wordingOf, type PhraseIndex, type Wording } from '../../base/phrase.ts';
import type { BounceRule } from '../../config/bounce-rule.ts';
import { readDiagnostic, withoutCodes } from '../../mail/diagnostic.ts';
import { isSuppressing, type Verdict } from './delivery.ts';
import { mailOperators, shippedRules } from './shipped-rules.ts';

export interface Refusal {
  /** Where in the session it was said; `report` is a bounce mail, whose text may tell phase and codes itself. */
  phase: 'connect' | 'banner' | 'ehlo' | 'tls' | 'auth' | 'mail' | 'rcpt' | 'data' | 'dot' | 'report';
  code: number | null;
  enhanced: string | null;
  text: string;
  /** The host that said it, where known: some mean other things by the same words. */
  mx?: string | null;
}

/** A verdict with its reasons. */
export interface Judgement extends Verdict {
  /** Which rule said so: `veto:spam`. Behind `@`, why a hard verdict was softened: the phase, or `4xx`. */
  rule: string;
  /** Whether the address goes on the suppression list. */
  suppress: boolean;
  /** True where our own set-up is at fault, not the recipient: the operator is warned. */
  infrastructure: boolean;
  /** True for a refusal whose next try will probably pass. */
  greylisting: boolean;
}

export type Judge = (refusal: Refusal) => Judgement;

/** Judges by the operator's rules, then by the shipped ones. */
export function createJudge(own: readonly BounceRule[] = []): Judge {
  const index = createPhraseIndex();
  const rules = [...own.map((rule) => ({ stage: 'own', rule })), ...shippedRules].map((one) => compile(one, index));
  const naming = rules.filter(({ byWords, rule }) => byWords && rule.class === 'hard');
  return (refusal) => {
    const said = heard(refusal, index);
    const found = rules.find((rule) => rule.fits(said));
    // The last rule of the shipped ones fits everything.
    if (found === undefined) throw new Error('no rule fits');
    return guarded(found, said, () => naming.some((rule) => rule.fits({ ...said, phase: 'rcpt' })));
  };
}

let shipped: Judge | null = null;

/** Judges by the shipped rules alone. */
export function judge(refusal: Refusal): Judgement {
  shipped ??= createJudge();
  return shipped(refusal);
}

/** Classifies a refusal (4xx or 5xx), or a failure told in words, by the shipped rules. */
export function classify(refusal: Refusal): Verdict {
  const { class: bounceClass, reason } = judge(refusal);
  return { class: bounceClass, reason };
}

/** A refusal made ready for the rules. */
interface Heard {
  names: Wording['names'];
  /** Numbers of the lists of phrases that were found. */
  found: ReadonlySet<number>;
  phase: Refusal['phase'];
  code: number | null;
  enhanced: readonly [level: string, subject: string, detail: string] | null;
  /** The mail operator whose host said it, null where it is nobody's; undefined where no host is known. */
  operator: string | null | undefined;
}

interface Compiled {
  label: string;
  rule: BounceRule;
  /** Whether words decide, not codes alone. */
  byWords: boolean;
  fits(said: Heard): boolean;
}

/** What stands behind it is not read. */
const LONGEST_TEXT = 2000;

function heard({ phase, code, enhanced, text: whole, mx }: Refusal, index: PhraseIndex): Heard {
  const text = whole.slice(0, LONGEST_TEXT);
  const told = phase === 'report' ? readDiagnostic(text) : null;
  const ownCode = code ?? told?.code ?? null;
  // A report's status is often the reporting system's guess; what the remote said stands in its words.
  const ownEnhanced = told?.enhanced ?? (told === null ? enhanced : telling(enhanced)) ?? embedded(text);
  const { words, names } = wordingOf(withoutCodes(told?.text ?? text, ownCode));
  return {
    names,
    found: index.find(words),
    phase: told?.phase ?? phase,
    code: ownCode,
    enhanced: triple(ownEnhanced),
    operator: mx == null ? undefined : operatorOf(mx),
  };
}

/** Many put 4.0.0 or 5.0.0 in every report. */
const telling = (status: string | null): string | null => (status?.endsWith('.0.0') === true ? null : status);

/** Some write the enhanced code behind the words: `no mailbox here by that name. (#5.1.1)`. */
const embedded = (text: string): string | null => /[#([]([245]\.\d{1,3}\.\d{1,3})(?!\.?\d)/.exec(text)?.[1] ?? null;

function triple(enhanced: string | null): Heard['enhanced'] {
  const [, level, subject, detail] = /^([245])\.(\d{1,3})\.(\d{1,3})$/.exec(enhanced ?? '') ?? [];
  return level === undefined || subject === undefined || detail === undefined ? null : [level, subject, detail];
}

/** The mail operator whose host this is, by the ends of host names, or null. */
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
  const saysIt = (said: Heard): boolean =>
    (text !== null && said.found.has(text)) || names?.some((name) => said.names.includes(name)) === true;
  return {
    label: `${stage}:${rule.name}`,
    rule,
    byWords,
    fits: (said) =>
      (phases?.includes(said.phase) ?? true) &&
      (codes?.some((code) => isCode(code, said.code)) ?? true) &&
      (enhanced?.some((pattern) => isEnhanced(pattern, said.enhanced)) ?? true) &&
      (operators === undefined || isOf(operators, said.operator)) &&
      (!byWords || saysIt(said)) &&
      (not === null || !said.found.has(not)),
  };
}

const isOf = (operators: readonly string[], operator: Heard['operator']): boolean =>
  operator === undefined || (operator !== null && operators.includes(operator));

const isCode = (pattern: number | string, code: number | null): boolean =>
  code === null ? pattern === 'none' : pattern === code || pattern === `${String(Math.floor(code / 100))}xx`;

function isEnhanced(pattern: string, enhanced: Heard['enhanced']): boolean {
  if (enhanced === null) return pattern === 'none';
  return pattern.split('.').every((part, i) => part === 'x' || isNumber(part, enhanced[i] ?? ''));
}

/** `6xx` is 600 to 699. */
const isNumber = (pattern: string, number: string): boolean =>
  pattern.length === number.length && number.startsWith(pattern.replaceAll('x', ''));

/** Hard needs a permanent answer given when the recipient was known; after DATA only if the words name the mailbox. */
function guarded({ label, rule, byWords }: Compiled, said: Heard, namesMailbox: () => boolean): Judgement {
  // Who is told to come back later is not shut out.
  const passes = rule.class === 'block' && rule.reason === 'rate_limited' && isTemporary(said);
  const verdict: Verdict = { class: passes ? 'soft' : rule.class, reason: rule.reason };
  if (rule.class !== 'hard') return judgement(verdict, label, rule, said);
  if (!isPermanent(said)) return judgement({ class: 'soft', reason: 'other' }, `${label}@4xx`, rule, said);
  const { phase } = said;
  if (phase === 'rcpt' || phase === 'report') return judgement(verdict, label, rule, said);
  if ((phase === 'data' || phase === 'dot') && (byWords || namesMailbox()))
    return judgement(verdict, label, rule, said);
  return judgement({ class: 'block', reason: 'policy' }, `${label}@${phase}`, rule, said);
}

const isTemporary = ({ code, enhanced }: Heard): boolean => (code === null ? enhanced?.[0] === '4' : code < 500);

/** A bounce mail that gives no code tells of a mail that was given up. */
function isPermanent({ code, enhanced, phase }: Heard): boolean {
  if (code !== null) return code >= 500;
  return enhanced === null ? phase === 'report' : enhanced[0] === '5';
}

function judgement(verdict: Verdict, rule: string, from: BounceRule, { enhanced }: Heard): Judgement {
  return {
    ...verdict,
    rule,
    suppress: isSuppressing(verdict),
    infrastructure: from.infrastructure ?? (verdict.class === 'block' && enhanced?.[1] === '7'),
    greylisting: from.greylisting ?? false,
  };
}
