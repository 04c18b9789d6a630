/** The operator as the caller of an operation of the API, in any account. */
import { Problem } from '../../base/problem.ts';
import { findAccount } from '../../accounts/account-store.ts';
import { findDomain } from '../../domains/domain-store.ts';
import { operatorCaller } from '../../api/inside.ts';
import type { Caller } from '../../keys/caller.ts';
import type { AccountRow } from '../../storage/tables.ts';
import { accountNamed } from '../team/accounts.ts';
import type { StoreDeps } from '../server-route.ts';

/**
 * Returns the operator in the account with this name or id, percent-encoded; without one in that of the object that the path names, else in
 * `default`. Operations of the server are in no account.
 */
export async function callerOf(
  deps: Pick<StoreDeps, 'db'>,
  isOfServer: boolean,
  { account, params = {} }: { account?: string | undefined; params?: Readonly<Record<string, string>> },
): Promise<Caller> {
  if (isOfServer) return operatorCaller();
  return operatorCaller(
    account === undefined ? await ownerOf(deps, params) : await accountNamed(deps, decodeURIComponent(account)),
  );
}

/** Tables of objects that the operator names without their account, by the prefix of their ids. */
const tables: ReadonlyMap<string, string> = new Map([
  ['key', 'api_keys'],
  ['msg', 'messages'],
  ['whk', 'webhooks'],
]);

/** Returns the account whose object `id` names, else the account `default`: the operation itself reports that there is no such object. */
async function ownerOf(deps: Pick<StoreDeps, 'db'>, { id }: Readonly<Record<string, string>>): Promise<AccountRow> {
  const accountId = id === undefined ? null : await accountIdOf(deps, id);
  return (accountId === null ? null : await findAccount(deps, accountId)) ?? (await accountNamed(deps));
}

async function accountIdOf(deps: Pick<StoreDeps, 'db'>, id: string): Promise<string | null> {
  const table = tables.get(id.split('_', 1)[0] ?? '');
  if (table !== undefined) {
    const row = (await deps.db.reader(table).select('account_id').where({ id }).first()) as
      { account_id: string } | undefined;
    return row?.account_id ?? null;
  }
  const domain = await findDomain(deps, { accountId: null, nameOrId: id }).catch((error: unknown) => {
    if (error instanceof Problem) return null;
    throw error;
  });
  if (domain !== null && domain.row.status !== 'verified' && id !== domain.row.id)
    await refuseUnclear(deps, domain.row.name);
  return domain?.row.account_id ?? null;
}

/** Throws a Problem if several accounts have added the name and none has verified it: the records of one would be checked for another. */
async function refuseUnclear({ db }: Pick<StoreDeps, 'db'>, name: string): Promise<void> {
  const claims = await db
    .reader('domains as d')
    .join('accounts as a', 'a.id', 'd.account_id')
    .where('d.name', name)
    .orderBy('d.id')
    .limit(10)
    .select<{ id: string; account: string }[]>('d.id as id', 'a.name as account');
  if (claims.length < 2) return;
  const named = claims.map(({ id, account }) => `${id} (${account})`).join(', ');
  throw new Problem('invalid_parameter', `Several accounts have added ${name}: name it by its id, ${named}.`);
}
