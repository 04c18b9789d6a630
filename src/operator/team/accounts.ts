/** Operations on accounts, their audit log and their suppressions. */
import { z } from 'zod';
import { addAccount, changeAccount, findAccount, listAccounts } from '../../accounts/account-store.ts';
import { invalid, notFound } from '../../base/problem.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import type { Config } from '../../config/schema.ts';
import { type AccountRow, suppressionReasons } from '../../storage/tables.ts';
import type { Act } from '../../operations/act.ts';
import { type StoreDeps, storeRoute } from '../server-route.ts';
import { findAuditEntry, pageOfParts, type AuditOf } from '../../accounts/audit-list.ts';
import { AuditEntry, AuditEntryDetails, auditDetails, auditRecord } from '../../api/audit-list.ts';
import { each, flag, many, maybe, ofKind, text, time, whole } from '../../api/record-schema.ts';
import { Suppression } from '../../api/suppressions.ts';
import { LONGEST_NOTE, type SuppressionRecord } from '../../suppressions/suppression-store.ts';
import { addImported, ENTRIES_AT_ONCE } from '../../suppressions/suppression-csv.ts';

/** Name or id of an account; if none is given, the account `default` is used. */
export const accountArgument = z.string().min(1).max(200).optional();

const DEFAULT_ACCOUNT = 'default';
/** The plan of a new account if none is given: customers, unlike the operator, have limits. */
const USUAL_PLAN = 'standard';

const planArgument = z.string().min(1).max(100);

const exact = z.string().max(200).optional();

const written = z.string().max(1000);
const entry = z.strictObject({
  email: written,
  reason: z.enum(suppressionReasons).optional(),
  note: z.string().max(LONGEST_NOTE).nullable().optional(),
  stream: written.nullable().optional(),
  expires_at: z.iso.datetime({ offset: true }).nullable().optional(),
});

const Account = ofKind('account', {
  ...each(text(), 'id', 'name', 'plan'),
  paused: flag(),
  created_at: time(),
});
type Account = z.infer<typeof Account>;

// The schemas of the API are made from the columns, whose types they forget.
const Entry = AuditEntry as z.ZodType as z.ZodType<ReturnType<typeof auditRecord>>;
const EntryDetails = AuditEntryDetails.extend({ account_id: maybe() }) as z.ZodType as z.ZodType<
  ReturnType<typeof auditDetails> & { account_id: string | null }
>;
const Suppressed = Suppression as z.ZodType as z.ZodType<SuppressionRecord>;

