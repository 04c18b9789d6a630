/** Reads from a certificate what people ask about it. Pure. */
import { X509Certificate } from 'node:crypto';

export interface CertificateFacts {
  /** The host names and addresses that it is for. */
  names: string[];
  /** Organisation and common name of the authority; empty if it has neither. */
  issuer: string;
  isSelfSigned: boolean;
  /** Milliseconds since the epoch. */
  notBefore: number;
  notAfter: number;
  /** `rsa`, `ec`, `ed25519`. */
  keyType: string;
}

/** Describes the first certificate of a PEM text, which is the server's own. Throws if there is none. */
export const certificateFacts = (pem: string): CertificateFacts => describeCertificate(new X509Certificate(pem));

export function describeCertificate(read: X509Certificate): CertificateFacts {
  return {
    names: [...(read.subjectAltName ?? '').matchAll(/(?:DNS|IP Address):([^,\s"]+)/g)].map(([, name = '']) => name),
    issuer: ['O', 'CN'].flatMap((part) => partOf(read.issuer, part)).join(', '),
    isSelfSigned: read.issuer === read.subject,
    notBefore: Date.parse(read.validFrom),
    notAfter: Date.parse(read.validTo),
    keyType: read.publicKey.asymmetricKeyType ?? 'unknown',
  };
}

/** Reads one attribute of a name that Node.js writes with one attribute a line. */
const partOf = (name: string, part: string): string[] =>
  name
    .split('\n')
    .filter((line) => line.startsWith(`${part}=`))
    .map((line) => line.slice(part.length + 1));
