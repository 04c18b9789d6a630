/** Accounts: the owners of keys, domains and mail, with the plan that sets their limits. */
import { newId } from '../base/id.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import { Problem, invalid } from '../base/problem.ts';
import type { Connection } from '../storage/connection.ts';
import type { AccountRow } from '../storage/tables.ts';
import type { StoreDeps } from '../storage/database.ts';
import { insertRows } from '../storage/rows.ts';
import { firstStreams } from './stream-store.ts';

const DEFAULT_ACCOUNT = 'default';
/** The default account is the operator's own. */
const DEFAULT_PLAN = 'unlimited';

/** Returns the account `default`; makes it, with its streams, at the first start. */
export function ensureDefaultAccount(deps: StoreDeps): Promise<AccountRow> {
  return deps.db.commit.transact(
    async (tx) =>
      (await withName(tx, DEFAULT_ACCOUNT)) ?? (await insertAccount(deps, tx, DEFAULT_ACCOUNT, DEFAULT_PLAN)),
  );
}

/** Adds an account. Throws `already_exists`, or a Problem with the name. The caller checks that the plan exists: plans are settings. */
export async function addAccount(deps: StoreDeps, { name, plan }: { name: string; plan: string }): Promise<AccountRow> {
  const checked = checkName(name);
  const made = await deps.db.commit.transact(async (tx) =>
    (await withName(tx, checked)) === undefined ? await insertAccount(deps, tx, checked, plan) : null,
  );
  if (made === null)
    throw new Problem('already_exists', `There is already an account ${JSON.stringify(checked)}. Use another name.`, {
      field: 'name',
    });
  return made;
}

/** Returns all accounts, oldest first. */
export async function listAccounts({ db }: Pick<StoreDeps, 'db'>): Promise<AccountRow[]> {
  return await db.reader<AccountRow>('accounts').orderBy('id');
}

export async function findAccount({ db }: Pick<StoreDeps, 'db'>, nameOrId: string): Promise<AccountRow | null> {
  const rows = await db.reader<AccountRow>('accounts').where({ id: nameOrId }).orWhere({ name: nameOrId });
  // A name may look like the id of another account; the id wins.
  return rows.find(({ id }) => id === nameOrId) ?? rows[0] ?? null;
}

/** Changes the plan, or pauses or resumes all sending of an account, within a second. Throws `not_found`. */
export async function changeAccount(
  { db }: StoreDeps,
  accountId: string,
  { plan = null, paused }: { plan?: string | null; paused?: boolean },
): Promise<AccountRow> {
  const [row] = await db.commit.transact((tx) =>
    tx.all<AccountRow>(
      'UPDATE accounts SET plan = COALESCE(?, plan), paused = COALESCE(?, paused) WHERE id = ? RETURNING *',
      [plan, paused === undefined ? null : Number(paused), accountId],
    ),
  );
  if (row === undefined) throw new Problem('not_found', 'There is no such account.');
  return row;
}

const MOST_CACHED = 10_000;
/** A pause is in force after this time, in milliseconds. */
const PAUSE_FRESH_MS = 1000;

/** Answers from a cache, because every mail asks. */
export function createAccountPauses(deps: StoreDeps) {
  const cache = createLookUpCache<boolean>(deps, { max: MOST_CACHED, freshMs: PAUSE_FRESH_MS }, async (id) => {
    const [row] = await deps.db.prepared.all<{ paused: number }>('SELECT paused FROM accounts WHERE id = ?', [id]);
    return row?.paused === 1;
  });
  return { isPaused: (accountId: string): Promise<boolean> => cache.get(accountId) };
}

export type AccountPauses = ReturnType<typeof createAccountPauses>;

async function withName(tx: Connection, name: string): Promise<AccountRow | undefined> {
  const [row] = await tx.all<AccountRow>('SELECT * FROM accounts WHERE name = ?', [name]);
  return row;
}

async function insertAccount(
  { clock }: Pick<StoreDeps, 'clock'>,
  tx: Connection,
  name: string,
  plan: string,
  id = newId('acc', clock.now()),
): Promise<AccountRow> {
  const now = clock.now();
  const row: AccountRow = { id, name, plan, created_at: now, paused: 0 };
  await insertRows(tx, [{ accounts: [row], streams: firstStreams(row.id, now) }]);
  return row;
}

/**
 * The account of mail that this server sends itself: failure notices, notices of disabled webhooks, mail forwarded to the operator, the self-test. It
 * keeps them out of the customers' lists, numbers, quotas and webhooks. It is the last of all ids, so that it comes last in every list.
 */
export const OWN_ACCOUNT = 'acc_7zzzzzzzzzzzzzzzzzzzzzzzzz';
const OWN_NAME = "(Posthorn's own mail)";

export function createOwnAccount(deps: StoreDeps) {
  let isThere = false;
  return {
    /** Makes sure that the account exists; called before rows of it are written. */
    async ensure(): Promise<void> {
      if (isThere) return;
      await deps.db.commit.transact(async (tx) => {
        const found = await tx.all('SELECT 1 FROM accounts WHERE id = ?', [OWN_ACCOUNT]);
        if (found.length === 0) await insertAccount(deps, tx, OWN_NAME, DEFAULT_PLAN, OWN_ACCOUNT);
      });
      isThere = true;
    },
  };
}

const LONGEST_NAME = 100;

/** Returns the trimmed name. Throws `invalid_field` if it is empty or has control characters, and `field_too_long`. */
export function checkName(name: string): string {
  const trimmed = name.trim();
  if (trimmed === '' || /\p{Cc}/u.test(trimmed)) {
    throw invalid('name', 'The name needs at least one character, and no control characters.');
  }
  if (trimmed.length > LONGEST_NAME) {
    throw new Problem('field_too_long', `The name may have at most ${String(LONGEST_NAME)} characters.`, {
      field: 'name',
    });
  }
  return trimmed;
}
