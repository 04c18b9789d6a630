/** Performs operations of the API for the operator, in any account. */
import { z } from 'zod';
import { check } from '../base/check.ts';
import { Problem } from '../base/problem.ts';
import { findAccount } from '../accounts/account-store.ts';
import { findDomain } from '../domains/domain-store.ts';
import { jsonOf, operatorCaller } from '../api/inside.ts';
import type { AccountRow } from '../storage/tables.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import type { StoreDeps } from './operation.ts';
import { notRunning } from './unavailable.ts';

const texts = z.record(z.string(), z.string());

const asked = z.strictObject({
  account: accountArgument,
  params: texts.optional(),
  query: texts.optional(),
  body: z.record(z.string(), z.unknown()).optional(),
});
export type AskedByOperator = z.output<typeof asked>;

/** Returns the JSON of the answer. Throws `Unavailable` if this operation needs the running server and `deps` are not the server's. */
export async function askAsOperator(
  deps: StoreDeps,
  name: string,
  given: unknown,
  userAgent: string | null,
): Promise<unknown> {
  if (!deps.inside.has(name)) {
    if (!('mta' in deps)) throw notRunning();
    throw new Problem('not_found', `there is no operation ${JSON.stringify(name.slice(0, 100))}`);
  }
  const { account, params = {}, query = {}, body = {} } = check(asked, given);
  const row = account === undefined ? await ownerOf(deps, params) : await accountNamed(deps, account);
  const asking = { caller: operatorCaller(row), ip: null, userAgent, whenOver: () => undefined };
  return jsonOf(await deps.inside.ask(asking, name, { params, query, body }));
}

/** Tables of objects that the operator names without their account, by the prefix of their ids. */
const tables: ReadonlyMap<string, string> = new Map([
  ['key', 'api_keys'],
  ['msg', 'messages'],
  ['whk', 'webhooks'],
]);

/** Returns the account whose object `id` names, else the account `default`: the operation itself reports that there is no such object. */
async function ownerOf(deps: StoreDeps, { id }: Readonly<Record<string, string>>): Promise<AccountRow> {
  const accountId = id === undefined ? null : await accountIdOf(deps, id);
  return (accountId === null ? null : await findAccount(deps, accountId)) ?? (await accountNamed(deps));
}

async function accountIdOf(deps: StoreDeps, id: string): Promise<string | null> {
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

/** Throws a Problem where several accounts have added the name and none has verified it: the records of one would be checked for another. */
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
