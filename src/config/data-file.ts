/** Reads a data file in YAML: one of the folder `config/` that comes with the program, or one that a setting names in its place. */
import { parse } from 'yaml';
import { z } from 'zod';
import { bounceRuleFile, type BounceRule } from './bounce-rule.ts';
import { ConfigError, readText, shippedFile } from './load.ts';
import { isIp, isNetwork } from './endpoint.ts';

/**
 * Reads `named`, or the shipped file if it is null. Throws ConfigError with a line for each mistake, which begins with `setting` (null for a
 * file that no setting names) and the file.
 */
export function readDataFile<T>(
  form: z.ZodType<T>,
  { setting, named, shipped = '' }: { setting: string | null; named: string | null; shipped?: string },
): T {
  const file = named ?? shippedFile(shipped);
  const fault = (...mistakes: string[]): ConfigError =>
    new ConfigError(mistakes.map((one) => [...(setting === null ? [] : [setting]), file, one].join(': ')));
  const reading = readText(file);
  if (reading.kind !== 'ok') throw fault(reading.kind === 'bad' ? reading.why : 'no such file');
  let tree: unknown;
  try {
    tree = parse(reading.text);
  } catch (error) {
    throw fault(error instanceof Error ? (error.message.split('\n')[0] ?? '') : 'unreadable');
  }
  const result = form.safeParse(tree);
  if (result.success) return result.data;
  throw fault(...result.error.issues.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`));
}

const name = z
  .string()
  .max(253)
  .regex(/^[a-z0-9-]+(?:\.[a-z0-9-]+)+$/);
const table = z
  .array(
    z.strictObject({
      name: z.string().regex(/^[a-z][a-z0-9-]{0,30}$/),
      mx: z.array(name).min(1).max(100),
      maxConnections: z.int().min(1).max(1000).optional(),
      messagesPerConnection: z.int().min(1).max(100_000).optional(),
    }),
  )
  .max(1000);

export type OperatorTable = z.output<typeof table>;

/** Reads `file`, or the shipped table if it is null. Throws ConfigError with the faults. */
export const readOperators = (file: string | null): OperatorTable =>
  readDataFile(table, { setting: 'delivery.operatorsFile', named: file, shipped: 'operators.yaml' });

const text = z.string().max(500);

const ScannerRule = z
  .strictObject({
    name: text.min(1),
    bot: z.enum(['apple_mpp', 'gmail_proxy', 'scanner', 'prefetch']),
    for: z.enum(['open', 'click', 'both']).default('both'),
    networks: z
      .array(text.refine((one) => isIp(one) || isNetwork(one), { error: 'expected an address or a CIDR range' }))
      .max(10_000)
      .default([]),
    agents: z.array(text.min(3)).max(1000).default([]),
    exactly: z.array(text).max(1000).default([]),
  })
  .refine(({ networks, agents, exactly }) => networks.length + agents.length + exactly.length > 0, {
    error: 'a rule needs networks, agents or exactly',
  });

/** One kind of machine, recognized by one of its networks or agents. */
export type ScannerRule = Readonly<z.output<typeof ScannerRule>>;

/** Reads the rules of `file`, or the shipped ones if it is null. Throws ConfigError with a line for each mistake. */
export const readScanners = (file: string | null): ScannerRule[] =>
  readDataFile(z.array(ScannerRule).max(1000), {
    setting: 'tracking.scannersFile',
    named: file,
    shipped: 'scanners.yaml',
  });

/** Reads the operator's own classification rules in the order of the files, at the start and at a reload. Throws ConfigError with every mistake. */
export function readBounceRules(files: readonly string[]): BounceRule[] {
  const mistakes: string[] = [];
  const rules = files.flatMap((named) => {
    try {
      return readDataFile(bounceRuleFile, { setting: 'delivery.bounceRules', named }).rules;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      mistakes.push(...error.mistakes);
      return [];
    }
  });
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  return rules;
}
