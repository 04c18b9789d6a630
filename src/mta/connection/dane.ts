/** Compares a certificate chain with TLSA records (DANE for SMTP, RFC 7672, RFC 6698). Pure. */
import { X509Certificate, createHash } from 'node:crypto';
import type { TlsaRecord } from '../../net/resolver.ts';

const DANE_TA = 2;

/**
 * Returns null if the chain (leaf first, DER) matches, else the reason. For DANE-EE(3) name and dates do not count (RFC 7672 section
 * 3.1.1); for DANE-TA(2) the chain must lead to the matched certificate, be in date, and the leaf must have one of the names.
 */
export function daneFault(
  chain: readonly Buffer[],
  names: readonly string[],
  records: readonly TlsaRecord[],
  now: number,
): string | null {
  const certificates = parsed(chain);
  const leaf = certificates[0];
  if (leaf === undefined) return 'the server showed no certificate that can be read';
  let fault: string | null = null;
  for (const record of records) {
    if (record.usage !== DANE_TA) {
      if (matches(leaf, record)) return null;
      continue;
    }
    const anchor = certificates.findIndex((certificate) => matches(certificate, record));
    if (anchor < 0) continue;
    const chainFault = pathFault(certificates.slice(0, anchor + 1), now);
    if (chainFault === null && names.some((name) => leaf.checkHost(name) !== undefined)) return null;
    fault ??= chainFault ?? `ERR_TLS_CERT_ALTNAME_INVALID: the certificate is not for ${names.join(' or ')}`;
  }
  return fault ?? 'the certificate matches no TLSA record';
}

function parsed(chain: readonly Buffer[]): X509Certificate[] {
  try {
    return chain.map((der) => new X509Certificate(der));
  } catch {
    return [];
  }
}

function matches(certificate: X509Certificate, record: TlsaRecord): boolean {
  const selected =
    record.selector === 0 ? certificate.raw : certificate.publicKey.export({ type: 'spki', format: 'der' });
  return digested(selected, record.matchingType).equals(record.certificate);
}

function digested(bytes: Buffer, matchingType: number): Buffer {
  if (matchingType === 0) return bytes;
  return createHash(matchingType === 1 ? 'sha256' : 'sha512')
    .update(bytes)
    .digest();
}

/** Returns why the path does not lead to its last certificate, the trust anchor, in the codes of Node.js; null if it does. */
function pathFault(path: readonly X509Certificate[], now: number): string | null {
  for (const [at, certificate] of path.entries()) {
    if (Date.parse(certificate.validFrom) > now) return 'CERT_NOT_YET_VALID';
    if (Date.parse(certificate.validTo) < now) return 'CERT_HAS_EXPIRED';
    const issuer = path[at + 1];
    const isSigned =
      issuer === undefined || (issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey));
    if (!isSigned) return 'the certificates do not lead to the trust anchor of a TLSA record';
  }
  return null;
}
