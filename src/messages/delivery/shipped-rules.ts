/** The rules that come with the program, in the order in which they are asked. Plain data: files of config/, built in. */
import file from '../../../config/bounce-rules.json' with { type: 'json' };
import operators from '../../../config/operators.json' with { type: 'json' };
import type { BounceRule } from '../../config/bounce-rule.ts';

export interface StagedRule {
  stage: string;
  rule: BounceRule;
}

const { groups, ...stages } = file;

/** A group is written in lines of words with bars between; `{mailbox}` in a phrase is any of them, `[{mailbox}]` any or none. */
const choices = new Map(Object.entries(groups).map(([name, lines]) => [name, lines.join('|')]));

function spelledOut(phrase: string): string {
  const of = (name: string): string => {
    const found = choices.get(name);
    if (found === undefined) throw new Error(`config/bounce-rules.json: no group ${name}`);
    return found;
  };
  return phrase
    .replace(/\[\{([a-z-]+)\}\]/g, (_, name: string) => `[${of(name)}]`)
    .replace(/\{([a-z-]+)\}/g, (_, name: string) => `(${of(name)})`);
}

/** The type of a JSON file knows no unions; test/config/bounce-rules.test.ts holds the file to its schema. */
const written = Object.entries(stages) as unknown as [string, readonly BounceRule[]][];

/** In the order of the file: `first`, `veto`, `enhanced`, `operator`, `words`, `fallback`. */
export const shippedRules: readonly StagedRule[] = written.flatMap(([stage, rules]) =>
  rules.map((rule) => ({
    stage,
    rule: {
      ...rule,
      ...(rule.text === undefined ? {} : { text: rule.text.map(spelledOut) }),
      ...(rule.not === undefined ? {} : { not: rule.not.map(spelledOut) }),
    },
  })),
);

/** Ends of the names of mail hosts, by the operator they belong to. */
export const mailOperators: Readonly<Record<string, readonly string[]>> = operators;
