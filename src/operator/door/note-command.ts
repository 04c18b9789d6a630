/** Writes the audit row of a command that does its work itself: through the running server, else directly. */
import { existsSync } from 'node:fs';
import { systemClock } from '../../base/clock.ts';
import { environment } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { commandLine, type Acting } from '../../operations/act.ts';
import { databaseFile, openDatabase, openReader, type StoreAddress } from '../../storage/database.ts';
import { writeNote, type CommandNote } from './command-acts.ts';
import { callServer, jsonIn } from './client.ts';
import { socketPath } from './socket.ts';
import { agentOf, systemUser } from './system-user.ts';

/**
 * Writes the row. Without a server it is not written if there is no database, or one that would have to be migrated first, such
 * as one restored from the backup of an older version: the backup must stay as it is until a server or `migrate` takes it over.
 */
export async function noteCommand(config: Pick<Config, 'dataDir' | 'storage'>, noted: CommandNote): Promise<void> {
  const answer = await callServer(socketPath(config.dataDir), 'audit.note', { body: noted });
  if (answer !== null) {
    await jsonIn(answer);
    return;
  }
  const { storage } = config;
  if (!(await isCurrent(storage))) return;
  const db = await openDatabase(storage);
  try {
    await writeNote({ commit: db.commit, clock: systemClock }, noted, atCommandLine());
  } finally {
    await db.close();
  }
}

/** Returns whether there is a database and this version does not have to migrate it. */
export async function isCurrent(storage: StoreAddress): Promise<boolean> {
  const file = databaseFile(storage.url);
  if (file !== null && !existsSync(file)) return false;
  const { waiting, close } = await openReader(storage);
  await close();
  return waiting.length === 0;
}

/** Returns the person who runs this command, for the audit. */
export const atCommandLine = (): Acting => ({ ...commandLine, user_agent: agentOf(systemUser(environment())) });
