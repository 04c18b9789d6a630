/** Ends a customer: mail that waits is canceled, keys end, and all rows of the account are removed. What is interrupted goes on when it is asked again. */
import { z } from 'zod';
import { each, many, ofKind, text, whole } from '../../api/record-schema.ts';
import { operatorCaller } from '../../api/inside.ts';
import { Problem, notFound } from '../../base/problem.ts';
import { pluralize } from '../../base/pluralize.ts';
import { OWN_ACCOUNT, changeAccount, findAccount } from '../../accounts/account-store.ts';
import { eraseReceivedFrom } from '../../messages/received/received-store.ts';
import { oldMessages } from '../../messages/store/purge.ts';
import { keyOf } from '../../messages/limits/limit.ts';
import type { Act } from '../../operations/act.ts';
import { type OperatorDeps, serverRoute } from '../server-route.ts';
import { mailOf, changeWaiting, countWaiting } from '../selector.ts';
import { accountNamed, accountArgument } from './accounts.ts';
import type { Committer } from '../../storage/commit.ts';
import { dialectOf } from '../../storage/sql.ts';
import { tables, type AccountRow } from '../../storage/tables.ts';
import { addressKey, parseMailbox } from '../../mail/address.ts';

/** Messages, and other rows, that are removed in one commit: other writers get their turn between. */
const MESSAGES_AT_ONCE = 50;
const ROWS_AT_ONCE = 500;

/** Records that end by an operation of their own, which tells the rest of the server. */
const ends = [
  { table: 'api_keys', live: { revoked_at: null }, operation: 'revokeKey', name: 'keys' },
  { table: 'webhooks', live: {}, operation: 'deleteWebhook', name: 'webhooks' },
  { table: 'domains', live: {}, operation: 'deleteDomain', name: 'domains' },
] as const;

export const removalOperations = {
  'accounts.remove': serverRoute({
    act: {
      says: 'removed the account {name}',
      type: 'account',
      named: 'name',
      keeps: ['id', 'name', 'plan', 'canceled', 'messages', ...ends.map(({ name }) => name)],
    },
    answer: ofKind('removed_account', {
      ...each(text(), 'id', 'name'),
      ...each(whole(), 'canceled', 'messages', ...ends.map(({ name }) => name)),
    }),
    /** `exported`: its data has been handed over, or is not needed. */
    body: z.strictObject({ account: z.string().min(1).max(200), exported: z.literal(true).optional() }),
    dryRun: async (deps, { account }) => await wouldRemove(deps, await accountNamed(deps, account)),
    async run(deps, { account, exported }, act) {
      const row = await accountNamed(deps, account);
      const { id, name, plan } = row;
      act.on({ before: { id, name, plan } });
      refuseOwn(row);
      if (exported !== true)
        throw new Problem(
          'invalid_state',
          'its data cannot be brought back: export what is needed, such as by `posthorn export messages` and `posthorn suppressions export`, and then ask again with --exported',
          { field: 'exported' },
        );
      const counts = await removeAccount(deps, row, act);
      act.on({ after: { name, ...counts } });
      return { object: 'removed_account' as const, id, name, ...counts };
    },
  }),
  /** Performs `deleteRecipient` in each account that has mailed the person, which says what goes and what stays. */
  'recipients.erase': serverRoute({
    act: {
      says: 'erased a person from the mail of all accounts',
      type: 'recipient',
      named: null,
      keeps: ['accounts', 'recipients'],
    },
    answer: ofKind('erasure', { accounts: many(text()), recipients: whole() }),
    body: z.strictObject({ email: z.string().min(1).max(1000), account: accountArgument }),
    async dryRun(deps, { email, account }) {
      const owners = await ownersOf(deps, email, account);
      const recipients = owners.reduce((sum, one) => sum + one.recipients, 0);
      const would = `erase ${pluralize(recipients, 'recipient')} of mail of ${owners.map(({ name }) => name).join(', ')}`;
      return { would, accounts: owners.length, recipients };
    },
    async run(deps, { email, account }, act) {
      const owners = await ownersOf(deps, email, account);
      for (const { id } of owners) {
        const row = await findAccount(deps, id);
        if (row === null) continue;
        const asking = { caller: operatorCaller(row), userAgent: act.acting.user_agent };
        await deps.inside.ask(asking, 'deleteRecipient', { params: { email } });
      }
      const recipients = owners.reduce((sum, one) => sum + one.recipients, 0);
      act.on({ after: { accounts: owners.length, recipients } });
      return { object: 'erasure' as const, accounts: owners.map(({ name }) => name), recipients };
    },
  }),
};

