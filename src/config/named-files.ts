/** Checks the files that settings name, such as the certificate, and the rules that come with the program, before a start. */
import { readBounceRules } from './data-file.ts';
import { certificateFiles, readCertificate } from './certificate.ts';
import { isPostgresUrl, readPostgresUrl } from '../base/postgres-url.ts';
import { readLimitRules } from './limit-rules.ts';
import { ConfigError, readText } from './load.ts';
import { readOperators, readScanners } from './data-file.ts';
import type { Config } from './schema.ts';

/** Reads all files. Throws ConfigError with the mistakes of all of them; the start itself would stop at the first. */
export function checkNamedFiles(config: Config): void {
  const { delivery, tracking, storage } = config;
  const files = certificateFiles(config);
  const authorities = isPostgresUrl(storage.url) ? readPostgresUrl(storage.url).rootCertificate : null;
  const mistakes = [
    () => readIfNamed('storage.passwordFile', storage.passwordFile),
    () => readIfNamed('storage.url (sslrootcert)', authorities),
    () => (files === null ? null : readCertificate(files)),
    () => readBounceRules(delivery.bounceRules),
    () => readOperators(delivery.operatorsFile),
    () => readLimitRules(),
    () => readScanners(tracking.scannersFile),
  ].flatMap(mistakesOf);
  if (mistakes.length > 0) throw new ConfigError(mistakes);
}

function readIfNamed(setting: string, file: string | null): void {
  if (file === null) return;
  const reading = readText(file);
  if (reading.kind === 'ok') return;
  const why = reading.kind === 'absent' ? 'ENOENT' : reading.why;
  throw new ConfigError([`${setting}: expected a readable file: ${why} ${file}`]);
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
