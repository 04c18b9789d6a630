/** Copies one moment of a PostgreSQL database into a new SQLite file, as backups have it. */
import type { CopySource } from '../copy.ts';
import type { StoreAddress } from '../database.ts';
import { migrationNames } from '../migrate.ts';
import { fillFrom } from './fill.ts';
import { openSnapshot } from './postgres.ts';
import { CopyRefusal } from './sides.ts';
import { createSqliteTarget } from './sqlite.ts';

/** Throws `DatabaseRefusal` if the database cannot be read, and `CopyRefusal` if its schema is of a later version. */
export async function openSnapshotCopy(store: StoreAddress): Promise<CopySource> {
  const source = await openSnapshot(store);
  const { steps, bytes } = source;
  // The file gets the schema that the database has; a later version may make a backup before it migrates.
  if (steps.length === 0 || steps.some((name, at) => migrationNames[at] !== name)) {
    await source.close();
    throw new CopyRefusal('schema', `the database at ${store.url} has no schema that this version knows`);
  }
  return {
    bytes,
    async copyTo(file, told = () => undefined) {
      const target = await createSqliteTarget(file, steps);
      try {
        await fillFrom(source, target, (step, done, of) => {
          told(((step === 'copying' ? 0 : of) + done) / Math.max(1, 2 * of));
        });
        await target.finish();
      } finally {
        await target.close();
      }
    },
    close: () => source.close(),
  };
}
