/** The certificate of an installation that names none: made at the first start, kept in the data folder as long as its name is right and it has not ended. */
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { makeSelfSigned } from './self-signed.ts';
import type { Certificate } from './certificate.ts';

/** Its name in the data folder. */
export const OWN_CERT_FILE = 'self-signed-cert.pem';
const KEY_FILE = 'self-signed-key.pem';

/** Reads the certificate, or makes it for this host name; also where the name has changed since, or where it has expired. Throws where the folder cannot be written. */
export function ownCertificate(dataDir: string, hostname: string, now: number): Certificate {
  const certFile = path.join(dataDir, OWN_CERT_FILE);
  const keyFile = path.join(dataDir, KEY_FILE);
  try {
    const kept = { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
    if (!isOld(kept.cert, hostname, now)) return kept;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const made = makeSelfSigned(hostname, now);
  writeFileSync(keyFile, made.key, { mode: 0o600 });
  writeFileSync(certFile, made.cert, { mode: 0o644 });
  return made;
}

/**
 * The first start comes before the name is set, and on a machine without a battery perhaps in 1970, before the time is. Only what we
 * made is replaced, never one that was put in its place.
 */
function isOld(cert: string, hostname: string, now: number): boolean {
  const { issuer, subject, subjectAltName, validTo } = new X509Certificate(cert);
  const own = /^DNS:([^,\s]+)$/.exec(subjectAltName ?? '')?.[1];
  const isOurs = issuer === subject && own !== undefined && subject === `CN=${own.slice(0, 64)}`;
  return isOurs && (own !== hostname || Date.parse(validTo) <= now);
}