/** Throws `invalid_state` for the accounts that the server itself needs. */
function refuseOwn({ id, name }: AccountRow): void {
  if (id === OWN_ACCOUNT || name === 'default')
    throw new Problem('invalid_state', `the account ${name} cannot be removed: the server itself uses it`, {
      field: 'account',
    });
}

const idsOf = async ({ db }: OperatorDeps, { table, live }: (typeof ends)[number], accountId: string) =>
  await db
    .reader(table)
    .where({ account_id: accountId, ...live })
    .select<{ id: string }[]>('id');

async function wouldRemove(deps: OperatorDeps, account: AccountRow) {
  refuseOwn(account);
  const { id, name } = account;
  const waiting = await countWaiting(deps, await mailOf(deps, { account: id }, 0));
  const [row] = await deps.db.maintenance.all<{ n: number }>(
    'SELECT COUNT(*) AS n FROM messages WHERE account_id = ?',
    [id],
  );
  const messages = row?.n ?? 0;
  const counts: Record<string, number> = { waiting, messages };
  for (const end of ends) counts[end.name] = (await idsOf(deps, end, id)).length;
  const ended = ends.map(({ name: what }) => pluralize(counts[what] ?? 0, what.slice(0, -1))).join(', ');
  const would = `cancel ${pluralize(waiting, 'delivery', 'deliveries')}, and remove the account ${name} with ${ended} and ${pluralize(messages, 'message')}`;
  return { would, ...counts };
}

async function removeAccount(deps: OperatorDeps, account: AccountRow, act: Act) {
  refuseOwn(account);
  const { id } = account;
  const { limits, inside } = deps;
  await changeAccount(deps, id, { paused: true });
  const counts = { keys: 0, webhooks: 0, domains: 0 };
  const asking = { caller: operatorCaller(account) };
  const end = async (one: (typeof ends)[number]): Promise<void> => {
    const rows = await idsOf(deps, one, id);
    for (const row of rows) await inside.ask(asking, one.operation, { params: { id: row.id } });
    counts[one.name] = rows.length;
  };
  // The account is in no row of the audit that stays.
  const [keys, ...others] = ends;
  await end(keys);
  const canceled = await changeWaiting(deps, await mailOf(deps, { account: id }, 0), { kind: 'canceled' }, act);
  await refuseWaiting(deps, id);
  for (const one of others) await end(one);
  await limits.endByHand(limits.listByHand().flatMap((one) => (one.account === id ? [keyOf(one)] : [])));
  const messages = await removeMessages(deps, id);
  await removeReceived(deps, id);
  await removeRows(deps, id);
  return { canceled, messages, ...counts };
}

/** Mail that is on the wire cannot be canceled, and may be delivered. */
async function refuseWaiting({ db }: Pick<OperatorDeps, 'db'>, accountId: string): Promise<void> {
  const row = (await db
    .reader('deliveries')
    .where({ account_id: accountId })
    .whereNotNull('due_at')
    .first('id')) as unknown;
  if (row !== undefined)
    throw new Problem('invalid_state', 'mail of the account is being sent right now: ask again in a moment');
}

