/** The master keys in a backup, encrypted by AES-256-GCM under a passphrase (scrypt, RFC 7914), apart from the database, which alone opens none. */
import { createCipheriv, createDecipheriv, randomBytes, scrypt, type ScryptOptions } from 'node:crypto';
import { promisify } from 'node:util';
import { z } from 'zod';

/** 128 MiB of memory and some tenths of a second for each guess of the passphrase. */
const COST = { N: 2 ** 17, r: 8, p: 1 };
/** The most memory that a foreign file may require. */
const MOST_MEMORY = 512 * 1024 * 1024;
const KEY_BYTES = 32;
const SALT_BYTES = 16;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const PURPOSE = Buffer.from('posthorn backup keys v1');

const KeyPart = z.object({
  format: z.literal(1),
  kdf: z.object({ name: z.literal('scrypt'), N: z.int(), r: z.int(), p: z.int(), salt: z.base64url() }),
  cipher: z.literal('aes-256-gcm'),
  nonce: z.base64url(),
  data: z.base64url(),
});
type KeyPart = z.output<typeof KeyPart>;

export type Opened =
  | { kind: 'opened'; text: string }
  /** The passphrase is wrong, or the part was changed: the cipher cannot tell which. */
  | { kind: 'wrong' }
  /** The file has another format. */
  | { kind: 'damaged' };

export async function sealKeys(text: string, passphrase: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', await keyOf(passphrase, salt, COST), nonce).setAAD(PURPOSE);
  const data = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  const part: KeyPart = {
    format: 1,
    kdf: { name: 'scrypt', ...COST, salt: salt.toString('base64url') },
    cipher: 'aes-256-gcm',
    nonce: nonce.toString('base64url'),
    data: data.toString('base64url'),
  };
  return `${JSON.stringify(part)}\n`;
}

/** Opens what `sealKeys` made. */
export async function openKeys(sealed: string, passphrase: string): Promise<Opened> {
  const part = readPart(sealed);
  if (part === null) return { kind: 'damaged' };
  const data = Buffer.from(part.data, 'base64url');
  const key = await keyOf(passphrase, Buffer.from(part.kdf.salt, 'base64url'), part.kdf).catch(() => null);
  // The parameters of the file are none for scrypt, or need too much memory.
  if (key === null || data.length < TAG_BYTES) return { kind: 'damaged' };
  try {
    const nonce = Buffer.from(part.nonce, 'base64url');
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(PURPOSE).setAuthTag(data.subarray(-TAG_BYTES));
    const text = Buffer.concat([decipher.update(data.subarray(0, -TAG_BYTES)), decipher.final()]).toString('utf8');
    return { kind: 'opened', text };
  } catch {
    return { kind: 'wrong' };
  }
}

function readPart(text: string): KeyPart | null {
  try {
    return KeyPart.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

const derive = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt);

/** The same passphrase typed on another keyboard may have another form of Unicode, and one that is read from a file a line break at its end. */
const keyOf = async (passphrase: string, salt: Buffer, { N, r, p }: { N: number; r: number; p: number }) =>
  derive((passphrase.trim() || passphrase).normalize('NFC'), salt, KEY_BYTES, { N, r, p, maxmem: MOST_MEMORY });
