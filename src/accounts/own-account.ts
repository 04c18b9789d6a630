/**
 * The account of mail that this server sends itself: failure notices, notices of disabled webhooks, mail forwarded to the
 * operator, the self-test. It keeps them out of the customers' lists, numbers, quotas and webhooks. It is made when it is first
 * needed.
 */
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { insertRows } from '../storage/rows.ts';
import { firstStreams } from './stream-store.ts';

/** The last of all ids, so that it comes last in every list. */
export const OWN_ACCOUNT = 'acc_7zzzzzzzzzzzzzzzzzzzzzzzzz';
const NAME = "(Posthorn's own mail)";

export function createOwnAccount({ db, clock }: { db: Pick<Database, 'commit'>; clock: Clock }) {
  let isThere = false;
  return {
    /** Makes sure that the account exists; called before rows of it are written. */
    async ensure(): Promise<void> {
      if (isThere) return;
      await db.commit.transact(async (tx) => {
        const found = await tx.all('SELECT 1 FROM accounts WHERE id = ?', [OWN_ACCOUNT]);
        if (found.length > 0) return;
        const now = clock.now();
        const row = { id: OWN_ACCOUNT, name: NAME, plan: 'unlimited', created_at: now, paused: 0 };
        await insertRows(tx, [{ accounts: [row], streams: firstStreams(row.id, now) }]);
      });
      isThere = true;
    },
  };
}
