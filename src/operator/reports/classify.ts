/** Classifies replies for the command line, by the operator's rules and the shipped ones, without a server. */
import { readBounceRules } from '../../config/data-file.ts';
import { readLimitRules, rulesWith, type AnswerRules } from '../../config/limit-rules.ts';
import { readOperators, type OperatorTable } from '../../config/data-file.ts';
import type { Config } from '../../config/schema.ts';
import type { ShapingRule } from '../../config/shaping.ts';
import { createJudge, type Judgement, type Refusal } from '../../messages/delivery/classify.ts';
import { readRefusal } from '../../messages/delivery/read-refusal.ts';
import type { Subject } from '../../messages/delivery/delivery.ts';

/** The things that a reply would teach the delivery engine: by mta/limits/explain.ts, which is handed in. */
export interface Teaches {
  about: Subject;
  closes: { after: number; for: readonly number[] } | null;
  rules: readonly Pick<ShapingRule, 'name' | 'action' | 'count' | 'within' | 'for'>[];
}
export type OpenExplainer = (
  answers: AnswerRules,
  shaping: readonly ShapingRule[],
  operators: OperatorTable,
) => Promise<(refusal: Refusal, judged: Judgement) => Teaches | null>;

/** Stands for the engine in a program that has none. */
export const noExplainer: OpenExplainer = () => Promise.resolve(() => null);

/** The classification of one reply, with what it would teach; null for the diagnostic of a bounce mail. Times are in ms. */
export interface Classified extends Pick<Judgement, 'class' | 'reason' | 'rule' | 'suppress'> {
  reply: string;
  about: Subject | null;
  limit: Teaches['closes'];
  /** The rules that count it; `for` is null for one that makes no pause. */
  shaping: readonly (Omit<Teaches['rules'][number], 'for'> & { for: number | null })[];
}

/** Reads the rule files once. Throws ConfigError if one of them has a mistake. */
export async function createLineClassifier(
  { delivery }: Pick<Config, 'delivery'>,
  mx: string | null,
  phase: Refusal['phase'] | null,
  openExplainer: OpenExplainer,
): Promise<(line: string) => Classified> {
  const judge = createJudge(readBounceRules(delivery.bounceRules));
  const rules = readLimitRules();
  const explain = await openExplainer(
    rules.answers,
    rulesWith(rules, delivery.shaping),
    readOperators(delivery.operatorsFile),
  );
  return (reply) => {
    const refusal = { ...readRefusal(reply, phase), mx };
    const judged = judge(refusal);
    const taught = explain(refusal, judged);
    return {
      reply,
      class: judged.class,
      reason: judged.reason,
      rule: judged.rule,
      suppress: judged.suppress,
      about: taught?.about ?? null,
      limit: taught?.closes ?? null,
      shaping: (taught?.rules ?? []).map(({ name, action, count, within, for: ms }) => ({
        name,
        action,
        count,
        within,
        for: action === 'pause' ? ms : null,
      })),
    };
  };
}
