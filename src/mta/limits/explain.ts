/** Says what a reply would teach the engine: what it is about, the limit that follows and the shaping rules that count it. Pure. */
import type { AnswerRules } from '../../config/limit-rules.ts';
import type { Judgement, Refusal } from '../../messages/delivery/classify.ts';
import type { Subject } from '../../messages/delivery/delivery.ts';
import { subjectOf } from '../attempt/subject.ts';
import { operatorOf, type MailOperator } from '../sites/operators.ts';
import { isAboutOne } from './learn.ts';
import { compileRules, matches, type CompiledRule } from './shaping.ts';

export interface Teaches {
  about: Subject;
  /** Closes after so many in a row, for these times in ms; null if it closes nothing. */
  closes: { after: number; for: readonly number[] } | null;
  rules: readonly CompiledRule[];
}

/** Returns a function that explains replies of a host; a diagnostic of a bounce mail, which teaches nothing, gives null. */
export function createExplainer(
  answers: AnswerRules,
  shaping: Parameters<typeof compileRules>[0],
  operators: readonly MailOperator[],
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
    };
  };
}
