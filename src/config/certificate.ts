/** The certificate that `tls.certFile` and `tls.keyFile` name, read at start and again at a reload. */
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { ConfigError } from './load.ts';

export interface Certificate {
  /** PEM, the chain. */
  cert: string;
  /** PEM. */
  key: string;
}

/** Throws ConfigError if a file cannot be read, or if the two do not belong together. */
export function readCertificate(files: { readonly certFile: string; readonly keyFile: string }): Certificate {
  const certificate = { cert: readPem('tls.certFile', files.certFile), key: readPem('tls.keyFile', files.keyFile) };
  try {
    createSecureContext(certificate);
  } catch (error) {
    throw new ConfigError([`tls.keyFile: expected the key of the certificate in tls.certFile: ${messageOf(error)}`]);
  }
  return certificate;
}

function readPem(setting: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new ConfigError([`${setting}: expected a readable file: ${messageOf(error)}`]);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
