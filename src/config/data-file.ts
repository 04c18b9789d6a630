/** Reads data files in YAML: those of the folder `config/` that come with the program, or those that settings name in their place. */
import { z } from 'zod';
import { bounceRuleFile, type BounceRule } from './bounce-rule.ts';
import { ConfigError, readDataFile, readText, shippedFile } from './load.ts';
import { isIp, isNetwork } from './endpoint.ts';
import { isPostgresUrl, readPostgresUrl } from '../base/postgres-url.ts';
import { certificateFiles, readCertificate } from './certificate.ts';
import { readLimitRules, withOwn } from './limit-rules.ts';
import type { Config } from './schema.ts';

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
  const rules: BounceRule[] = [];
  throwMistakes(
    files.map((named) => () => {
      rules.push(...readDataFile(bounceRuleFile, { setting: 'delivery.bounceRules', named }).rules);
    }),
  );
  return rules;
}

/** Reads all files that settings name, such as the certificate, and the rules of the program. Throws ConfigError with the mistakes of all of them. */
export function checkNamedFiles(config: Config): void {
  const { delivery, tracking, storage } = config;
  const files = certificateFiles(config);
  const authorities = isPostgresUrl(storage.url) ? readPostgresUrl(storage.url).rootCertificate : null;
  throwMistakes([
    () => readIfNamed('storage.passwordFile', storage.passwordFile),
    () => readIfNamed('storage.url (sslrootcert)', authorities),
    () => (files === null ? null : readCertificate(files)),
    () => readBounceRules(delivery.bounceRules),
    () => checkMailRules(delivery, readOperators(delivery.operatorsFile)),
    () => readScanners(tracking.scannersFile),
  ]);
}

/** Throws ConfigError for each rule for mail that names an operator or a source which does not exist: it would match nothing. */
function checkMailRules(
  { sources, limits }: Pick<Config['delivery'], 'sources' | 'limits'>,
  operators: readonly { name: string }[],
): void {
  const known = { operator: operators.map((one) => one.name), source: sources.map((one) => one.name) };
  const mistakes = withOwn(readLimitRules().limits, limits).flatMap(({ name, match }) =>
    (['operator', 'source'] as const).flatMap((what) => {
      const named = match[what];
      if (named === undefined || known[what].includes(named)) return [];
      const where = limits.some((own) => own.name === name) ? 'delivery.limits' : shippedFile('limits.yaml');
      return [`${where}: ${name}: match.${what}: expected the name of one, found "${named}"`];
    }),
  );
  if (mistakes.length > 0) throw new ConfigError(mistakes);
}

function readIfNamed(setting: string, file: string | null): void {
  if (file === null) return;
  const reading = readText(file);
  if (reading.kind === 'ok') return;
  const why = reading.kind === 'absent' ? 'ENOENT' : reading.why;
  throw new ConfigError([`${setting}: expected a readable file: ${why} ${file}`]);
}

/** Runs all of these. Throws ConfigError with the mistakes of all that throw one. */
function throwMistakes(reads: readonly (() => unknown)[]): void {
  const mistakes = reads.flatMap((read) => {
    try {
      read();
      return [];
    } catch (error) {
      if (error instanceof ConfigError) return error.mistakes;
      throw error;
    }
  });
  if (mistakes.length > 0) throw new ConfigError(mistakes);
}
