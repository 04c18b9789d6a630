/** DKIM key records: the TXT value at `selector._domainkey.domain`, RFC 6376 section 3.6.1 and RFC 8463 section 4. */
import { createPublicKey, type KeyObject } from 'node:crypto';

export interface KeyRecord {
  keyType: 'rsa' | 'ed25519';
  /** null: revoked (an empty `p=`). */
  publicKey: KeyObject | null;
  /** `t=y`: the domain is only testing. */
  testing: boolean;
}

export type ParsedKeyRecord = { kind: 'ok'; record: KeyRecord } | { kind: 'bad'; why: string };

/** Characters; a 4096-bit key needs 750. */
const LONGEST_RECORD = 4096;
/** SubjectPublicKeyInfo of Ed25519 up to the 32 octets of the key (RFC 8410 section 4). */
const ED25519_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
/** The AlgorithmIdentifier of RSA in a SubjectPublicKeyInfo (RFC 3279 section 2.3.1), and the octets in which it begins. */
const RSA_ALGORITHM = Buffer.from('300d06092a864886f70d0101010500', 'hex');
const RSA_ALGORITHM_WITHIN = 5 + RSA_ALGORITHM.length;

/** Returns the TXT value for a public key, RSA or Ed25519, as one string; the writer of the zone cuts it. Throws for any other kind of key. */
export function dkimRecord(publicKey: KeyObject | string): string {
  const der = typeof publicKey === 'string' ? spkiOf(publicKey) : publicKey.export({ type: 'spki', format: 'der' });
  if (der.length === ED25519_PREFIX.length + 32 && der.subarray(0, ED25519_PREFIX.length).equals(ED25519_PREFIX))
    return `v=DKIM1; k=ed25519; p=${der.subarray(ED25519_PREFIX.length).toString('base64')}`;
  if (der.subarray(0, RSA_ALGORITHM_WITHIN).includes(RSA_ALGORITHM))
    return `v=DKIM1; k=rsa; p=${der.toString('base64')}`;
  throw new Error('this is no DKIM key type');
}

/** Returns the SubjectPublicKeyInfo in a PEM text without node:crypto, which takes half a millisecond for each key of a list of domains. */
function spkiOf(pem: string): Buffer {
  const [, base64] =
    /^-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]{1,4096})-----END PUBLIC KEY-----\s*$/.exec(pem) ?? [];
  if (base64 !== undefined) return Buffer.from(base64, 'base64');
  return createPublicKey(pem).export({ type: 'spki', format: 'der' });
}

/** Reads a TXT value whose strings were joined. */
export function parseKeyRecord(txt: string): ParsedKeyRecord {
  if (txt.length > LONGEST_RECORD) return bad('too long');
  const tags = tagList(txt);
  if (tags === null) return bad('not a list of tags');
  const version = tags.get('v');
  if (version !== undefined && (version !== 'DKIM1' || !/^\s*v\s*=/.test(txt)))
    return bad('v= is not DKIM1, or not first');
  const hashes = tags.get('h');
  if (hashes !== undefined && !listHas(hashes, 'sha256')) return bad('h= does not allow sha256');
  const services = tags.get('s');
  if (services !== undefined && !listHas(services, '*') && !listHas(services, 'email'))
    return bad('s= is not for e-mail');
  const keyType = tags.get('k') ?? 'rsa';
  if (keyType !== 'rsa' && keyType !== 'ed25519') return bad('k= is neither rsa nor ed25519');
  const key = publicKeyOf(keyType, tags.get('p'));
  if (key === 'bad') return bad(`p= is not a public key of type ${keyType}`);
  return { kind: 'ok', record: { keyType, publicKey: key, testing: listHas(tags.get('t') ?? '', 'y') } };
}

const bad = (why: string): { kind: 'bad'; why: string } => ({ kind: 'bad', why });

/** Reads a list of tags (section 3.2); a tag that occurs twice makes the whole list invalid. */
export function tagList(text: string): Map<string, string> | null {
  const tags = new Map<string, string>();
  const pieces = text.split(';');
  if (pieces.at(-1)?.trim() === '') pieces.pop();
  for (const piece of pieces) {
    const equals = piece.indexOf('=');
    const name = piece.slice(0, Math.max(equals, 0)).trim();
    if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(name) || tags.has(name)) return null;
    tags.set(name, piece.slice(equals + 1).trim());
  }
  return tags;
}

const listHas = (list: string, wanted: string): boolean => list.split(':').some((item) => item.trim() === wanted);

function publicKeyOf(keyType: 'rsa' | 'ed25519', value: string | undefined): KeyObject | null | 'bad' {
  const base64 = value?.replace(/\s+/g, '');
  if (base64 === '') return null;
  if (base64 === undefined || !/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return 'bad';
  const octets = Buffer.from(base64, 'base64');
  if (keyType === 'ed25519')
    return octets.length === 32 ? keyFrom(Buffer.concat([ED25519_PREFIX, octets]), 'spki') : 'bad';
  const spki = keyFrom(octets, 'spki');
  // Some zones carry the bare RSAPublicKey of PKCS #1.
  const key = spki === 'bad' ? keyFrom(octets, 'pkcs1') : spki;
  return key !== 'bad' && key.asymmetricKeyType === 'rsa' ? key : 'bad';
}

function keyFrom(der: Buffer, type: 'spki' | 'pkcs1'): KeyObject | 'bad' {
  try {
    return createPublicKey({ key: der, format: 'der', type });
  } catch {
    return 'bad';
  }
}
