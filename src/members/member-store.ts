/** Members: the people who sign in to the dashboard, and the accounts they may see. Administrators see all of them. */
import { newId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { addressKey, parseMailbox } from '../mail/address.ts';
import type { Connection } from '../storage/connection.ts';
import type { StoreDeps } from '../storage/database.ts';
import { insertRows, noRows, type Rows, type RowsFor } from '../storage/rows.ts';
import { replaceRecoveryCodes } from './recovery-codes.ts';
import { endSessions } from './session-store.ts';
import type { AccountRow, MemberRow, MembershipRow } from '../storage/tables.ts';

export interface NewMember {
  email: string;
  role: MemberRow['role'];
  /** The accounts that the member may see; ignored for an administrator. */
  accountIds: readonly string[];
  passwordHash: string | null;
  /** `operator` or `member:<email>`. */
  createdBy: string;
}

/** Members of one server; a larger team uses another system. */
const MOST_MEMBERS = 1000;

/** Members who get a notice about one problem of an account. */
const MOST_NOTIFIED = 20;

/** Returns the row of a new member without writing it. Throws `invalid_address`. */
export function newMember({ clock }: Pick<StoreDeps, 'clock'>, input: Omit<NewMember, 'accountIds'>): MemberRow {
  const email = checkEmail(input.email);
  const now = clock.now();
  return {
    id: newId('mem', now),
    email,
    email_key: addressKey(email),
    role: input.role,
    password_hash: input.passwordHash,
    totp_sealed: null,
    totp_step: null,
    created_at: now,
    created_by: input.createdBy,
    last_sign_in_at: null,
  };
}

/** Adds a member. Throws `invalid_address`, `already_exists` or `invalid_state`. */
export async function addMember(
  deps: StoreDeps,
  input: NewMember,
  alsoInTransaction: RowsFor<MemberRow> = noRows,
): Promise<MemberRow> {
  const row = newMember(deps, input);
  await deps.db.commit.transact(async (tx) => {
    const existing = await tx.all<{ email_key: string }>('SELECT email_key FROM members');
    if (existing.some(({ email_key }) => email_key === row.email_key))
      throw new Problem('already_exists', `There is already a member ${row.email}. Change that member.`, {
        field: 'email',
      });
    if (existing.length >= MOST_MEMBERS)
      throw new Problem('invalid_state', `There can be at most ${String(MOST_MEMBERS)} members. Remove one first.`);
    await insertRows(tx, [
      { members: [row], memberships: membershipsFor(row.id, input.accountIds) },
      alsoInTransaction(row),
    ]);
  });
  return row;
}

/** Returns the addresses that get notices about an account: of the members who see it, else of the administrators; the oldest member first. */
export async function ownersOf(db: Pick<Connection, 'all'>, accountId: string): Promise<string[]> {
  const members = await db.all<{ email: string; own: number }>(
    `SELECT email, EXISTS (SELECT 1 FROM memberships s WHERE s.member_id = m.id AND s.account_id = ?) AS own
     FROM members m ORDER BY created_at, id`,
    [accountId],
  );
  const own = members.filter((one) => one.own === 1);
  const recipients = own.length > 0 ? own : await administrators(db);
  return recipients.slice(0, MOST_NOTIFIED).map(({ email }) => email);
}

const administrators = (db: Pick<Connection, 'all'>): Promise<{ email: string }[]> =>
  db.all("SELECT email FROM members WHERE role = 'administrator' ORDER BY created_at, id");

function checkEmail(text: string): string {
  const parsed = parseMailbox(text, { smtputf8: true });
  if (parsed.kind === 'bad')
    throw new Problem('invalid_address', `This is not an e-mail address: ${parsed.why}.`, { field: 'email' });
  return parsed.mailbox.address;
}

const membershipsFor = (memberId: string, accountIds: readonly string[]): MembershipRow[] =>
  [...new Set(accountIds)].map((account_id) => ({ member_id: memberId, account_id }));

/** Returns all members, oldest first, each with the ids of its accounts. */
export async function listMembers({ db }: Pick<StoreDeps, 'db'>): Promise<(MemberRow & { accountIds: string[] })[]> {
  const members = await db.reader<MemberRow>('members').orderBy('id').limit(MOST_MEMBERS);
  const memberships = await db.reader<MembershipRow>('memberships');
  return members.map((row) => ({
    ...row,
    accountIds: memberships.filter(({ member_id }) => member_id === row.id).map(({ account_id }) => account_id),
  }));
}

export async function findMember({ db }: Pick<StoreDeps, 'db'>, id: string): Promise<MemberRow | null> {
  const [row] = await db.prepared.all<MemberRow>('SELECT * FROM members WHERE id = ?', [id]);
  return row ?? null;
}

export async function findMemberByEmail({ db }: Pick<StoreDeps, 'db'>, email: string): Promise<MemberRow | null> {
  const [row] = await db.prepared.all<MemberRow>('SELECT * FROM members WHERE email_key = ?', [addressKey(email)]);
  return row ?? null;
}

/** Returns the administrators; without one the first set-up link is needed. */
export async function listAdmins({ db }: Pick<StoreDeps, 'db'>): Promise<MemberRow[]> {
  return await db.prepared.all<MemberRow>("SELECT * FROM members WHERE role = 'administrator' ORDER BY id");
}

/** Returns the accounts that a member may see, oldest first. */
export async function accountsOf({ db }: Pick<StoreDeps, 'db'>, member: MemberRow): Promise<AccountRow[]> {
  if (member.role === 'administrator')
    return await db.prepared.all<AccountRow>("SELECT * FROM accounts ORDER BY created_at, name <> 'default', id");
  return await db.prepared.all<AccountRow>(
    'SELECT a.* FROM memberships m JOIN accounts a ON a.id = m.account_id WHERE m.member_id = ? ORDER BY a.created_at, a.id',
    [member.id],
  );
}

/** Changes a member's role and accounts. Throws `not_found`, and `invalid_state` if no administrator would be left. */
export async function changeMember(
  deps: StoreDeps,
  id: string,
  { role, accountIds }: Pick<NewMember, 'role' | 'accountIds'>,
  alsoInTransaction: () => Rows = noRows,
): Promise<void> {
  await deps.db.commit.transact(async (tx) => {
    if (role !== 'administrator') await refuseLastAdmin(tx, id);
    const rows = await tx.all('UPDATE members SET role = ? WHERE id = ? RETURNING id', [role, id]);
    if (rows.length === 0) throw new Problem('not_found', 'There is no such member.');
    await tx.run('DELETE FROM memberships WHERE member_id = ?', [id]);
    await insertRows(tx, [{ memberships: membershipsFor(id, accountIds) }, alsoInTransaction()]);
  });
}

/** Removes a member with all sessions and links. Throws `not_found`, and `invalid_state` for the last administrator. */
export async function removeMember(deps: StoreDeps, id: string, alsoInTransaction: () => Rows = noRows): Promise<void> {
  await deps.db.commit.transact(async (tx) => {
    await refuseLastAdmin(tx, id);
    const rows = await tx.all('DELETE FROM members WHERE id = ? RETURNING id', [id]);
    if (rows.length === 0) throw new Problem('not_found', 'There is no such member.');
    await insertRows(tx, [alsoInTransaction()]);
  });
}

/** Throws if this is the last administrator; one who never set a password cannot sign in and does not count. */
async function refuseLastAdmin(tx: Connection, id: string): Promise<void> {
  const [member] = await tx.all<Pick<MemberRow, 'role'>>('SELECT role FROM members WHERE id = ?', [id]);
  if (member?.role !== 'administrator') return;
  const others = await tx.all(
    "SELECT 1 FROM members WHERE role = 'administrator' AND password_hash IS NOT NULL AND id <> ? LIMIT 1",
    [id],
  );
  if (others.length === 0)
    throw new Problem(
      'invalid_state',
      'There must be an administrator who can sign in. Make another member an administrator first.',
    );
}

/** The proofs of a login that change. `step`: the last time step whose code was used; null removes the second factor. */
export interface LoginChanges {
  hash?: string;
  totp?: { sealed: string; step: number } | null;
  recoveryCodes?: readonly string[];
}

/** Changes a login, and ends every session of the member except `keep`. */
export async function changeLogin(
  deps: StoreDeps,
  id: string,
  { hash, totp, recoveryCodes, keep = '' }: LoginChanges & { keep?: string },
  alsoInTransaction: () => Rows = noRows,
): Promise<void> {
  await deps.db.commit.transact(async (tx) => {
    if (hash !== undefined) await tx.run('UPDATE members SET password_hash = ? WHERE id = ?', [hash, id]);
    if (totp !== undefined)
      await tx.run('UPDATE members SET totp_sealed = ?, totp_step = ? WHERE id = ?', [
        totp?.sealed ?? null,
        totp?.step ?? null,
        id,
      ]);
    if (recoveryCodes !== undefined) await replaceRecoveryCodes(tx, id, recoveryCodes, deps.clock.now());
    await endSessions(tx, id, keep);
    await insertRows(tx, [alsoInTransaction()]);
  });
}

export interface SecondFactorRule {
  secondFactor: 'optional' | 'administrators' | 'everyone';
}

export const needsSecondFactor = ({ secondFactor }: SecondFactorRule, { role }: Pick<MemberRow, 'role'>): boolean =>
  secondFactor === 'everyone' || (secondFactor === 'administrators' && role === 'administrator');

export const lacksSecondFactor = (rule: SecondFactorRule, member: Pick<MemberRow, 'role' | 'totp_sealed'>): boolean =>
  member.totp_sealed === null && needsSecondFactor(rule, member);
