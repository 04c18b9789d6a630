/** Checks the files that settings name, such as the certificate, before a start. */
import { readBounceRules } from './bounce-rules.ts';
import { certificateFiles, readCertificate } from './certificate.ts';
import { ConfigError } from './load.ts';
import { readOperators } from './operators.ts';
import { readScanners } from './scanners.ts';
import type { Config } from './schema.ts';

/** Reads all files. Throws ConfigError with the mistakes of all of them; the start itself would stop at the first. */
export function checkNamedFiles(config: Config): void {
  const { delivery, tracking } = config;
  const files = certificateFiles(config);
  const mistakes = [
    () => (files === null ? null : readCertificate(files)),
    () => readBounceRules(delivery.bounceRules),
    () => readOperators(delivery.operatorsFile),
    () => readScanners(tracking.scannersFile),
  ].flatMap(mistakesOf);
  if (mistakes.length > 0) throw new ConfigError(mistakes);
}

function mistakesOf(read: () => unknown): readonly string[] {
  try {
    read();
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes;
    throw error;
  }
}
