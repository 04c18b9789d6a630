/**
 * Verifies that a mail is signed by a domain (RFC 6376 section 6) in two steps: `signatureClaims` reads a stranger's mail octet by octet and finds
 * signatures whose body hash is right and what they sign; `isSignedBy` checks one against the key record from DNS. Stricter than the standard: the
 * whole body must be signed (no `l=`), From too and only one of it, by SHA-256.
 */
import { createHash, hash, verify } from 'node:crypto';
import { relaxedBody, relaxedHeader, simpleBody } from './canonicalize.ts';
import { parseKeyRecord, tagList } from './key-record.ts';

/** A signature, and what must have been signed for it to be good. */
export interface SignatureClaim {
  domain: string;
  selector: string;
  algorithm: 'rsa-sha256' | 'ed25519-sha256';
  data: Uint8Array;
  signature: Uint8Array;
}

/** A signature of a mail; `claim` is null if it cannot be good, whatever its key is. */
export interface Signature {
  domain: string;
  selector: string;
  claim: SignatureClaim | null;
}

const MOST_SIGNATURES = 5;
const LONGEST_HEAD = 64 * 1024;
const LONGEST_SIGNATURE = 4096;
const MOST_NAMES = 100;
/** RSA keys below are too easily broken (RFC 8301). */
const LEAST_RSA_BITS = 1024;
const BARE_LINE_END = /\r(?!\n)|(?<!\r)\n/;
const HOST = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){0,9}$/;

/** Returns what the signatures of these domains claim; the arguments are those of `signaturesOf`. */
export const signatureClaims = (mail: string, isWanted: (domain: string) => boolean, now: number): SignatureClaim[] =>
  signaturesOf(mail, now, isWanted).flatMap(({ claim }) => claim ?? []);

/** Returns the first five signatures. `mail` has CRLF line ends, one octet a character; `now` is in seconds. Never throws. */
export function signaturesOf(
  mail: string,
  now: number,
  isWanted: (domain: string) => boolean = () => true,
): Signature[] {
  const end = mail.indexOf('\r\n\r\n');
  if (end < 0 || end > LONGEST_HEAD) return [];
  const head = mail.slice(0, end);
  // At a line end that is not CRLF another reader may end the head, or begin a field.
  if (BARE_LINE_END.test(head)) return [];
  const fields = fieldsIn(head);
  if (fields.filter((field) => nameOf(field) === 'from').length !== 1) return [];
  const body = Buffer.from(mail.slice(end + 4), 'latin1');
  return fields
    .filter((field) => nameOf(field) === 'dkim-signature' && field.length <= LONGEST_SIGNATURE)
    .slice(0, MOST_SIGNATURES)
    .flatMap((field) => signatureOf(field, fields, body, isWanted, now));
}

/** Returns whether the claim's signature is good by this key record (the TXT value). */
export function isSignedBy({ algorithm, data, signature }: SignatureClaim, txt: string): boolean {
  const parsed = parseKeyRecord(txt);
  if (parsed.kind === 'bad' || parsed.record.publicKey === null || parsed.record.testing) return false;
  const { publicKey: key, keyType } = parsed.record;
  if (algorithm !== `${keyType}-sha256`) return false;
  if (keyType === 'ed25519') return verify(null, hash('sha256', data, 'buffer'), key, signature);
  return (key.asymmetricKeyDetails?.modulusLength ?? 0) >= LEAST_RSA_BITS && verify('sha256', data, key, signature);
}

/** Returns what the signature covers of the fields of this name, in lower case. All else that the mail says there is not signed. */
export const signedValues = ({ data }: SignatureClaim, name: string): string[] =>
  fieldsIn(Buffer.from(data).toString('latin1'))
    .filter((field) => nameOf(field) === name)
    .map((field) => field.slice(field.indexOf(':') + 1).replaceAll('\r\n', ''));

const fieldsIn = (head: string): string[] => head.split(/\r\n(?![ \t])/);

const nameOf = (field: string): string =>
  field
    .slice(0, Math.max(0, field.indexOf(':')))
    .trimEnd()
    .toLowerCase();

function signatureOf(
  field: string,
  fields: readonly string[],
  body: Buffer,
  isWanted: (domain: string) => boolean,
  now: number,
): Signature[] {
  const tags = tagList(field.slice(field.indexOf(':') + 1));
  const tag = (name: string): string => (tags?.get(name) ?? '').replace(/\s+/g, '');
  const [domain, selector, algorithm] = [tag('d').toLowerCase(), tag('s').toLowerCase(), tag('a').toLowerCase()];
  if (!isWanted(domain) || !HOST.test(domain) || !HOST.test(selector)) return [];
  const bad = [{ domain, selector, claim: null }];
  const names = tag('h').toLowerCase().split(':', MOST_NAMES);
  const expires = Number(tag('x'));
  if (
    tags === null ||
    tag('v') !== '1' ||
    tags.has('l') ||
    !names.includes('from') ||
    (tags.has('x') && !(expires > now))
  )
    return bad;
  if (algorithm !== 'rsa-sha256' && algorithm !== 'ed25519-sha256') return bad;
  const [ofHead = 'simple', ofBody = 'simple'] = tag('c') === '' ? [] : tag('c').toLowerCase().split('/');
  const canonical = ofBody === 'relaxed' ? relaxedBody(body) : simpleBody(body);
  if (createHash('sha256').update(canonical).digest('base64') !== tag('bh')) return bad;
  const asSigned = ofHead === 'relaxed' ? relaxedHeader : (one: string): string => `${one}\r\n`;
  const unsigned = field.replace(/([:;\s]b[ \t\r\n]{0,20}=)[^;]*/, '$1');
  const text = `${signedFields(names, fields).map(asSigned).join('')}${asSigned(unsigned).slice(0, -2)}`;
  const data = Buffer.from(text, 'latin1');
  const claim: SignatureClaim = { domain, selector, algorithm, data, signature: Buffer.from(tag('b'), 'base64') };
  return [{ domain, selector, claim }];
}

/** Of equal names the last first (section 5.4.2); a name beyond the last one counts as an empty field. */
function signedFields(names: readonly string[], fields: readonly string[]): string[] {
  const left = new Map<string, string[]>();
  for (const field of fields) {
    const same = left.get(nameOf(field));
    if (same === undefined) left.set(nameOf(field), [field]);
    else same.push(field);
  }
  return names.flatMap((name) => left.get(name)?.pop() ?? []);
}
