/** Reads the rules that tell machines from people in tracked mail: a data file, checked at the start. */
import { z } from 'zod';
import { readDataFile } from './data-file.ts';
import { isIp, isNetwork } from './endpoint.ts';

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
