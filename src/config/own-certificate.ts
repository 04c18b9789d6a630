/**
 * The self-signed certificate of an installation without one: made at the first start and stored in the data folder while its
 * name is right and it has not expired.
 */
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isMissing } from '../base/error-code.ts';
import { makeSelfSigned } from './self-signed.ts';
import type { Certificate } from './certificate.ts';

/** Its file name in the data folder. */
export const OWN_CERT_FILE = 'self-signed-cert.pem';
const KEY_FILE = 'self-signed-key.pem';

/**
 * Reads the certificate, or makes a new one if it is missing, expired, or for another host name. Throws if the folder cannot be
 * written.
 */
export function ownCertificate(dataDir: string, hostname: string, now: number): Certificate {
  const certFile = path.join(dataDir, OWN_CERT_FILE);
  const keyFile = path.join(dataDir, KEY_FILE);
  try {
    const stored = { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
    if (!isOld(stored.cert, hostname, now)) return stored;
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  const made = makeSelfSigned(hostname, now);
  writeFileSync(keyFile, made.key, { mode: 0o600 });
  writeFileSync(certFile, made.cert, { mode: 0o644 });
  return made;
}

/**
 * Returns true if our certificate must be replaced: the first start comes before the name is set, and on a machine without a
 * battery perhaps in 1970. A certificate that we did not make is never replaced.
 */
function isOld(cert: string, hostname: string, now: number): boolean {
  const { issuer, subject, subjectAltName, validTo } = new X509Certificate(cert);
  const own = /^DNS:([^,\s]+)$/.exec(subjectAltName ?? '')?.[1];
  const isOurs = issuer === subject && own !== undefined && subject === `CN=${own.slice(0, 64)}`;
  return isOurs && (own !== hostname || Date.parse(validTo) <= now);
}
