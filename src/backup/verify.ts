/**
 * Is a backup what it was when it was made? Every byte against its sum, the database against itself, its books, and with the
 * passphrase its keys. Nothing is written, so that a backup may lie on a medium that cannot be.
 */
import { isDeepStrictEqual } from 'node:util';
import path from 'node:path';
import { keyIdsOf } from '../base/keyring.ts';
import { readFacts, type Facts, type Reading } from './facts.ts';
import { readSmall, sizeOf, sumOf } from './files.ts';
import { MOST_KEY_PART_BYTES, openKeys } from './key-part.ts';
import { DATABASE, KEYS, Manifest, MANIFEST, MOST_MANIFEST_BYTES, readSums, SUMS } from './manifest.ts';

export type Verified =
  | {
      kind: 'good';
      manifest: Manifest;
      /** The master keys: their text where a passphrase opened them. */
      keys: { kind: 'none' } | { kind: 'closed' } | { kind: 'opened'; text: string };
      /** What does not fit in the books. The copy is still what the database was. */
      unbalanced: string[];
    }
  /** Something was changed, is missing, or is not a backup at all. */
  | { kind: 'damaged'; faults: string[] }
  | { kind: 'wrong_passphrase' };

/** Reports how much of the work is done, of 1. */
export type VerifyProgress = (part: number) => void;

/** Summing up is a small share of the work: SQLite's own look takes the rest, and does not say how far it is. */
const SUM_SHARE = 0.3;

/** `known`: what the database was just seen to hold; it is then not read once more. */
export async function verifyBackup(
  folder: string,
  { passphrase, progress, known }: { passphrase: string | null; progress?: VerifyProgress; known?: Facts },
): Promise<Verified> {
  const read = await readManifest(folder);
  if (read.kind === 'damaged') return read;
  const { manifest, sums } = read;
  const faults = await compareFiles(folder, { manifest, sums, progress });
  if (faults.length > 0) return { kind: 'damaged', faults };
  const reading: Reading =
    known === undefined ? await readFacts(path.join(folder, DATABASE)) : { kind: 'sound', facts: known };
  if (reading.kind === 'damaged')
    return { kind: 'damaged', faults: reading.faults.map((fault) => `${DATABASE}: ${fault}`) };
  const { books, ...found } = reading.facts;
  const { migrations, epoch, counts } = manifest;
  if (!isDeepStrictEqual(found, { migrations, epoch, counts }))
    return { kind: 'damaged', faults: [`${DATABASE} does not hold what ${MANIFEST} says`] };
  const keys = await lookAtKeys(folder, manifest, passphrase);
  progress?.(1);
  if (keys.kind === 'wrong') return { kind: 'wrong_passphrase' };
  if (keys.kind === 'damaged') return { kind: 'damaged', faults: [`${KEYS} holds other keys, or none`] };
  return { kind: 'good', manifest, keys, unbalanced: books.faults };
}

type Read = { kind: 'read'; manifest: Manifest; sums: Map<string, string> } | { kind: 'damaged'; faults: string[] };

async function readManifest(folder: string): Promise<Read> {
  const [text, list] = await Promise.all([
    readSmall(path.join(folder, MANIFEST), MOST_MANIFEST_BYTES),
    readSmall(path.join(folder, SUMS), MOST_MANIFEST_BYTES),
  ]);
  if (text === null || list === null)
    return damaged(`${folder} is no backup: ${text === null ? MANIFEST : SUMS} is missing, or too large`);
  const sums = readSums(list);
  if (sums === null) return damaged(`${SUMS} has lines that are no sums`);
  if ((await sumOf(path.join(folder, MANIFEST))) !== sums.get(MANIFEST))
    return damaged(`${MANIFEST} is not as it was written: its sum differs`);
  const manifest = Manifest.safeParse(json(text));
  // Whole, but not readable: that is what a backup of a later form looks like.
  if (!manifest.success) return damaged(`${MANIFEST} is of a form that this version does not know`);
  return { kind: 'read', manifest: manifest.data, sums };
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const damaged = (fault: string): { kind: 'damaged'; faults: string[] } => ({ kind: 'damaged', faults: [fault] });

async function compareFiles(
  folder: string,
  { manifest, sums, progress }: { manifest: Manifest; sums: Map<string, string>; progress: VerifyProgress | undefined },
): Promise<string[]> {
  const { files } = manifest;
  const faults: string[] = [];
  if (!files.some(({ name }) => name === DATABASE)) faults.push(`${MANIFEST} names no ${DATABASE}`);
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { name, bytes, sha256 } of files) {
    const file = path.join(folder, name);
    const found = await sizeOf(file);
    if (found !== bytes) {
      faults.push(`${name} has ${String(found)} bytes, not ${String(bytes)}`);
      continue;
    }
    const sum = await sumOf(file, (done) => progress?.((SUM_SHARE * done) / total));
    if (sum !== sha256) faults.push(`${name} is not as it was written: its sum differs`);
    else if (sums.get(name) !== sum) faults.push(`${SUMS} has another sum for ${name}`);
  }
  return faults;
}

type Keys = Extract<Verified, { kind: 'good' }>['keys'] | { kind: 'wrong' } | { kind: 'damaged' };

async function lookAtKeys(folder: string, manifest: Manifest, passphrase: string | null): Promise<Keys> {
  if (!manifest.files.some(({ name }) => name === KEYS)) return { kind: 'none' };
  if (passphrase === null) return { kind: 'closed' };
  const sealed = await readSmall(path.join(folder, KEYS), MOST_KEY_PART_BYTES);
  if (sealed === null) return { kind: 'damaged' };
  const opened = await openKeys(sealed, passphrase);
  if (opened.kind !== 'opened') return opened;
  return isDeepStrictEqual(keyIdsOf(opened.text, KEYS), manifest.key_ids) ? opened : { kind: 'damaged' };
}
