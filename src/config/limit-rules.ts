/** Reads config/limits.yaml: what the engine does about the answers of receivers. */
import { parse } from 'yaml';
import { z } from 'zod';
import { duration } from './kind.ts';
import { readText, shippedFile } from './load.ts';
import { shapingRules, type ShapingRule } from './shaping.ts';

const answer = z.strictObject({
  after: z.int().min(1).max(1000),
  besideSuccess: z.int().min(1).max(1000).optional(),
  close: z.array(duration('1s', '7d').schema).min(1).max(20),
});

const form = z.strictObject({
  answers: z.strictObject({ block_list: answer, sender: answer, load: answer, tls: answer }),
  rules: shapingRules().schema,
});

/** How many answers of a kind in a row close what they are about, and for how long, in ms. */
export type AnswerRule = z.output<typeof answer>;
export type LimitRules = z.output<typeof form>;
export type AnswerRules = LimitRules['answers'];

/** Returns the shipped rules. Throws if the file is not as this version has it. */
export function readLimitRules(): LimitRules {
  const reading = readText(shippedFile('limits.yaml'));
  if (reading.kind !== 'ok') throw new Error('config/limits.yaml cannot be read');
  return form.parse(parse(reading.text));
}

/** Returns the shipped shaping rules and those of the settings, which take the place of one with the same name. */
export const rulesWith = ({ rules }: LimitRules, own: readonly ShapingRule[]): readonly ShapingRule[] => [
  ...rules.filter(({ name }) => !own.some((one) => one.name === name)),
  ...own,
];
