/** The rules that come with the program, in the order in which they are asked. Plain data: files of config/, built in. */
import rules from '../../config/bounce-rules.json' with { type: 'json' };
import operators from '../../config/operators.json' with { type: 'json' };
import type { BounceRule } from '../config/bounce-rule.ts';

export interface StagedRule {
  stage: string;
  rule: BounceRule;
}

/** The type of a JSON file knows no unions; test/config/bounce-rules.test.ts holds the file to its schema. */
const stages = rules as unknown as Readonly<Record<string, readonly BounceRule[]>>;

/** In the order of the file: `first`, `veto`, `enhanced`, `operator`, `words`, `fallback`. */
export const shippedRules: readonly StagedRule[] = Object.entries(stages).flatMap(([stage, list]) =>
  list.map((rule) => ({ stage, rule })),
);

/** Ends of the names of mail hosts, by the operator they belong to. */
export const mailOperators: Readonly<Record<string, readonly string[]>> = operators;
