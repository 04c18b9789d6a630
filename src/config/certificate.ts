/** The certificate in use: of `tls.certFile` and `tls.keyFile`, else the installed one, else a self-signed one; read again when files change. */
import { X509Certificate } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { createSecureContext } from 'node:tls';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { replaceFile } from '../base/replace-file.ts';
import { ConfigError, readText } from './load.ts';
import { OWN_CERT_FILE, ownCertificate, type OwnCertificate } from './own-certificate.ts';
import type { Config } from './schema.ts';

export interface Certificate {
  /** PEM, the chain. */
  cert: string;
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

/** Returns the certificate to begin with, and its file; makes one if there is none, or ours is broken. Throws ConfigError if it cannot be used. */
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
  const present = readText(file);
  if (present.kind === 'ok' && present.text === bundle) return false;
  replaceFile(file, bundle, 0o600);
  return true;
}

export type CertificateFacts = ReturnType<typeof describeCertificate>;

/** Describes the first certificate of a PEM text, which is the server's own. Throws if there is none. */
export const certificateFacts = (pem: string): CertificateFacts => describeCertificate(new X509Certificate(pem));

export const describeCertificate = (read: X509Certificate) => ({
  /** The host names and addresses that it is for. */
  names: [...(read.subjectAltName ?? '').matchAll(/(?:DNS|IP Address):([^,\s"]+)/g)].map(([, name = '']) => name),
  /** Organisation and common name of the authority; empty if it has neither. */
  issuer: ['O', 'CN'].flatMap((part) => partOf(read.issuer, part)).join(', '),
  isSelfSigned: read.issuer === read.subject,
  /** Milliseconds since the epoch. */
  notBefore: Date.parse(read.validFrom),
  notAfter: Date.parse(read.validTo),
  /** `rsa`, `ec`, `ed25519`. */
  keyType: read.publicKey.asymmetricKeyType ?? 'unknown',
});

/** Reads one attribute of a name that Node.js writes with one attribute a line. */
const partOf = (name: string, part: string): string[] =>
  name
    .split('\n')
    .filter((line) => line.startsWith(`${part}=`))
    .map((line) => line.slice(part.length + 1));

export interface CertificateState {
  file: string;
  /** PEM, the chain. */
  cert: string;
  /** The reason why the present files cannot be used; the certificate in force is an older one then. */
  fault: string | null;
}

export interface WatchDeps {
  clock: Clock;
  log: Log;
  present: { file: string; certificate: Certificate };
  /** The files of the certificate that should be in force, or null if there are none. */
  files: () => CertificateFiles | null;
}

export type CertificateWatch = ReturnType<typeof watchCertificate>;

const EVERY_MS = 60_000;

/** Takes over a certificate renewed on disk; it looks each minute, as renewers may not signal us. A bad pair is logged once, until it changes. */
export function watchCertificate({ clock, log, present, files }: WatchDeps) {
  let timer: Timer | null = null;
  let changed: (certificate: Certificate) => void = () => undefined;
  let known = textOf(present.certificate);
  let state: CertificateState = { file: present.file, cert: present.certificate.cert, fault: null };

  function wait(): void {
    timer = clock.after(
      EVERY_MS,
      () => {
        look();
        wait();
      },
      { background: true },
    );
  }

  function look(): void {
    const named = files();
    if (named === null) return;
    let certificate: Certificate;
    try {
      certificate = readCertificate(named);
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      if (fault === state.fault) return;
      state = { ...state, fault };
      log.warn(
        { event: 'certificate_unusable', reason: fault },
        'the certificate has changed and cannot be used; the one before stays in force',
      );
      return;
    }
    state = { file: named.certFile, cert: certificate.cert, fault: null };
    if (textOf(certificate) === known) return;
    known = textOf(certificate);
    changed(certificate);
    log.info({ event: 'certificate_renewed' }, 'the certificate was read again');
  }

  return {
    /** Looks every minute from now on, and calls `run` with each certificate that is taken over. */
    start(run: (certificate: Certificate) => void): void {
      changed = run;
      wait();
    },
    look,
    state: () => state,
    stop(): void {
      timer?.cancel();
    },
  };
}

const textOf = ({ cert, key }: Certificate): string => cert + key;
