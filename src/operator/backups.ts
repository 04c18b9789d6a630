/** The operation that reports on the backups, for the dashboard; null on PostgreSQL, whose backups are its own. `posthorn backup create` makes them, in a separate process. */
import { backupState } from '../backup/folder.ts';
import { isPostgresUrl } from '../base/postgres-url.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { storeRoute } from './server-route.ts';

export const backupOperations = {
  'backup.state': storeRoute({
    async run({ config, clock }) {
      if (isPostgresUrl(config.storage.url)) return null;
      const state = await backupState(config.backup.dir, clock.now());
      const head = { object: 'backup_state' as const, dir: state.dir };
      if (state.kind === 'unreadable') return { ...head, count: 0, newest: null, error: state.text };
      const { count, newest } = state;
      const record =
        newest === null
          ? null
          : {
              name: newest.name,
              created_at: rfc3339(newest.at),
              bytes: newest.bytes,
              keys: newest.hasKeys,
            };
      return { ...head, count, newest: record, error: null };
    },
  }),
};
