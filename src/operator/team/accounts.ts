/** Operations on accounts. */
import { z } from 'zod';
import { addAccount, changeAccount, findAccount, listAccounts } from '../../accounts/account-store.ts';
import { Problem } from '../../base/problem.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import type { Config } from '../../config/schema.ts';
import type { AccountRow } from '../../storage/tables.ts';
import type { Act } from '../../operations/act.ts';
import type { StoreDeps } from '../deps.ts';
import { storeRoute } from '../server-route.ts';

/** Name or id of an account; if none is given, the account `default` is used. */
export const accountArgument = z.string().min(1).max(200).optional();

const DEFAULT_ACCOUNT = 'default';
/** The plan of a new account if none is given: customers, unlike the operator, have limits. */
const USUAL_PLAN = 'standard';

const planArgument = z.string().min(1).max(100);

export const accountOperations = {
  'accounts.add': storeRoute({
    act: { says: 'added the account {name}', type: 'account', named: 'name', keeps: ['name', 'plan'] },
    body: z.strictObject({ name: z.string().max(1000), plan: planArgument.optional() }),
    async run(deps, { name, plan = USUAL_PLAN }, act) {
      checkPlan(deps.config, plan);
      const row = await addAccount(deps, { name, plan });
      act.concerns(row.id);
      act.on({ after: toAccountRecord(row) });
      return toAccountRecord(row);
    },
  }),
  'accounts.list': storeRoute({
    run: async (deps) => ({ data: (await listAccounts(deps)).map(toAccountRecord) }),
  }),
  'accounts.plan': storeRoute({
    act: { says: 'gave the account {name} the plan {plan}', type: 'account', named: 'name', keeps: ['plan'] },
    body: z.strictObject({ account: z.string().min(1).max(200), plan: planArgument }),
    async run(deps, { account, plan }, act) {
      checkPlan(deps.config, plan);
      const row = await accountNamed(deps, account);
      act.concerns(row.id);
      return changed(act, row, await changeAccount(deps, row.id, { plan }));
    },
  }),
  /** Refuses new mail of a paused account, and holds its waiting mail. */
  'accounts.pause': storeRoute({
    act: { says: 'set whether the account {name} is paused', type: 'account', named: 'name', keeps: ['paused'] },
    body: z.strictObject({ account: z.string().min(1).max(200), paused: z.boolean() }),
    async run(deps, { account, paused }, act) {
      const row = await accountNamed(deps, account);
      act.concerns(row.id);
      return changed(act, row, await changeAccount(deps, row.id, { paused }));
    },
  }),
};

function changed(act: Act, before: AccountRow, after: AccountRow): AccountRecord {
  act.on({ before: toAccountRecord(before), after: toAccountRecord(after) });
  return toAccountRecord(after);
}

/** Returns the account with this name or id. Throws `not_found`. */
export async function accountNamed(deps: Pick<StoreDeps, 'db'>, nameOrId = DEFAULT_ACCOUNT): Promise<AccountRow> {
  const row = await findAccount(deps, nameOrId);
  if (row === null)
    throw new Problem('not_found', `there is no account ${JSON.stringify(nameOrId)}: see \`posthorn accounts list\``, {
      field: 'account',
    });
  return row;
}

function checkPlan({ plans }: Pick<Config, 'plans'>, plan: string): void {
  if (Object.hasOwn(plans, plan)) return;
  const known = Object.keys(plans).join(', ');
  throw new Problem('invalid_field', `there is no plan ${JSON.stringify(plan)}; the plans are ${known}`, {
    field: 'plan',
  });
}

type AccountRecord = ReturnType<typeof toAccountRecord>;

function toAccountRecord({ id, name, plan, paused, created_at }: AccountRow) {
  return { object: 'account' as const, id, name, plan, paused: paused === 1, created_at: rfc3339(created_at) };
}
