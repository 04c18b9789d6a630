/** Shaping rules: so many replies of a kind from one lane within a time slow it down, let it rest, or warn the operator. Pure: time is handed in. */
import type { AnswerRules } from '../../config/limit-rules.ts';
import type { MailRule } from '../../config/mail-rules.ts';
import type { ShapingRule } from '../../config/shaping.ts';
import type { Judgement, Refusal } from '../../messages/delivery/classify.ts';
import type { Outcome, Verdict, Subject } from '../../messages/delivery/delivery.ts';
import { subjectOf } from '../attempt/subject.ts';
import { isAboutOne } from './learn.ts';
import { operatorOf, type MailOperator } from '../sites/sites.ts';

/** A rule of the settings as they are held, with its pattern ready. */
type Rule = DeepReadonly<ShapingRule>;
type DeepReadonly<T> = { readonly [K in keyof T]: T[K] extends object ? DeepReadonly<T[K]> : T[K] };
export type CompiledRule = Rule & { readonly text: RegExp | null };

export const compileRules = (rules: readonly Rule[]): CompiledRule[] =>
  rules.map((rule) => ({ ...rule, text: rule.match.text === undefined ? null : new RegExp(rule.match.text, 'i') }));

/** The times at which each rule of a lane matched lately, by the index of the rule and the recipient domain. Those that began to count first are first. */
export type ShapingMemory = Map<string, number[]>;

/** The operator that answers, and the only recipient domain that the answer is about; null for all. */
export interface Answerer {
  operator: string | null;
  domain: string | null;
}

export interface Fired {
  rule: CompiledRule;
  reply: string;
}

export interface MatchedReply {
  code: number | null;
  enhanced: string | null;
  text: string;
  verdict: Verdict | null;
}

/** Characters of a reply that are read; a hostile one may be long. */
const LOOKED_AT = 500;
const MOST_COUNTS = 1_000;

/** Counts an outcome of a lane; returns the rules whose threshold it reaches. These begin to count again from 0. */
export function shape(
  rules: readonly CompiledRule[],
  memory: ShapingMemory,
  { operator, domain }: Answerer,
  outcome: Outcome,
  now: number,
): Fired[] {
  if (outcome.kind === 'accepted' || outcome.kind === 'failed') return [];
  const { smtpCode: code, enhancedCode: enhanced, smtpReply } = outcome.facts;
  const text = (smtpReply ?? '').slice(0, LOOKED_AT);
  const reply = { code, enhanced, text, verdict: 'verdict' in outcome ? outcome.verdict : null };
  return rules.flatMap((rule, at) => {
    // The connections of a lane are those of all its domains.
    if ((domain !== null && rule.action === 'slow') || !matches(rule, operator, reply)) return [];
    const key = `${String(at)} ${domain ?? ''}`;
    const times = (memory.get(key) ?? []).filter((time) => time > now - rule.within);
    times.push(now);
    if (times.length < rule.count) count(memory, key, times);
    else memory.delete(key);
    return times.length >= rule.count ? [{ rule, reply: text }] : [];
  });
}

function count(memory: ShapingMemory, key: string, times: number[]): void {
  memory.set(key, times);
  if (memory.size <= MOST_COUNTS) return;
  for (const first of memory.keys()) {
    memory.delete(first);
    return;
  }
}

/** Returns whether a rule is about this reply; `operator` is null for a host that is in no table. */
export function matches(
  { match, text }: CompiledRule,
  operator: string | null,
  { code, enhanced, text: said, verdict }: MatchedReply,
): boolean {
  if (match.class !== undefined && verdict?.class !== match.class) return false;
  if (match.reason !== undefined && verdict?.reason !== match.reason) return false;
  if (match.code !== undefined && !codeMatches(match.code, code, enhanced)) return false;
  if (text !== null && !text.test(said.slice(0, LOOKED_AT))) return false;
  return match.operator === undefined || match.operator === operator;
}

/** `421`, `4xx`, `5.7.1` or `4.7.x`. */
function codeMatches(wanted: string, code: number | null, enhanced: string | null): boolean {
  const given = wanted.includes('.') ? enhanced : code === null ? null : String(code);
  if (given === null) return false;
  return wanted.includes('.')
    ? wanted.endsWith('.x')
      ? given.startsWith(wanted.slice(0, -1))
      : given === wanted
    : wanted.endsWith('xx')
      ? given.startsWith(wanted[0] ?? ' ')
      : given === wanted;
}

export interface Teaches {
  about: Subject;
  /** Closes after so many in a row, for these times in ms; null if it closes nothing. */
  closes: { after: number; for: readonly number[] } | null;
  rules: readonly CompiledRule[];
  /** The rules for mail that hold at this host, whatever it answers. */
  limits: readonly MailRule[];
}

/** Returns a function that explains replies of a host; a diagnostic of a bounce mail, which teaches nothing, gives null. */
export function createExplainer(
  answers: AnswerRules,
  shaping: Parameters<typeof compileRules>[0],
  operators: readonly MailOperator[],
  limits: readonly MailRule[],
): (refusal: Refusal, judged: Judgement) => Teaches | null {
  const rules = compileRules(shaping);
  return (refusal, judged) => {
    if (refusal.phase === 'report') return null;
    const about = subjectOf(refusal, judged);
    const answer = about in answers ? answers[about as keyof AnswerRules] : null;
    const operator = refusal.mx == null ? null : (operatorOf([refusal.mx], operators)?.name ?? null);
    const reply = { ...refusal, verdict: judged };
    return {
      about,
      closes: answer === null ? null : { after: answer.after, for: answer.close },
      rules: isAboutOne(about) ? [] : rules.filter((rule) => matches(rule, operator, reply)),
      limits: limits.filter(({ match }) => match.operator === undefined || match.operator === operator),
    };
  };
}
