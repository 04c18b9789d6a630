/** Verifies a backup: checksums, the database by SQLite's check, its books, with the passphrase its keys. Writes nothing: media may be read-only. */
import { statSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { keyIdsOf } from '../base/keyring.ts';
import { readIfThere, sumOf } from './files.ts';
import { openKeys } from './key-part.ts';
import { DATABASE, KEYS, MANIFEST, parseManifest, readSums, SUMS, type Manifest } from './manifest.ts';
import type { Knex } from 'knex';
import { balance, type Books } from '../messages/store/books.ts';
import { openStill } from '../storage/database.ts';

export type Verified =
  | {
      kind: 'good';
      manifest: Manifest;
      /** The master keys: their text if a passphrase opened them. */
      keys: { kind: 'none' } | { kind: 'closed' } | { kind: 'opened'; text: string };
      /** Differences in the books of a copy that is true all the same. */
      unbalanced: string[];
    }
  /** A file was changed or is missing, or this is not a backup. */
  | { kind: 'damaged'; faults: string[] }
  | { kind: 'wrong_passphrase' };

/** Reports the part of the work that is done, from 0 to 1. */
export type VerifyProgress = (part: number) => void;

/** Share of the checksum in the work: SQLite's own check takes the rest and reports no progress. */
const SUM_SHARE = 0.3;

const damaged = (...faults: string[]): { kind: 'damaged'; faults: string[] } => ({ kind: 'damaged', faults });

/** Verifies a backup. `knownFacts`: the facts of its database if they were just read; then it is not read again. */
export async function verifyBackup(
  folder: string,
  { passphrase, progress, knownFacts }: { passphrase: string | null; progress?: VerifyProgress; knownFacts?: Facts },
): Promise<Verified> {
  const list = await readIfThere(path.join(folder, SUMS));
  if (list === null) return damaged(`${folder} is not a backup: ${SUMS} is missing`);
  const sums = readSums(list);
  if (sums === null) return damaged(`${SUMS} has lines that are not checksums of a backup`);
  const faults = await compareFiles(folder, sums, progress);
  if (faults.length > 0) return damaged(...faults);
  const manifest = parseManifest((await readIfThere(path.join(folder, MANIFEST))) ?? '');
  // Intact, but of an unknown format: a later version made it.
  if (manifest === null)
    return damaged(`${MANIFEST} has a format that this version does not know: use a later version`);
  const reading: Reading =
    knownFacts === undefined ? await readFacts(path.join(folder, DATABASE)) : { kind: 'sound', facts: knownFacts };
  if (reading.kind === 'damaged') return damaged(...reading.faults.map((fault) => `${DATABASE}: ${fault}`));
  const { books, ...found } = reading.facts;
  const { migrations, epoch, counts } = manifest;
  if (!isDeepStrictEqual(found, { migrations, epoch, counts }))
    return damaged(`${DATABASE} does not match ${MANIFEST}`);
  const keys = sums.has(KEYS) ? await checkKeys(folder, manifest, passphrase) : ({ kind: 'none' } as const);
  progress?.(1);
  if (keys.kind === 'wrong') return { kind: 'wrong_passphrase' };
  if (keys.kind === 'damaged') return damaged(`${KEYS} holds other keys, or none`);
  return { kind: 'good', manifest, keys, unbalanced: books.faults };
}

async function compareFiles(
  folder: string,
  sums: ReadonlyMap<string, string>,
  progress: VerifyProgress = () => undefined,
): Promise<string[]> {
  const faults: string[] = [];
  for (const [name, wanted] of sums) {
    const file = path.join(folder, name);
    const total = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
    const sum = await sumOf(file, name === DATABASE ? (done) => progress((SUM_SHARE * done) / total) : undefined);
    if (sum !== wanted) faults.push(sum === null ? `${name} is missing` : `${name} was changed: its checksum differs`);
  }
  return faults;
}

type Keys = Extract<Verified, { kind: 'good' }>['keys'] | { kind: 'wrong' } | { kind: 'damaged' };

async function checkKeys(folder: string, { key_ids }: Manifest, passphrase: string | null): Promise<Keys> {
  if (passphrase === null) return { kind: 'closed' };
  const opened = await openKeys((await readIfThere(path.join(folder, KEYS))) ?? '', passphrase);
  if (opened.kind !== 'opened') return opened;
  return isDeepStrictEqual(keyIdsOf(opened.text, KEYS), key_ids) ? opened : { kind: 'damaged' };
}

export type Facts = Pick<Manifest, 'migrations' | 'epoch' | 'counts'> & { books: Books };

export type Reading =
  | { kind: 'sound'; facts: Facts }
  /** The faults that SQLite reports. */
  | { kind: 'damaged'; faults: string[] };

/** Faults that are reported; more would not help. */
const MOST_FAULTS = 10;

/** Reads the whole file with its indexes; takes about as long as the copy. */
export async function readFacts(file: string): Promise<Reading> {
  const still = openStill(file);
  try {
    const rows = await still.raw<{ integrity_check: string }[]>(`PRAGMA integrity_check(${String(MOST_FAULTS)})`);
    const faults = rows.map((row) => row.integrity_check).filter((line) => line !== 'ok');
    if (faults.length > 0) return { kind: 'damaged', faults };
    return { kind: 'sound', facts: await facts(still) };
  } catch (error) {
    return { kind: 'damaged', faults: [error instanceof Error ? error.message : String(error)] };
  } finally {
    await still.destroy();
  }
}

async function facts(still: Knex): Promise<Facts> {
  const count = async (table: string, waiting = false): Promise<number> => {
    const query = still(table).count({ n: '*' });
    const rows = (await (waiting ? query.whereNotNull('due_at') : query)) as { n: number }[];
    return rows[0]?.n ?? 0;
  };
  const migrations = (await still('migrations').select('name').orderBy('id')) as { name: string }[];
  const [epoch] = (await still('settings').select('value').where({ name: 'epoch' })) as { value: string }[];
  return {
    migrations: migrations.map(({ name }) => name),
    epoch: Number(epoch?.value ?? 0),
    counts: {
      accounts: await count('accounts'),
      messages: await count('messages'),
      recipients: await count('deliveries'),
      waiting: await count('deliveries', true),
      events: await count('events'),
    },
    books: await balance(still),
  };
}
