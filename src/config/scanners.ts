/** Reads the rules that tell machines from people in tracked mail: a data file, checked at the start. */
import { parse } from 'yaml';
import { z } from 'zod';
import { isIp, isNetwork } from './endpoint.ts';
import { ConfigError, readText, shippedFile } from './load.ts';

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
export function readScanners(named: string | null): ScannerRule[] {
  const file = named ?? shippedFile('scanners.yaml');
  const result = z.array(ScannerRule).max(1000).safeParse(treeOf(file));
  if (result.success) return result.data;
  throw new ConfigError(
    result.error.issues.map(({ path: where, message }) =>
      mistakeLine(file, `${where.map(String).join('.')}: ${message}`),
    ),
  );
}

const mistakeLine = (file: string, what: string): string => `tracking.scannersFile: ${file}: ${what}`;

function treeOf(file: string): unknown {
  const reading = readText(file);
  if (reading.kind !== 'ok')
    throw new ConfigError([mistakeLine(file, reading.kind === 'bad' ? reading.why : 'no such file')]);
  try {
    return parse(reading.text) as unknown;
  } catch (error) {
    throw new ConfigError([
      mistakeLine(file, error instanceof Error ? (error.message.split('\n')[0] ?? '') : 'unreadable'),
    ]);
  }
}
