/**
 * The certificate that `posthorn tls install` has put into the data folder. Chain and key are in one file, so that a renewal replaces
 * both at the same instant and no reader sees the certificate of one with the key of the other.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { replaceFile } from './replace-file.ts';

export const installedFile = (dataDir: string): string => path.join(dataDir, 'tls.pem');

/** Writes the file if its text differs; returns whether it did. Throws if the folder cannot be written. */
export function installCertificate(dataDir: string, bundle: string): boolean {
  const file = installedFile(dataDir);
  if (textOf(file) === bundle) return false;
  replaceFile(file, bundle, 0o600);
  return true;
}

function textOf(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null; // it is written, and that reports what is wrong with the folder
  }
}
