/** The backup that is made before a new version changes the database: there is no other way back. */
import { systemClock } from '../base/clock.ts';
import { createBackup } from '../backup/create.ts';
import type { Config } from '../config/schema.ts';
import { version } from '../version.ts';
import { Unavailable } from './unavailable.ts';

/** How many of these stay: those of the last three upgrades. */
const KEPT = 3;

/** Calls `made` with the folder of the backup. Throws `Unavailable` (no_backup) if it cannot be made. Does nothing if the settings switch it off. */
export async function copyBeforeMigration(config: Config, made: (folder: string) => void): Promise<void> {
  const { backup, dataDir, storage } = config;
  if (!backup.beforeMigration) return;
  const copy = await createBackup(
    { clock: systemClock, version },
    {
      storage,
      dataDir,
      dir: backup.dir,
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