export const accountOperations = {
  'accounts.add': storeRoute({
    answer: Account,
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
    answer: z.object({ data: many(Account) }),
    run: async (deps) => ({ data: (await listAccounts(deps)).map(toAccountRecord) }),
  }),
  'accounts.plan': storeRoute({
    answer: Account,
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
    answer: Account,
    act: { says: 'set whether the account {name} is paused', type: 'account', named: 'name', keeps: ['paused'] },
    body: z.strictObject({ account: z.string().min(1).max(200), paused: z.boolean() }),
    async run(deps, { account, paused }, act) {
      const row = await accountNamed(deps, account);
      act.concerns(row.id);
      return changed(act, row, await changeAccount(deps, row.id, { paused }));
    },
  }),
  /**
   * Returns the newest acts first, or with `by` the uses of keys. `server`: acts that concern no account, such as those on the queue, the settings
   * and the server itself; with `account` both, in one list. `strangers`: uses of keys that are not known, and how many were only counted.
   */
  'audit.list': storeRoute({
    answer: z.object({
      data: many(Entry),
      has_more: flag(),
      ...each(maybe(), 'next_cursor', 'previous_cursor'),
      not_kept: whole('Uses of unknown keys that were only counted.').optional(),
    }),
    body: z.strictObject({
      account: accountArgument,
      server: z.boolean().optional(),
      strangers: z.boolean().optional(),
      by: z.enum(['key', 'person']).optional(),
      limit: z.int().min(1).max(1000).optional(),
      after: exact,
      before: exact,
      since: z.int().optional(),
      until: z.int().optional(),
      key_id: exact,
      actor: exact,
      operation: exact,
      endpoint: exact,
      ip: exact,
      request_id: exact,
      object_type: exact,
      object_id: exact,
      status: z.int().optional(),
      result: z.enum(['ok', 'refused', 'failed', 'idempotency_mismatch']).optional(),
    }),
    scope: 'audit:read',
    forMembers: { server: false, strangers: false },
    async run(deps, { account, server = false, strangers = false, by, limit = 100, after, before, ...filter }) {
      const { db } = deps;
      const parts: AuditOf[] = strangers ? ['strangers'] : server ? ['server'] : [];
      if (parts.length === 0 || account !== undefined)
        parts.push({ accountId: (await accountNamed({ db }, account)).id });
      const whose = strangers ? undefined : (by ?? 'person');
      const page = await pageOfParts({ db }, parts, { ...filter, by: whose }, { limit, after, before });
      const { rows, hasMore, first, last } = page;
      const isBack = before !== undefined;
      return {
        data: rows.map(auditRecord),
        has_more: hasMore,
        next_cursor: isBack || hasMore ? last : null,
        previous_cursor: (isBack ? hasMore : after !== undefined) ? first : null,
        ...(strangers ? { not_kept: deps.strangerLines?.notKept ?? 0 } : {}),
      };
    },
  }),
  'audit.show': storeRoute({
    answer: EntryDetails,
    body: z.strictObject({ id: z.string().max(100) }),
    async run({ db }, { id }) {
      const found = await findAuditEntry({ db }, id);
      if (found === null) throw notFound('id', `there is no entry ${JSON.stringify(id)}`);
      return { ...auditDetails(found), account_id: found.row.account_id };
    },
  }),
  /** Adds the valid entries, and returns the reason for each other one. */
  'suppressions.import': storeRoute({
    answer: z.object({
      data: many(
        z.union([
          z.object({ result: z.enum(['created', 'existing']), entry: Suppressed }),
          z.object({ result: z.literal('rejected'), ...each(text(), 'email', 'why') }),
        ]),
      ),
    }),
    act: {
      says: 'put {object} on the suppression list',
      type: 'suppression',
      named: 'email',
      keeps: ['emails', 'created', 'existing', 'rejected'],
    },
    scope: 'suppression',
    body: z.strictObject({ account: accountArgument, entries: z.array(entry).min(1).max(ENTRIES_AT_ONCE) }),
    async run(deps, { account, entries }, act) {
      const { id: accountId } = await accountNamed(deps, account);
      act.concerns(accountId);
      const given = entries.map(({ email, reason = 'manual', note = null, stream = null, expires_at: end = null }) => ({
        ...{ email, reason, note, stream },
        expires_at: end,
      }));
      return addImported(deps, { accountId, createdBy: act.actor }, given, (deed) => {
        act.on(deed);
        return act.rows();
      });
    },
  }),
};

function changed(act: Act, before: AccountRow, after: AccountRow): Account {
  act.on({ before: toAccountRecord(before), after: toAccountRecord(after) });
  return toAccountRecord(after);
}

/** Returns the account with this name or id. Throws `not_found`. */
export async function accountNamed(deps: Pick<StoreDeps, 'db'>, nameOrId = DEFAULT_ACCOUNT): Promise<AccountRow> {
  const row = await findAccount(deps, nameOrId);
  if (row === null)
    throw notFound('account', `there is no account ${JSON.stringify(nameOrId)}: see \`posthorn accounts list\``);
  return row;
}

function checkPlan({ plans }: Pick<Config, 'plans'>, plan: string): void {
  if (Object.hasOwn(plans, plan)) return;
  const known = Object.keys(plans).join(', ');
  throw invalid('plan', `there is no plan ${JSON.stringify(plan)}; the plans are ${known}`);
}

function toAccountRecord({ id, name, plan, paused, created_at }: AccountRow): Account {
  return { object: 'account', id, name, plan, paused: paused === 1, created_at: rfc3339(created_at) };
}
