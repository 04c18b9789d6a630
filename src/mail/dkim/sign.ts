/** DKIM signatures: RFC 6376, Ed25519 by RFC 8463; relaxed/relaxed, one field for each key; the signed fields are canonicalized once for all. */
import { hash, sign, type KeyObject } from 'node:crypto';
import { relaxedHeader } from './canonicalize.ts';

export interface DkimKey {
  selector: string;
  /** The signing domain, A-labels. */
  domain: string;
  algorithm: 'rsa-sha256' | 'ed25519-sha256';
}

/** A key that is opened. Key objects can be handed to threads; their memory is shared. */
export interface SigningKey extends DkimKey {
  privateKey: KeyObject;
}

export interface DkimSigner {
  key: DkimKey;
  /** For rsa-sha256 `data` is what the hash is taken of; for ed25519-sha256 it is the SHA-256 digest already, since RFC 8463 section 3 signs that. */
  sign(data: Buffer): Promise<Buffer> | Buffer;
}

export interface SignInput {
  /** All header lines of the message, those of the content too, each ended by CRLF. */
  head: string;
  /** `relaxedBodyHash` of the body; the same for every recipient of one content. */
  bodyHash: string;
  /** Seconds since the epoch. */
  timestamp: number;
  signers: readonly DkimSigner[];
}

/** Named once more than they occur (RFC 6376 section 8.15), so that a second one cannot be added in front. */
const OVERSIGNED = [
  ...'From To Cc Subject Date Reply-To Message-ID MIME-Version'.split(' '),
  ...'Content-Type Content-Transfer-Encoding List-Unsubscribe List-Unsubscribe-Post Feedback-ID'.split(' '),
];
const SIGNED = new Set<string>(OVERSIGNED.map((name) => name.toLowerCase()));

const FOLD_AT = 76;

/** Returns the DKIM-Signature lines to put before `head`. Rejects if a signer fails, or there is none: mail must not go out unsigned by mistake. */
export async function signHeaders(input: SignInput): Promise<string> {
  if (input.signers.length === 0) throw new Error('no DKIM signer');
  const { names, canonical } = fieldsToSign(input.head);
  const signatures = await Promise.all(input.signers.map((signer) => signOnce(signer, input, names, canonical)));
  return signatures.join('');
}

/** Returns the `h=` names and the canonical fields in the same order: of equal names the last first (RFC 6376 section 5.4.2). */
function fieldsToSign(head: string): { names: string[]; canonical: string } {
  const found = new Map<string, string[]>();
  for (const field of head.split(/\r\n(?![ \t])/)) {
    const name = field.slice(0, field.indexOf(':')).trimEnd().toLowerCase();
    if (!SIGNED.has(name)) continue;
    const same = found.get(name);
    if (same === undefined) found.set(name, [field]);
    else same.push(field);
  }
  const names: string[] = [];
  let canonical = '';
  for (const name of OVERSIGNED) {
    for (const field of found.get(name.toLowerCase())?.toReversed() ?? []) {
      names.push(name);
      canonical += relaxedHeader(field);
    }
    names.push(name);
  }
  return { names, canonical };
}

async function signOnce(
  signer: DkimSigner,
  input: SignInput,
  names: readonly string[],
  canonical: string,
): Promise<string> {
  const { selector, domain, algorithm } = signer.key;
  const tags = [
    'DKIM-Signature: v=1;',
    `a=${algorithm};`,
    'c=relaxed/relaxed;',
    `d=${domain};`,
    `s=${selector};`,
    `t=${String(input.timestamp)};`,
    ...listed(names),
    `bh=${input.bodyHash};`,
    'b=',
  ];
  const unsigned = folded(tags);
  // Section 3.7: the signature field itself goes in last, with an empty b= and without its line end.
  const data = Buffer.from(canonical + relaxedHeader(unsigned).slice(0, -2), 'utf8');
  const digest = algorithm === 'ed25519-sha256' ? hash('sha256', data, 'buffer') : data;
  const signature = await signer.sign(digest);
  return `${unsigned}${signatureLines(signature.toString('base64'))}\r\n`;
}

/** `h=a:b:c;` in words, since white space is allowed around the colons (section 3.5) and lines end only at spaces. */
function listed(names: readonly string[]): string[] {
  return names.map((name, index) => (index === 0 ? 'h=' : '') + name + (index === names.length - 1 ? ';' : ':'));
}

function folded(words: readonly string[]): string {
  let text = '';
  let column = 0;
  for (const word of words) {
    if (column > 0 && column + 1 + word.length > FOLD_AT) {
      text += '\r\n';
      column = 0;
    }
    if (text !== '') column++;
    text += text === '' ? word : ` ${word}`;
    column += word.length;
  }
  return text;
}

/** White space inside `b=` is ignored (section 3.5). */
function signatureLines(base64: string): string {
  let lines = '';
  for (let start = 0; start < base64.length; start += FOLD_AT - 4) {
    lines += `\r\n ${base64.slice(start, start + FOLD_AT - 4)}`;
  }
  return lines;
}

/** `data` is signed as it is if the digest is null, as Ed25519 wants it (`DkimSigner`). */
const digestOf = ({ algorithm }: SigningKey): 'sha256' | null => (algorithm === 'rsa-sha256' ? 'sha256' : null);

/** Signs RSA in libuv's pool, where it takes 0.2 to 0.9 ms of a core; Ed25519 costs less than the way to another thread. */
export const signerForLoop = (key: SigningKey): DkimSigner => ({
  key,
  sign: key.algorithm === 'rsa-sha256' ? (data) => signInPool(data, key) : (data) => sign(null, data, key.privateKey),
});

export const signerForThread = (key: SigningKey): DkimSigner => ({
  key,
  sign: (data) => sign(digestOf(key), data, key.privateKey),
});

function signInPool(data: Buffer, key: SigningKey): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    sign(digestOf(key), data, key.privateKey, (error, signature) => {
      if (error === null) resolve(signature);
      else reject(error);
    });
  });
}
