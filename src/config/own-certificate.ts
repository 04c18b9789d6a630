/**
 * The self-signed certificate of an installation without one: made at the first start and stored in the data folder while its
 * name is right and it has not expired.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { isMissing } from '../base/error-code.ts';
import { replaceFile } from './replace-file.ts';
import { makeSelfSigned } from './self-signed.ts';
import type { Certificate } from './certificate.ts';

/** Its file name in the data folder. */
export const OWN_CERT_FILE = 'self-signed-cert.pem';
const KEY_FILE = 'self-signed-key.pem';

export interface OwnCertificate {
  certificate: Certificate;
  /** Why the stored one could not be used and was made again; null if it could. */
  broken: string | null;
}

/**
 * Reads the certificate, or makes a new one if it is missing, broken, expired, or for another host name. Throws if the folder cannot be
 * read or written.
 */
export function ownCertificate(dataDir: string, hostname: string, now: number): OwnCertificate {
  const certFile = path.join(dataDir, OWN_CERT_FILE);
  const keyFile = path.join(dataDir, KEY_FILE);
  const stored = read(certFile, keyFile);
  const broken = stored === null ? null : faultOf(stored, certFile, keyFile);
  if (stored !== null && broken === null && !isOld(stored.cert, hostname, now)) return { certificate: stored, broken };
  const made = makeSelfSigned(hostname, now);
  // After a power cut in between the pair does not match, and is made again.
  replaceFile(keyFile, made.key, 0o600);
  replaceFile(certFile, made.cert, 0o644);
  return { certificate: made, broken };
}

/** Returns null if one of the files is missing. */
function read(certFile: string, keyFile: string): Certificate | null {
  try {
    return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
  } catch (error) {
    if (!isMissing(error)) throw error;
    return null;
  }
}

/** Returns why our pair cannot be used, or null. Of a certificate that we did not make the key is not looked at: it is never replaced. */
function faultOf({ cert, key }: Certificate, certFile: string, keyFile: string): string | null {
  const certificate = parsed(() => new X509Certificate(cert));
  if (certificate === null) return `${certFile} is not a certificate`;
  if (ownName(certificate) === null) return null;
  const privateKey = parsed(() => createPrivateKey(key));
  if (privateKey === null) return `${keyFile} is not a key`;
  return certificate.checkPrivateKey(privateKey) ? null : `${keyFile} is not the key of ${certFile}`;
}

function parsed<T>(parse: () => T): T | null {
  try {
    return parse();
  } catch {
    return null; // the caller says which file
  }
}

/** Returns the host name of a certificate that we have made, null for another one. */
function ownName({ issuer, subject, subjectAltName }: X509Certificate): string | null {
  const own = /^DNS:([^,\s]+)$/.exec(subjectAltName ?? '')?.[1];
  return issuer === subject && own !== undefined && subject === `CN=${own.slice(0, 64)}` ? own : null;
}

/**
 * Returns whether our certificate must be replaced: the first start comes before the name is set, and on a machine without a
 * battery perhaps in 1970. A certificate that we did not make is never replaced.
 */
function isOld(cert: string, hostname: string, now: number): boolean {
  const certificate = new X509Certificate(cert);
  const own = ownName(certificate);
  return own !== null && (own !== hostname || Date.parse(certificate.validTo) <= now);
}
