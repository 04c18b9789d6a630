/**
 * Verifies a backup: every byte against its checksum, the database with SQLite's own check, its books, and with the passphrase
 * its keys. Nothing is written, so the medium may be read-only.
 */
import { isDeepStrictEqual } from 'node:util';
import path from 'node:path';
import { keyIdsOf } from '../base/keyring.ts';
import { readFacts, type Facts, type Reading } from './facts.ts';
import { readSmall, sizeOf, sumOf } from './files.ts';
import { MOST_KEY_PART_BYTES, openKeys } from './key-part.ts';
import {
  DATABASE,
  KEYS,
  MANIFEST,
  MOST_MANIFEST_BYTES,
  parseManifest,
  readSums,
  SUMS,
  type Manifest,
} from './manifest.ts';

export type Verified =
  | {
      kind: 'good';
      manifest: Manifest;
      /** The master keys: their text if a passphrase opened them. */
      keys: { kind: 'none' } | { kind: 'closed' } | { kind: 'opened'; text: string };
      /** Differences in the books; the copy is still a true copy. */
      unbalanced: string[];
    }
  /** A file was changed or is missing, or this is not a backup. */
  | { kind: 'damaged'; faults: string[] }
  | { kind: 'wrong_passphrase' };

/** Reports the part of the work that is done, from 0 to 1. */
export type VerifyProgress = (part: number) => void;

/** Share of the checksums in the work: SQLite's own check takes the rest and reports no progress. */
const SUM_SHARE = 0.3;

/** Verifies a backup. `knownFacts`: the facts of its database if they were just read; then it is not read again. */
export async function verifyBackup(
  folder: string,
  { passphrase, progress, knownFacts }: { passphrase: string | null; progress?: VerifyProgress; knownFacts?: Facts },
): Promise<Verified> {
  const read = await readManifest(folder);
  if (read.kind === 'damaged') return read;
  const { manifest, sums } = read;
  const faults = await compareFiles(folder, { manifest, sums, progress });
  if (faults.length > 0) return { kind: 'damaged', faults };
  const reading: Reading =
    knownFacts === undefined ? await readFacts(path.join(folder, DATABASE)) : { kind: 'sound', facts: knownFacts };
  if (reading.kind === 'damaged')
    return { kind: 'damaged', faults: reading.faults.map((fault) => `${DATABASE}: ${fault}`) };
  const { books, ...found } = reading.facts;
  const { migrations, epoch, counts } = manifest;
  if (!isDeepStrictEqual(found, { migrations, epoch, counts }))
    return { kind: 'damaged', faults: [`${DATABASE} does not match ${MANIFEST}`] };
  const keys = await checkKeys(folder, manifest, passphrase);
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
    return damaged(`${folder} is not a backup: ${text === null ? MANIFEST : SUMS} is missing, or too large`);
  const sums = readSums(list);
  if (sums === null) return damaged(`${SUMS} has lines that are not checksums`);
  if ((await sumOf(path.join(folder, MANIFEST))) !== sums.get(MANIFEST))
    return damaged(`${MANIFEST} was changed: its checksum differs`);
  const manifest = parseManifest(text);
  // Intact, but of an unknown format: a later version made it.
  if (manifest === null)
    return damaged(`${MANIFEST} has a format that this version does not know: use a later version`);
  return { kind: 'read', manifest, sums };
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
    if (sum !== sha256) faults.push(`${name} was changed: its checksum differs`);
    else if (sums.get(name) !== sum) faults.push(`${SUMS} has another sum for ${name}`);
  }
  return faults;
}

type Keys = Extract<Verified, { kind: 'good' }>['keys'] | { kind: 'wrong' } | { kind: 'damaged' };

async function checkKeys(folder: string, manifest: Manifest, passphrase: string | null): Promise<Keys> {
  if (!manifest.files.some(({ name }) => name === KEYS)) return { kind: 'none' };
  if (passphrase === null) return { kind: 'closed' };
  const sealed = await readSmall(path.join(folder, KEYS), MOST_KEY_PART_BYTES);
  if (sealed === null) return { kind: 'damaged' };
  const opened = await openKeys(sealed, passphrase);
  if (opened.kind !== 'opened') return opened;
  return isDeepStrictEqual(keyIdsOf(opened.text, KEYS), manifest.key_ids) ? opened : { kind: 'damaged' };
}
