/**
 * Saved views: named filters of the dashboard's pages, for all who see the account. Members whose role only reads use them, and
 * do not save any: `send` is the right that they lack and the other roles have. A view is its maker's to change.
 */
import { z } from 'zod';
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { insertRows } from '../storage/rows.ts';
import type { SavedViewRow } from '../storage/tables.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onStore } from './operation.ts';
import { ofOthersArgument, ownOnly, refuseOthers } from './owners.ts';

/** Views of an account. */
const MOST = 20;
/** The pages whose filters can be saved. */
export const viewPages = ['/messages', '/events', '/stats', '/developer/log', '/developer/actions'] as const;
const page = z.enum(viewPages);

export const savedViewOperations = {
  'views.list': onStore({
    act: null,
    scope: 'message:read',
    args: z.strictObject({ account: accountArgument, page }),
    async run({ db }, { account, page: of }) {
      const { id } = await accountNamed({ db }, account);
      const rows = await db
        .reader<SavedViewRow>('saved_views')
        .where({ account_id: id, page: of })
        .orderBy('name')
        .limit(MOST);
      return { data: rows.map(viewRecord) };
    },
  }),
  /** Saves a view; one of the same page and name that its maker saved before is replaced. */
  'views.save': onStore({
    act: { says: 'saved the view {name}', type: 'view', named: 'name', keeps: ['page', 'name', 'query'] },
    scope: 'send',
    forMembers: ownOnly,
    args: z.strictObject({
      account: accountArgument,
      page,
      name: z.string().trim().min(1).max(60),
      query: z.string().max(2000),
      of_others: ofOthersArgument,
    }),
    async run({ db, clock }, { account, page: of, name, query, of_others: ofOthers }, act) {
      const { id: accountId } = await accountNamed({ db }, account);
      act.concerns(accountId);
      const now = clock.now();
      const row: SavedViewRow = {
        id: newId('viw', now),
        account_id: accountId,
        page: of,
        name,
        query,
        created_at: now,
        created_by: act.actor,
      };
      await db.commit.transact(async (tx) => {
        const replaced = await tx.all<SavedViewRow>(
          'DELETE FROM saved_views WHERE account_id = ? AND page = ? AND name = ? RETURNING *',
          [accountId, of, name],
        );
        for (const one of replaced) refuseOthers(`the view “${name}”`, one, act, ofOthers);
        const others = await tx.all<{ id: string }>('SELECT id FROM saved_views WHERE account_id = ?', [accountId]);
        if (others.length >= MOST)
          throw new Problem(
            'invalid_state',
            `An account can have at most ${String(MOST)} saved views. Remove one first.`,
          );
        await insertRows(tx, [{ saved_views: [row] }]);
      });
      act.on({ after: viewRecord(row) });
      return viewRecord(row);
    },
  }),
  'views.remove': onStore({
    act: { says: 'removed the view {name}', type: 'view', named: 'name', keeps: ['page', 'name', 'query'] },
    scope: 'send',
    forMembers: ownOnly,
    args: z.strictObject({ account: accountArgument, id: z.string().max(64), of_others: ofOthersArgument }),
    async run({ db }, { account, id, of_others: ofOthers }, act) {
      const { id: accountId } = await accountNamed({ db }, account);
      act.concerns(accountId);
      const row = await db.commit.transact(async (tx) => {
        const [gone] = await tx.all<SavedViewRow>(
          'DELETE FROM saved_views WHERE account_id = ? AND id = ? RETURNING *',
          [accountId, id],
        );
        if (gone === undefined) throw new Problem('not_found', 'There is no such view.', { field: 'id' });
        refuseOthers(`the view “${gone.name}”`, gone, act, ofOthers);
        return gone;
      });
      act.on({ before: viewRecord(row) });
      return viewRecord(row);
    },
  }),
};

const viewRecord = (row: SavedViewRow) => ({
  object: 'view' as const,
  id: row.id,
  page: row.page,
  name: row.name,
  query: row.query,
  created_at: rfc3339(row.created_at),
  created_by: row.created_by,
});