async function removeMessages({ db, clock }: OperatorDeps, accountId: string): Promise<number> {
  let removed = 0;
  for (;;) {
    const range = { accountId, before: Number.MAX_SAFE_INTEGER, after: null, most: MESSAGES_AT_ONCE };
    const rows = await oldMessages.choose(db.maintenance, range);
    if (rows.length === 0) return removed;
    await db.commit.transact((tx) => oldMessages.remove(tx, rows, clock.now()));
    removed += rows.length;
  }
}

/** Their sources do not name the account. */
async function removeReceived({ db }: OperatorDeps, accountId: string): Promise<void> {
  const reach = { accountId, onlyTest: false };
  for (let removed = -1; removed !== 0;) removed = await db.commit.transact((tx) => eraseReceivedFrom(tx, reach, null));
}

/** Removes the rows of every table that has the account in its rows: tables that others refer to are the first of the list. */
async function removeRows({ db }: OperatorDeps, accountId: string): Promise<void> {
  const { commit } = db;
  await run(
    commit,
    'DELETE FROM idempotency WHERE key_id IN (SELECT id FROM api_keys WHERE account_id = ?)',
    accountId,
  );
  for (const [table, { columns }] of Object.entries(tables).reverse()) {
    if (!Object.hasOwn(columns, 'account_id')) continue;
    const key = ['id', 'request_id'].find((name) => Object.hasOwn(columns, name));
    if (key === undefined) await run(commit, `DELETE FROM ${table} WHERE account_id = ?`, accountId);
    else await removePages(db, { table, key, accountId });
  }
  await commit.transact(async (tx) => {
    const late = await tx.all('SELECT 1 FROM messages WHERE account_id = ? LIMIT 1', [accountId]);
    if (late.length > 0) throw new Problem('invalid_state', 'mail was accepted meanwhile: ask again in a moment');
    await tx.run('DELETE FROM accounts WHERE id = ?', [accountId]);
  });
}

async function run(commit: Committer, sql: string, accountId: string): Promise<void> {
  await commit.transact((tx) => tx.run(sql, [accountId]));
}

/** The rows are found by a reader that no mail waits for: not every table has an index by account. */
async function removePages(
  db: OperatorDeps['db'],
  { table, key, accountId }: { table: string; key: string; accountId: string },
): Promise<void> {
  let after = '';
  for (;;) {
    const rows = await db.maintenance.all<{ id: string }>(
      `SELECT ${key} AS id FROM ${table} WHERE account_id = ? AND ${key} > ? ORDER BY ${key} LIMIT ?`,
      [accountId, after, ROWS_AT_ONCE],
    );
    const ids = JSON.stringify(rows.map(({ id }) => id));
    await db.commit.transact((tx) =>
      tx.run(`DELETE FROM ${table} WHERE ${key} ${dialectOf(db.reader).among('text')}`, [ids]),
    );
    after = rows.at(-1)?.id ?? after;
    if (rows.length < ROWS_AT_ONCE) return;
  }
}

interface Owner {
  id: string;
  name: string;
  recipients: number;
}

/** Returns the accounts that have mailed the person or got mail from them, with the number of these mails. Throws `not_found` if there is none. */
async function ownersOf({ db }: OperatorDeps, email: string, account: string | undefined): Promise<Owner[]> {
  const parsed = parseMailbox(email, { smtputf8: true });
  const only = account === undefined ? null : (await accountNamed({ db }, account)).id;
  const rows =
    parsed.kind === 'bad'
      ? []
      : await db.maintenance.all<Owner>(
          `SELECT a.id, a.name, COUNT(*) AS recipients FROM (
             SELECT account_id FROM deliveries WHERE address_key = ?
             UNION ALL SELECT account_id FROM received WHERE from_key = ?) d
           JOIN accounts a ON a.id = d.account_id GROUP BY a.id, a.name ORDER BY a.id`,
          [addressKey(parsed.mailbox.address), addressKey(parsed.mailbox.address)],
        );
  const found = rows.filter(({ id }) => only === null || id === only);
  if (found.length === 0) throw notFound('email', 'Nothing was sent to this address.');
  return found;
}
