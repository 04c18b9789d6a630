/** Keeps root from making files that the service cannot use. */
import { statSync } from 'node:fs';
import type { Config } from '../config/schema.ts';
import { Unavailable } from '../operator/unavailable.ts';

/** Throws `Unavailable` for root where the database, or the data folder, belongs to another user. */
export async function refuseRoot({ storage, dataDir }: Pick<Config, 'storage' | 'dataDir'>): Promise<void> {
  const { databaseFile } = await import('../storage/database.ts');
  const owned = databaseFile(storage.url) ?? dataDir;
  const owner = statSync(owned, { throwIfNoEntry: false })?.uid ?? 0;
  if (process.getuid?.() === 0 && owner !== 0)
    throw new Unavailable('no_access', `${owned} belongs to user ${String(owner)}: run this as that user`);
}
