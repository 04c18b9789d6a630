/**
 * The certificate in use: that of `tls.certFile` and `tls.keyFile`, else the one that was installed, else one signed by itself. It is
 * read at the start and again whenever its files change.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { ConfigError, readText } from './load.ts';
import { OWN_CERT_FILE, ownCertificate, type OwnCertificate } from './own-certificate.ts';
import path from 'node:path';
import type { Config } from './schema.ts';
import { replaceFile } from './replace-file.ts';

export interface Certificate {
  /** PEM, the chain. */
  cert: string;
  /** PEM. */
  key: string;
}

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** True for the one file that `posthorn tls install` writes: no setting names it. */
  readonly isInstalled?: true;
}

/** Returns the files of the settings, or that of the installed certificate, or null if there is neither. */
export function certificateFiles({ tls, dataDir }: Pick<Config, 'tls' | 'dataDir'>): CertificateFiles | null {
  if (tls !== null) return tls;
  const installed = installedFile(dataDir);
  return existsSync(installed) ? { certFile: installed, keyFile: installed, isInstalled: true } : null;
}

/**
 * Returns the certificate to begin with, and its file. Makes one if there is none, and makes ours again if it is broken. Throws ConfigError if it cannot be used.
 */
export function presentCertificate(
  config: Pick<Config, 'tls' | 'dataDir' | 'smtp'>,
  now: number,
): { file: string } & OwnCertificate {
  const files = certificateFiles(config);
  if (files !== null) return { file: files.certFile, certificate: readCertificate(files), broken: null };
  const { dataDir, smtp } = config;
  return { file: path.join(dataDir, OWN_CERT_FILE), ...ownCertificate(dataDir, smtp.hostname, now) };
}

/** Returns the names that clients expect: that of SMTP, and that of the API if HTTPS ends here. */
export function certificateNames({ smtp, http }: Pick<Config, 'smtp' | 'http'>): string[] {
  const web = http.tls ? [new URL(http.publicUrl).hostname] : [];
  return [...new Set([smtp.hostname, ...web.filter((host) => /[a-z]/i.test(host) && !host.startsWith('['))])];
}

/** Throws ConfigError if a file cannot be read, or if the two do not belong together. */
export function readCertificate(files: CertificateFiles): Certificate {
  const certificate = { cert: readPem(files, 'certFile'), key: readPem(files, 'keyFile') };
  try {
    createSecureContext(certificate);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const expected =
      files.isInstalled === true
        ? `${files.certFile}: expected a certificate and its key, as \`posthorn tls install\` writes them (run it again, or remove the file)`
        : 'tls.keyFile: expected the key of the certificate in tls.certFile';
    throw new ConfigError([`${expected}: ${why}`]);
  }
  return certificate;
}

function readPem(files: CertificateFiles, member: 'certFile' | 'keyFile'): string {
  const file = files[member];
  const reading = readText(file);
  if (reading.kind === 'ok') return reading.text;
  const why = reading.kind === 'absent' ? 'ENOENT' : reading.why;
  throw new ConfigError([
    files.isInstalled === true
      ? `${file}: expected a file that the user of the service can read: ${why}`
      : `tls.${member}: expected a readable file: ${why} ${file}${cureOf(why)}`,
  ]);
}

/** Certificates of certbot and others are readable for root only, and the service is not root. */
const cureOf = (why: string): string =>
  why === 'EACCES'
    ? ' (the service is not root; remove tls.certFile and tls.keyFile, and run as root: posthorn tls install --cert FILE --key FILE)'
    : '';

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
