/**
 * The bytes of exports on PostgreSQL, where several nodes may each be asked for a file: each step of an export is a row of `export_parts`,
 * written with the step, and a node that is asked for the file of a finished export makes its own copy of it from them. On SQLite there is
 * one node, which writes the file itself.
 */
import { constants } from 'node:fs';
import { mkdir, open, stat } from 'node:fs/promises';
import path from 'node:path';
import { Problem } from '../base/problem.ts';
import type { Connection } from '../storage/connection.ts';
import type { Database } from '../storage/database.ts';
import type { ExportRow } from '../storage/tables.ts';

/** Adds the bytes from this place on. */
export const addPart = (tx: Connection, id: string, at: number, bytes: Buffer): Promise<void> =>
  tx.run('INSERT INTO export_parts (export_id, at, bytes) VALUES (?, ?, ?)', [id, at, bytes]);

/**
 * Makes the file of a finished export on this node, unless it is there. Several at once write the same bytes. Throws `not_found` where its
 * parts are gone, for example since the database was restored from a backup.
 */
export async function requireFile(
  { engine, maintenance }: Pick<Database, 'engine' | 'maintenance'>,
  { id, bytes_done: whole }: Pick<ExportRow, 'id' | 'bytes_done'>,
  file: string,
): Promise<void> {
  const found = await stat(file).catch(() => null);
  if (found?.size === whole) return;
  if (engine === 'sqlite') throw gone();
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  // Another request may be writing it: it is not emptied.
  const written = await open(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    for (let at = 0; at < whole;) {
      const [part] = await maintenance.all<{ bytes: Buffer }>(
        'SELECT bytes FROM export_parts WHERE export_id = ? AND at = ?',
        [id, at],
      );
      if (part === undefined) throw gone();
      await written.write(part.bytes, 0, part.bytes.length, at);
      at += part.bytes.length;
    }
    await written.truncate(whole);
  } finally {
    await written.close();
  }
}

const gone = (): Problem => new Problem('not_found', 'The file is gone. Export it again.');
