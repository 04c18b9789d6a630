/** The settings of an account; the server's settings apply if it has none. */
import { createLookUpCache } from '../base/look-up-cache.ts';
import type { StoreDeps } from '../storage/database.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import type { AccountSettingsRow } from '../storage/tables.ts';

/** The settings to change; null goes back to the server's value. */
export type SettingsChanges = Partial<Omit<AccountSettingsRow, 'account_id' | 'updated_at'>>;

export async function accountSettings({ db }: Pick<StoreDeps, 'db'>, accountId: string): Promise<AccountSettingsRow> {
  const row = await db.reader<AccountSettingsRow>('account_settings').where({ account_id: accountId }).first();
  return row ?? noSettings(accountId);
}

const MOST_CACHED = 10_000;
/** Delay until a change by another process is seen, in milliseconds. */
const FRESH_MS = 5000;

/** Answers from a cache, because every message asks. */
export function createAccountTracking(deps: StoreDeps) {
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
    of: (accountId: string): Promise<Pick<AccountSettingsRow, 'track_opens' | 'track_clicks'>> => cache.get(accountId),
    /** Must be called when the settings change. */
    forget: (accountId: string): void => {
      cache.forget(accountId);
    },
  };
}

/** The tracking settings of accounts, used by domains without their own. */
export type AccountTracking = ReturnType<typeof createAccountTracking>;

export function changeSettings(
  { db, clock }: StoreDeps,
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
