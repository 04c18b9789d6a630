/** Classifies replies for the command line, by the operator's rules and the shipped ones, without a server. */
import { readBounceRules } from '../../config/bounce-rules.ts';
import { createJudge, type Judgement, type Refusal } from '../../messages/delivery/classify.ts';
import { readRefusal } from '../../messages/delivery/read-refusal.ts';

/** The classification of one reply. */
export interface Classified extends Pick<Judgement, 'class' | 'reason' | 'rule' | 'suppress'> {
  reply: string;
}

/** Reads the rule files once. Throws ConfigError if one of them has a mistake. */
export function createLineClassifier(
  files: readonly string[],
  mx: string | null,
  phase: Refusal['phase'] | null,
): (line: string) => Classified {
  const judge = createJudge(readBounceRules(files));
  return (reply) => {
    const { class: bounceClass, reason, rule, suppress } = judge({ ...readRefusal(reply, phase), mx });
    return { reply, class: bounceClass, reason, rule, suppress };
  };
}
