/** A real database in a folder of its own, for one test or one suite. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { RECORD_CHANGE } from '../../../src/messages/delivery/record.ts';
import { openDatabase, type Database } from '../../../src/storage/database.ts';

export interface TempDatabase {
  db: Database;
  folder: string;
  /** Closes the database and removes the folder. */
  close(): Promise<void>;
}

export async function openTempDatabase(): Promise<TempDatabase> {
  const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-test-'));
  const db = await openDatabase({ url: `sqlite:${path.join(folder, 'posthorn.db')}`, workOrder: [RECORD_CHANGE] });
  return {
    db,
    folder,
    async close() {
      await db.close();
      rmSync(folder, { recursive: true });
    },
  };
}
