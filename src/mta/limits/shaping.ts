/**
 * Shaping rules: a number of replies of a kind from one lane within a time, and the lane is slowed down, rests for a while, or the
 * operator is warned. Pure: time is handed in.
 */
import type { ShapingRule } from '../../config/shaping.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';

/** A rule of the settings as they are held, with its pattern ready. */
type Rule = DeepReadonly<ShapingRule>;
type DeepReadonly<T> = { readonly [K in keyof T]: T[K] extends object ? DeepReadonly<T[K]> : T[K] };
export type CompiledRule = Rule & { readonly text: RegExp | null };

export const compileRules = (rules: readonly Rule[]): CompiledRule[] =>
  rules.map((rule) => ({ ...rule, text: rule.match.text === undefined ? null : new RegExp(rule.match.text, 'i') }));

/** The times at which each rule of a lane matched lately, by the index of the rule. */
export type ShapingMemory = Map<number, number[]>;

/** A rule whose threshold was reached. */
export interface Fired {
  rule: CompiledRule;
  /** The reply that reached the threshold. */
  reply: string;
}

/** Characters of a reply that are read; a hostile one may be long. */
const LOOKED_AT = 500;

/** Counts an outcome of a lane; returns the rules whose threshold it reaches. These begin to count again from 0. */
export function shape(
  rules: readonly CompiledRule[],
  memory: ShapingMemory,
  operator: string | null,
  outcome: Outcome,
  now: number,
): Fired[] {
  if (outcome.kind === 'accepted' || outcome.kind === 'failed') return [];
  const reply = (outcome.facts.smtpReply ?? '').slice(0, LOOKED_AT);
  return rules.flatMap((rule, at) => {
    if (!matches(rule, operator, outcome, reply)) return [];
    const times = (memory.get(at) ?? []).filter((time) => time > now - rule.within);
    times.push(now);
    memory.set(at, times.length >= rule.count ? [] : times);
    return times.length >= rule.count ? [{ rule, reply }] : [];
  });
}

function matches({ match, text }: CompiledRule, operator: string | null, outcome: Outcome, reply: string): boolean {
  const { facts } = outcome;
  const verdict = 'verdict' in outcome ? outcome.verdict : null;
  if (match.class !== undefined && verdict?.class !== match.class) return false;
  if (match.reason !== undefined && verdict?.reason !== match.reason) return false;
  if (match.code !== undefined && !codeMatches(match.code, facts.smtpCode, facts.enhancedCode)) return false;
  if (text !== null && !text.test(reply)) return false;
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
