/** Reads the operator's own classification rules (`delivery.bounceRules`), at the start and at a reload. */
import type { z } from 'zod';
import { parseDocument } from 'yaml';
import { valueAt } from '../base/schema-path.ts';
import { bounceRuleFile, type BounceRule } from './bounce-rule.ts';
import { ConfigError, readText } from './load.ts';

/** Returns the rules of all files, in their order. Throws ConfigError with every mistake. */
export function readBounceRules(files: readonly string[]): BounceRule[] {
  const read = files.map(readRuleFile);
  const mistakes = read.flatMap((file) => file.mistakes);
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  return read.flatMap((file) => file.rules);
}

interface RuleFile {
  rules: readonly BounceRule[];
  mistakes: readonly string[];
}

function readRuleFile(file: string): RuleFile {
  const reading = readText(file);
  if (reading.kind !== 'ok') {
    const why = reading.kind === 'absent' ? 'found none' : reading.why;
    return withMistakes(file, ['expected a readable file of rules: ' + why]);
  }
  const document = parseDocument(reading.text, { prettyErrors: true });
  const faults = document.errors.map(({ message }) => message.split('\n')[0] ?? message);
  if (faults.length > 0) return withMistakes(file, faults);
  const written: unknown = treeOf(document);
  const checked = bounceRuleFile.safeParse(written);
  return checked.success
    ? { rules: checked.data.rules, mistakes: [] }
    : withMistakes(
        file,
        checked.error.issues.map((issue) => mistakeOf(issue, written)),
      );
}

const withMistakes = (file: string, mistakes: readonly string[]): RuleFile => ({
  rules: [],
  mistakes: mistakes.map((mistake) => `delivery.bounceRules: ${file}: ${mistake}`),
});

/** Too many aliases give a text, which the schema refuses. */
function treeOf(document: ReturnType<typeof parseDocument>): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    return 'too many aliases';
  }
}

/** Writes a mistake: `rules[3] (no-such-user) text: expected a phrase (...)`. */
function mistakeOf(issue: z.core.$ZodIssue, written: unknown): string {
  const [, index] = issue.path;
  const name = typeof index === 'number' ? valueAt(written, ['rules', index, 'name']) : undefined;
  const rule =
    typeof index === 'number'
      ? `rules[${String(index)}]${typeof name === 'string' ? ` (${name.slice(0, 64)})` : ''}`
      : '';
  const member = issue.path
    .slice(2)
    .map((step) => (typeof step === 'number' ? `[${String(step)}]` : ` ${String(step)}`))
    .join('');
  const where = `${rule}${member}`.trim();
  const what = issue.code === 'unrecognized_keys' ? `unknown ${issue.keys.join(', ')}` : `expected ${issue.message}`;
  return where === '' ? what : `${where}: ${what}`;
}
