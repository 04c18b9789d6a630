/** Reads config/limits.yaml: what the engine does about the answers of receivers, and rules for mail. */
import { z } from 'zod';
import { readDataFile } from './load.ts';
import { duration } from './kind.ts';
import { mailRules } from './mail-rules.ts';
import { shapingRules } from './shaping.ts';

const answer = z.strictObject({
  after: z.int().min(1).max(1000),
  besideSuccess: z.int().min(1).max(1000).optional(),
  close: z.array(duration('1s', '7d').schema).min(1).max(20),
});

const form = z.strictObject({
  answers: z.strictObject({ block_list: answer, sender: answer, load: answer, tls: answer }),
  rules: shapingRules().schema,
  limits: mailRules().schema,
});

/** How many answers of a kind in a row close what they are about, and for how long, in ms. */
export type AnswerRule = z.output<typeof answer>;
export type AnswerRules = z.output<typeof form>['answers'];

/** Reads the shipped rules, or `file`. Throws ConfigError with a line for each mistake. */
export const readLimitRules = (file: string | null = null): z.output<typeof form> =>
  readDataFile(form, { setting: null, named: file, shipped: 'limits.yaml' });

/** Returns the rules of the settings, then the shipped ones but those with the name of one of them. */
export const withOwn = <Rule extends { name: string }>(shipped: readonly Rule[], own: readonly Rule[]): Rule[] => [
  ...own,
  ...shipped.filter(({ name }) => !own.some((one) => one.name === name)),
];
