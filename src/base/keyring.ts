/**
 * The master keys of an installation. They seal the secrets that must be stored (DKIM private
 * keys, webhook secrets), and the keys of our own tokens are derived from them. They are in `<dataDir>/secret.key`, separate from the
 * database, so that a copy of the database alone gives nothing away.
 *
 * The file has one key a line, `<key id> <32 bytes in base64url>`; `#` begins a comment. The last line seals, all lines
 * open: to rotate, add a line and keep the old ones for as long as something is sealed under them. `lost <key id>` says that
 * a key will not come back, so that the server starts without it (operator/sealed-secrets.ts).
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { closeSync, existsSync, fstatSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { isMissing } from './error-code.ts';
import { makeFolder } from './make-folder.ts';
import { replaceFile } from './replace-file.ts';

export type Keyring = ReturnType<typeof keyringOf>;

/** The key file cannot be used; the message is a sentence for the operator. */
export class KeyFileError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'KeyFileError';
  }
}

const FILE_NAME = 'secret.key';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const MOST_FILE_BYTES = 64 * 1024;
const line = /^([A-Za-z0-9]{1,32}) ([A-Za-z0-9_-]{43})$/;
const lostLine = /^lost ([A-Za-z0-9]{1,32})$/;
const sealedForm = /^v1\.([A-Za-z0-9]{1,32})\.([A-Za-z0-9_-]+)$/;

/**
 * Reads the key file, making it at the first start. Throws KeyFileError; also without one beside a `database`: a new key would open nothing there.
 */
export function openKeyring(dataDir: string, { database = null }: { database?: string | null } = {}): Keyring {
  const file = path.join(dataDir, FILE_NAME);
  const text = readKeyFile(file);
  if (text === null && database !== null && existsSync(database)) throw new KeyFileError(missing(file, database));
  return keyringOf(parseKeys(text ?? makeKeyFile(file), file));
}

const missing = (file: string, database: string): string =>
  `${file} is missing, but there is ${database}, whose DKIM keys and webhook secrets only that key opens: put the file back from where it is kept (if it is lost for good, docs/operating.md tells how to go on)`;

/** Returns the ids in the text of a key file, the current one first. Throws for other text; `file` names it. */
export const keyIdsOf = (text: string, file: string): string[] => [...parseKeys(text, file).masters.keys()].reverse();

/** Returns the ids of the keys in the file, the current one first, or null if there is no file. Throws as `openKeyring`. */
export function keyIdsIn(dataDir: string): readonly string[] | null {
  const file = path.join(dataDir, FILE_NAME);
  const text = readKeyFile(file);
  return text === null ? null : keyIdsOf(text, file);
}

interface KeyFile {
  masters: ReadonlyMap<string, Buffer>;
  lostIds: readonly string[];
}

function keyringOf({ masters, lostIds }: KeyFile) {
  const keyIds = [...masters.keys()].reverse();
  const currentId = keyIds[0] ?? '';
  // Sealing has a separate key, so that a derived key that leaks opens nothing.
  const sealKeys = new Map(keyIds.map((id) => [id, derive('posthorn:seal', id)]));

  function derive(purpose: string, keyId = currentId): Buffer {
    const master = masters.get(keyId);
    if (master === undefined) throw new Error(`key ${keyId} is not in ${FILE_NAME}`);
    return Buffer.from(hkdfSync('sha256', master, '', purpose, KEY_BYTES));
  }

  function sealKey(keyId: string): Buffer {
    const key = sealKeys.get(keyId);
    if (key === undefined) throw new Error(`sealed under key ${keyId}, which is not in ${FILE_NAME}`);
    return key;
  }

  return {
    currentId,
    keyIds: keyIds as readonly string[],
    lostIds,
    /** Encrypts and authenticates; the text names its key and opens only for the same `purpose`. */
    seal(purpose: string, plain: Buffer | string): string {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', sealKey(currentId), nonce).setAAD(Buffer.from(purpose));
      const secret = Buffer.concat([cipher.update(plain), cipher.final()]);
      return `v1.${currentId}.${Buffer.concat([nonce, secret, cipher.getAuthTag()]).toString('base64url')}`;
    },
    /** Throws if the text was changed, was sealed for another purpose, or its key is not in the file. */
    open(purpose: string, sealed: string): Buffer {
      const [, keyId = '', text = ''] = sealedForm.exec(sealed) ?? [];
      const bytes = Buffer.from(text, 'base64url');
      if (bytes.length < NONCE_BYTES + TAG_BYTES) throw new Error('not a sealed secret');
      const decipher = createDecipheriv('aes-256-gcm', sealKey(keyId), bytes.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(Buffer.from(purpose)).setAuthTag(bytes.subarray(-TAG_BYTES));
      return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
    },
    /** Returns 32 bytes for this purpose alone, the same at each start; from an older key if `keyId` names one. */
    derive: (purpose: string, keyId?: string) => derive(`posthorn:derive:${purpose}`, keyId),
  };
}

function parseKeys(text: string, file: string): KeyFile {
  const keys = new Map<string, Buffer>();
  const lostIds: string[] = [];
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const content = raw.trim();
    if (content === '' || content.startsWith('#')) continue;
    const lost = lostLine.exec(content)?.[1];
    if (lost !== undefined) {
      lostIds.push(lost);
      continue;
    }
    const [, id = '', secret = ''] = line.exec(content) ?? [];
    const key = Buffer.from(secret, 'base64url');
    // The line itself stays out of the message: it may hold a key.
    if (key.length !== KEY_BYTES)
      throw new KeyFileError(`${file}, line ${String(index + 1)}: expected "<key id> <43 characters of base64url>"`);
    if (keys.has(id)) throw new KeyFileError(`${file}, line ${String(index + 1)}: the key id ${id} is there twice`);
    keys.set(id, key);
  }
  if (keys.size === 0)
    throw new KeyFileError(`${file} holds no key; without its old content nothing that was sealed can be opened`);
  return { masters: keys, lostIds };
}

/** Returns the file's text, or null if there is no file. The rights are those of the file that was opened, not of its name. */
function readKeyFile(file: string): string | null {
  let handle: number;
  try {
    handle = openSync(file, 'r');
  } catch (error) {
    if (isMissing(error)) return null;
    throw new KeyFileError(`${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
  try {
    const { mode, size } = fstatSync(handle);
    if ((mode & 0o077) !== 0) {
      throw new KeyFileError(
        `${file} may be read by others (mode ${(mode & 0o777).toString(8)}); run: chmod 600 ${file}`,
      );
    }
    if (size > MOST_FILE_BYTES) throw new KeyFileError(`${file} is too large to be a key file`);
    return readFileSync(handle, 'utf8');
  } finally {
    closeSync(handle);
  }
}

/** Makes the file, if another process that starts at once has not made it first; returns its text. */
function makeKeyFile(file: string): string {
  const text = `# Master keys: back this file up apart from the database.\n${randomBytes(4).toString('hex')} ${randomBytes(KEY_BYTES).toString('base64url')}\n`;
  makeFolder(path.dirname(file), 0o750);
  replaceFile(file, text, 0o600, { keeps: true });
  return readKeyFile(file) ?? text;
}
