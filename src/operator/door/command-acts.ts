/** Acts that commands do beside the server (backups, restores, migrations, moves), written to the audit through the running server, else directly. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { ofKind } from '../../api/record-schema.ts';
import { systemClock, type Clock } from '../../base/clock.ts';
import { environment } from '../../config/surroundings.ts';
import type { Config } from '../../config/schema.ts';
import { beginAct, commandLine, type Acting } from '../../operations/act.ts';
import type { ActWords } from '../../operations/audit-row.ts';
import type { Committer } from '../../storage/commit.ts';
import { databaseFile, openDatabase, openReader, type StoreAddress } from '../../storage/database.ts';
import { storeRoute } from '../server-route.ts';
import { callServer, jsonIn } from './client.ts';
import { socketPath, agentOf, systemUser } from './socket.ts';

export const commandActs = {
  'backup.create': {
    says: 'made the backup {backup}',
    type: 'backup',
    named: 'backup',
    keeps: ['bytes', 'keys', 'removed'],
  },
  'backup.restore': {
    says: 'restored the backup {backup}',
    type: 'backup',
    named: 'backup',
    keeps: ['created_at', 'data_dir', 'keys'],
  },
  'storage.move': { says: 'moved the database to {to}', type: 'database', named: 'to', keeps: ['from', 'to'] },
  'server.migrate': { says: 'brought the database up to date', type: 'database', keeps: ['migrations'] },
} as const satisfies Readonly<Record<string, ActWords>>;

const word = z.string().max(4096);

const note = z.strictObject({
  operation: z.enum(Object.keys(commandActs) as (keyof typeof commandActs)[]),
  /** The object, if `after` does not name it. */
  object: word.optional(),
  after: z.record(z.string().max(100), z.union([word, z.number(), z.array(word).max(1000)])).optional(),
});

export type CommandNote = z.output<typeof note>;

export const commandActOperations = {
  'audit.note': storeRoute({
    answer: ofKind('note', {}),
    body: note,
    async run({ db, clock }, noted, { acting }) {
      await writeNote({ commit: db.commit, clock }, noted, acting);
      return { object: 'note' as const };
    },
  }),
};

export async function writeNote(
  deps: { commit: Committer; clock: Clock },
  { operation, object, after }: CommandNote,
  acting: Acting,
): Promise<void> {
  const act = beginAct(deps, { name: operation, words: commandActs[operation] }, acting);
  act.on({ object: object ?? null, after: after ?? null });
  await act.done();
}

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
