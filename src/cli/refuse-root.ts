/** Keeps root from making files that the service cannot use. */
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Config } from '../config/schema.ts';
import { Unavailable } from '../base/unavailable.ts';

/** Throws `Unavailable` for root if the database, or the folder that it would be made in, belongs to another user. */
export async function refuseRoot({ storage, dataDir }: Pick<Config, 'storage' | 'dataDir'>): Promise<void> {
  const { databaseFile } = await import('../storage/database.ts');
  const file = databaseFile(storage.url);
  const owned = file === null ? dataDir : existsSync(file) ? file : path.dirname(path.resolve(file));
  const owner = statSync(owned, { throwIfNoEntry: false })?.uid ?? 0;
  if (process.getuid?.() === 0 && owner !== 0)
    throw new Unavailable('no_access', `${owned} belongs to user ${String(owner)}: run this as that user`);
}
