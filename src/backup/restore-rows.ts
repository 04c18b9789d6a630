/** Restores the rows of a backup into a PostgreSQL database. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { systemClock } from '../base/clock.ts';
import { openDatabase, type StoreAddress } from '../storage/database.ts';
import type { CopyProgress } from '../storage/move/copy-rows.ts';
import { fillFrom, whyOtherSchema } from '../storage/move/fill.ts';
import { openPostgresTarget } from '../storage/move/postgres.ts';
import { openStillFile } from '../storage/move/sqlite.ts';

export interface RowsToRestore {
  /** The copy of the database in the backup. */
  copy: string;
  storage: StoreAddress;
  dataDir: string;
  copying: CopyProgress | undefined;
}

/** Restores the rows; `placeKeys` runs before a server can start on them. Throws `CopyRefusal` and `DatabaseRefusal`. */
export async function restoreRows(
  { copy, storage, dataDir, copying = () => undefined }: RowsToRestore,
  placeKeys: () => Promise<void>,
): Promise<void> {
  const target = await openPostgresTarget(storage);
  const migrated = path.join(dataDir, 'restoring.db');
  try {
    await target.begin({ id: randomUUID(), url: path.dirname(copy), at: systemClock.now() });
    const source = await openMigrated(copy, migrated);
    try {
      await fillFrom(source, target, copying);
    } finally {
      await source.close();
    }
    await placeKeys();
    await target.finish();
  } finally {
    await target.close();
    await rm(migrated, { force: true });
  }
}

/** Opens the copy, or where its schema is older, one beside the keys that is brought up to date. */
async function openMigrated(copy: string, migrated: string) {
  const source = await openStillFile(copy);
  if (whyOtherSchema(source.steps) === null) return source;
  await source.close();
  await rm(migrated, { force: true });
  await copyFile(copy, migrated, constants.COPYFILE_FICLONE);
  await (await openDatabase({ url: `sqlite:${migrated}` })).close();
  return openStillFile(migrated);
}
