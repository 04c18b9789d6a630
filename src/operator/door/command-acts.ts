/**
 * Acts of commands that do their work themselves, beside the server: backups, restores, migrations and moves. `audit.note` writes their
 * rows for the audit; `note-command.ts` finds out who writes them.
 */
import { z } from 'zod';
import { Problem } from '../../base/problem.ts';
import type { Clock } from '../../base/clock.ts';
import { beginAct, type Acting } from '../../operations/act.ts';
import type { ActWords } from '../../operations/audit-row.ts';
import type { Committer } from '../../storage/commit.ts';
import { storeRoute } from '../server-route.ts';

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

const names = [
  'backup.create',
  'backup.restore',
  'storage.move',
  'server.migrate',
] as const satisfies (keyof typeof commandActs)[];

const text = z.string().max(4096);

const note = z.strictObject({
  operation: z.enum(names),
  /** The object, if `after` does not name it. */
  object: text.optional(),
  after: z.record(z.string().max(100), z.union([text, z.number(), z.array(text).max(1000)])).optional(),
  /** Why it was refused or failed; absent if it was done. */
  fault: z.strictObject({ code: z.enum(['invalid_state', 'internal_error']), message: text }).optional(),
});

export type CommandNote = z.output<typeof note>;

export const commandActOperations = {
  'audit.note': storeRoute({
    body: note,
    async run({ db, clock }, noted, { acting }) {
      await writeNote({ commit: db.commit, clock }, noted, acting);
      return { object: 'note' as const };
    },
  }),
};

/** Writes the row of an act that has ended. */
export async function writeNote(
  deps: { commit: Committer; clock: Clock },
  { operation, object, after, fault }: CommandNote,
  acting: Acting,
): Promise<void> {
  const act = beginAct(deps, { name: operation, words: commandActs[operation] }, acting);
  act.on({ object: object ?? null, after: after ?? null });
  if (fault === undefined) await act.done();
  else await act.failed(new Problem(fault.code, fault.message));
}
