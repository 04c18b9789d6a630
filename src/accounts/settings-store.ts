/** What an account has set for itself. Where it has set nothing, the server's settings hold. */
import type { Clock } from '../base/clock.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import type { Database } from '../storage/database.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import type { AccountSettingsRow } from '../storage/tables.ts';

export interface SettingsDeps {
  db: Pick<Database, 'commit' | 'reader'>;
  clock: Clock;
}

type Setting = Exclude<keyof AccountSettingsRow, 'account_id' | 'updated_at'>;

/** Only what is given changes; null goes back to the server's value. */
export type SettingsChanges = Partial<Pick<AccountSettingsRow, Setting>>;

export async function accountSettings(
  { db }: { db: Pick<Database, 'reader'> },
  accountId: string,
): Promise<AccountSettingsRow> {
  const row = await db.reader<AccountSettingsRow>('account_settings').where({ account_id: accountId }).first();
  return row ?? noSettings(accountId);
}

/** What an account says of tracking for its domains that say nothing themselves. */
export interface AccountTracking {
  of(accountId: string): Promise<Pick<AccountSettingsRow, 'track_opens' | 'track_clicks'>>;
  /** The settings have changed. */
  forget: (accountId: string) => void;
}

const MOST_CACHED = 10_000;
/** A change by another process may take this long to be seen, in milliseconds. */
const FRESH_MS = 5000;

/** Asked for every message, hence cached. */
export function createAccountTracking(deps: { db: Pick<Database, 'prepared'>; clock: Clock }): AccountTracking {
  const cache = createLookUpCache<Pick<AccountSettingsRow, 'track_opens' | 'track_clicks'>>(
    deps,
    { max: MOST_CACHED, freshMs: FRESH_MS },
    async (id) => {
      const [row] = await deps.db.prepared.all<AccountSettingsRow>(
        'SELECT track_opens, track_clicks FROM account_settings WHERE account_id = ?',
        [id],
      );
      return row ?? noSettings(id);
    },
  );
  return {
    of: (accountId) => cache.get(accountId),
    forget: (accountId) => {
      cache.forget(accountId);
    },
  };
}

/** Writes the changes with the rows that `together` makes of the result. */
export function changeSettings(
  { db, clock }: SettingsDeps,
  accountId: string,
  changes: SettingsChanges,
  alsoInTransaction: RowsFor<AccountSettingsRow> = noRows,
): Promise<AccountSettingsRow> {
  return db.commit.transact(async (tx) => {
    const [before] = await tx.all<AccountSettingsRow>('SELECT * FROM account_settings WHERE account_id = ?', [
      accountId,
    ]);
    const row = { ...(before ?? noSettings(accountId)), ...changes, updated_at: clock.now() };
    await tx.run('DELETE FROM account_settings WHERE account_id = ?', [accountId]);
    await insertRows(tx, [{ account_settings: [row] }, alsoInTransaction(row)]);
    return row;
  });
}

const noSettings = (accountId: string): AccountSettingsRow => ({
  account_id: accountId,
  track_opens: null,
  track_clicks: null,
  content_days: null,
  messages_days: null,
  events_days: null,
  updated_at: 0,
});
