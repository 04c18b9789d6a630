/** Prepares a migration: takes the data folder for this process alone, and makes a backup, without which there is no way back. */
import { systemClock } from '../../base/clock.ts';
import { createBackup } from '../../backup/create.ts';
import { isPostgresUrl } from '../../base/postgres-url.ts';
import type { Config } from '../../config/schema.ts';
import { lockFolder } from '../../storage/folder-lock.ts';
import { version } from '../../version.ts';
import { Unavailable } from '../../base/unavailable.ts';

/** How many of these stay: those of the last three upgrades. */
const KEPT = 3;

/** Backs up and calls `made` with the folder, unless switched off or on PostgreSQL, whose backups are its own. Throws `Unavailable` (no_backup). */
export async function copyBeforeMigration(config: Config, made: (folder: string) => void): Promise<void> {
  const { backup, dataDir, storage } = config;
  if (!backup.beforeMigration || isPostgresUrl(storage.url)) return;
  const copy = await createBackup(
    { clock: systemClock, version },
    {
      storage,
      dataDir,
      dir: backup.dir,
      minFreeBytes: storage.minFreeBytes,
      kind: 'before-migration',
      keep: KEPT,
      passphrase: backup.passphrase,
    },
  );
  if (copy.kind === 'made') made(copy.folder);
  else
    throw new Unavailable(
      // No other start can do better: systemd does not try again with this exit code.
      copy.why === 'no_access' ? 'no_access' : 'no_backup',
      `no backup could be made before the database is migrated: ${copy.text} (backup.beforeMigration: false does without)`,
    );
}

/**
 * Runs work that makes or migrates the database, as the only process that may: a server has the lock of its folder from before it opens the
 * database until it has closed it, so also while its control socket does not answer. Throws `Unavailable` (already_running).
 */
export async function changeSchemaAlone<Result>(dataDir: string, work: () => Promise<Result>): Promise<Result> {
  const lock = await lockFolder(dataDir);
  if (lock === null)
    throw new Unavailable(
      'already_running',
      `the database cannot be made or migrated now: a server that starts or stops, or another command, has ${dataDir} for itself. Try again when it has ended`,
    );
  try {
    return await work();
  } finally {
    await lock.release();
  }
}
