/** Checks a certificate chain and its key before they are installed, and puts both into one text. Pure. */
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { DAY_MS } from '../base/time.ts';
import { describeCertificate, type CertificateFacts } from './certificate.ts';

export type PairReading =
  | {
      kind: 'good';
      /** The chain and then the key, as PEM. */
      bundle: string;
      facts: CertificateFacts;
      /** Sentences about what will make trouble later, or for some programs. */
      warnings: string[];
    }
  | { kind: 'bad'; why: string; cure: string };

export interface PairInput {
  cert: string;
  key: string;
  /** Names that the certificate must be valid for. */
  names: readonly string[];
  /** Milliseconds since the epoch. */
  now: number;
}

/** Chains of public authorities have two to four. */
const MOST_CERTIFICATES = 10;
const LEAST_RSA_BITS = 2048;
const SOON_MS = 14 * DAY_MS;
const BEGIN = '-----BEGIN CERTIFICATE-----';
const END = '-----END CERTIFICATE-----';

const bad = (why: string, cure: string): PairReading => ({ kind: 'bad', why, cure });

/** Never throws, and no text that it returns has a part of the key. */
export function readPair({ cert, key, names, now }: PairInput): PairReading {
  const chain = certificatesIn(cert);
  if (chain === null)
    return bad('the file of --cert has a certificate that cannot be read', 'Give a PEM file, such as fullchain.pem.');
  const [leaf] = chain;
  if (leaf === undefined)
    return bad('the file of --cert has no certificate in PEM form', 'Give the chain, such as fullchain.pem.');
  if (chain.length > MOST_CERTIFICATES)
    return bad(
      `the file of --cert has ${String(chain.length)} certificates`,
      'Give the chain of one certificate, not a collection of authorities.',
    );
  const privateKey = keyIn(key);
  if (typeof privateKey === 'string')
    return bad(privateKey, 'Give the private key of the certificate as PEM, without a passphrase (privkey.pem).');
  const fault = chainFault(chain, privateKey) ?? keyFault(privateKey) ?? timeFault(leaf, now) ?? nameFault(leaf, names);
  if (fault !== null) return fault;
  const bundle = `${chain.map((one) => one.toString()).join('')}${privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()}`;
  try {
    createSecureContext({ cert: bundle, key: bundle });
  } catch (error) {
    return bad(
      `OpenSSL does not take the pair: ${error instanceof Error ? error.message : String(error)}`,
      'Get a certificate with a usual key: RSA of 2048 bits or more, or ECDSA P-256.',
    );
  }
  const facts = describeCertificate(leaf);
  return { kind: 'good', bundle, facts, warnings: warningsAbout(chain, privateKey, facts, now) };
}

/** Returns the certificates of a PEM text in their order, or null if one of them cannot be read. */
function certificatesIn(text: string): X509Certificate[] | null {
  const found: X509Certificate[] = [];
  let at = text.indexOf(BEGIN);
  while (at !== -1 && found.length <= MOST_CERTIFICATES) {
    const end = text.indexOf(END, at);
    if (end === -1) return null;
    try {
      found.push(new X509Certificate(text.slice(at, end + END.length)));
    } catch {
      return null; // the caller says which file
    }
    at = text.indexOf(BEGIN, end);
  }
  return found;
}

/** Returns the key, or why it cannot be used. */
function keyIn(text: string): KeyObject | string {
  if (!text.includes('PRIVATE KEY-----')) return 'the file of --key has no private key in PEM form';
  if (/ENCRYPTED PRIVATE KEY-----|^Proc-Type: *4,ENCRYPTED/m.test(text))
    return 'the key is under a passphrase, which a server that starts by itself cannot type';
  try {
    return createPrivateKey(text);
  } catch {
    return 'the key cannot be read'; // the message of OpenSSL says nothing more
  }
}

function chainFault(chain: readonly X509Certificate[], key: KeyObject): PairReading | null {
  const [leaf] = chain;
  if (leaf?.checkPrivateKey(key) !== true)
    return chain.some((one) => one.checkPrivateKey(key))
      ? bad(
          "the server's own certificate is not the first of the file",
          'Put it first, then the one that issued it, and so on.',
        )
      : bad('the key does not belong to the certificate', 'Give the two files of the same certificate.');
  for (const [at, one] of chain.slice(0, -1).entries()) {
    const issuer = chain[at + 1];
    if (issuer === undefined || (one.checkIssued(issuer) && one.verify(issuer.publicKey))) continue;
    return bad(
      `certificate ${String(at + 1)} of the file was not issued by the one after it`,
      "Put them in order: the server's own, the one that issued it, and so on; leave out what does not belong.",
    );
  }
  return null;
}

function keyFault(key: KeyObject): PairReading | null {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  const bits = details?.modulusLength;
  if (type === 'rsa' && bits !== undefined && bits < LEAST_RSA_BITS)
    return bad(
      `the RSA key has ${String(bits)} bits, which no mail program trusts any more`,
      `Get a certificate with an RSA key of ${String(LEAST_RSA_BITS)} bits or more, or ECDSA P-256.`,
    );
  if (type === 'rsa' || type === 'ec' || type === 'ed25519') return null;
  return bad(
    `the key is of the type ${type ?? 'unknown'}, which TLS cannot use here`,
    'Get a certificate with an RSA key of 2048 bits or more, or ECDSA P-256.',
  );
}

const day = (at: number): string => new Date(at).toISOString().slice(0, 10);

function timeFault(leaf: X509Certificate, now: number): PairReading | null {
  const { notBefore, notAfter } = describeCertificate(leaf);
  if (notAfter <= now) return bad(`the certificate expired on ${day(notAfter)}`, 'Renew it first (certbot renew).');
  if (notBefore > now)
    return bad(`the certificate is good only from ${day(notBefore)}`, 'Is the clock of this machine right?');
  return null;
}

function nameFault(leaf: X509Certificate, names: readonly string[]): PairReading | null {
  const missing = names.filter((name) => leaf.checkHost(name) === undefined);
  if (missing.length === 0) return null;
  const has = describeCertificate(leaf).names.join(', ');
  return bad(
    `the certificate is not for ${missing.join(' and ')}, but for ${has === '' ? 'no name' : has}`,
    `Get one with this name (certbot: -d ${missing[0] ?? ''}), correct \`smtp.hostname\` or \`http.publicUrl\`, or say --any-name if clients use another name on purpose.`,
  );
}

function warningsAbout(
  chain: readonly X509Certificate[],
  key: KeyObject,
  { notAfter, isSelfSigned }: CertificateFacts,
  now: number,
): string[] {
  return [
    ...(notAfter - now < SOON_MS ? [`the certificate expires on ${day(notAfter)}`] : []),
    ...(isSelfSigned ? ['the certificate is signed by itself: mail programs must be told to trust it'] : []),
    ...(chain.length === 1 && !isSelfSigned
      ? ['the file has no intermediate certificate, without which some programs cannot verify it: give fullchain.pem']
      : []),
    ...(key.asymmetricKeyType === 'ed25519'
      ? ['the key is Ed25519, which many mail programs do not know yet: ECDSA P-256 is taken everywhere']
      : []),
  ];
}
