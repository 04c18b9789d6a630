/** What the program would make of a reply, for who asks from the shell: by the operator's rules and the shipped ones, without a server. */
import { readBounceRules } from '../config/bounce-rules.ts';
import { readDiagnostic } from '../mail/diagnostic.ts';
import { createJudge, type Judgement, type Refusal } from '../messages/classify.ts';

/** One line of the answer. */
export interface Classified extends Pick<Judgement, 'class' | 'reason' | 'rule' | 'suppress'> {
  reply: string;
}

/** Reads the rule files once. Throws ConfigError where one of them is wrong. */
export function createLineClassifier(
  files: readonly string[],
  mx: string | null,
  phase: Refusal['phase'] | null,
): (line: string) => Classified {
  const judge = createJudge(readBounceRules(files));
  return (reply) => {
    const { class: bounceClass, reason, rule, suppress } = judge({ ...refusalOf(reply, phase), mx });
    return { reply, class: bounceClass, reason, rule, suppress };
  };
}

/** A reply as a server gives it is taken for one to RCPT; what only quotes one is read as in a bounce mail. */
function refusalOf(line: string, phase: Refusal['phase'] | null): Refusal {
  const { code, enhanced, text, phase: told } = readDiagnostic(line);
  const isReply = /^[45]\d\d(?:[ -]|$)/.test(line);
  return isReply
    ? { phase: phase ?? told ?? 'rcpt', code, enhanced, text: text.slice(4) }
    : { phase: phase ?? told ?? 'report', code, enhanced, text: line };
}
