/** The operation that tells how the backups stand: for the dashboard. They are made by `posthorn backup create`, beside the server. */
import { z } from 'zod';
import { backupState } from '../backup/newest.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { onStore } from './operation.ts';

export interface BackupStateRecord {
  object: 'backup_state';
  /** The setting `backup.dir`. */
  dir: string;
  count: number;
  newest: { name: string; created_at: string; bytes: number; keys: boolean; version: string } | null;
  /** Why the folder cannot be read; null where it can. */
  error: string | null;
}

export const backupOperations = {
  'backup.state': onStore({
    act: null,
    args: z.strictObject({}),
    async run({ config }): Promise<BackupStateRecord> {
      const state = await backupState(config.backup.dir);
      const { dir } = state;
      if (state.kind === 'unreadable')
        return { object: 'backup_state', dir, count: 0, newest: null, error: state.text };
      const { count, newest } = state;
      const record =
        newest === null
          ? null
          : {
              name: newest.name,
              created_at: rfc3339(newest.at),
              bytes: newest.bytes,
              keys: newest.hasKeys,
              version: newest.version,
            };
      return { object: 'backup_state', dir, count, newest: record, error: null };
    },
  }),
};
