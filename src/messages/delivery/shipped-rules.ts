/** The shipped classification rules, in the order in which they are asked. Plain data: files of config/, built in. */
import file from '../../../config/bounce-rules.json' with { type: 'json' };
import operators from '../../../config/operators.json' with { type: 'json' };
import type { BounceRule } from '../../config/bounce-rule.ts';

export interface StagedRule {
  stage: string;
  rule: BounceRule;
}

const { groups, ...stages } = file;

/**
 * A group is a list of words with bars between; in a phrase `{mailbox}` stands for any of them, `[{mailbox}]` for any or none.
 */
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
export const shippedRules: readonly StagedRule[] = written.flatMap(([stage, rules]) =>
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
