/**
 * Sessions of the dashboard. The cookie has 256 random bits; the database has their hash, so that a copy of it opens no
 * session. A session ends after 12 hours without a request, and after seven days in any case.
 */
import { randomBytes } from 'node:crypto';
import { newId } from '../base/id.ts';
import { sha256Hex } from '../base/secret.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/time.ts';
import { isStorageTrouble } from '../storage/commit.ts';
import type { Connection } from '../storage/connection.ts';
import type { StoreDeps } from '../storage/database.ts';
import { insertRows, noRows, type Rows } from '../storage/rows.ts';
import type { MemberRow, SessionRow } from '../storage/tables.ts';

export interface Visitor {
  ip: string;
  userAgent: string | null;
  /** The session cookie that the browser came with, whose session ends with the next; '' without one. */
  sessionToken?: string;
}

export interface Session {
  row: SessionRow;
  member: MemberRow;
}

export const SESSION_IDLE_MS = 12 * HOUR_MS;
/** The longest life of a session: it limits the use of a stolen cookie. */
export const SESSION_LIFE_MS = 7 * DAY_MS;
/** Time between password and code; after it the password must be given again. */
const CODE_MS = 10 * MINUTE_MS;
/** The time of the last request is written at most this often: one write a minute, not one a page. */
const SEEN_WRITE_MS = 60_000;
const newToken = (): string => randomBytes(32).toString('base64url');
const tokenForm = /^[A-Za-z0-9_-]{43}$/;

/** The part of a member that a sign-in has proved. */
export type Proved = Pick<MemberRow, 'id' | 'password_hash' | 'totp_sealed'>;

/**
 * Opens a session in the place of the one that the browser had; returns it with the value of its cookie. Returns null if the password or
 * the second factor is another one than `member` has: it was changed since they were proved, which has ended every session.
 */
export async function openSession(
  { db, clock }: StoreDeps,
  { member, stage, ip, userAgent, sessionToken = '' }: Visitor & { member: Proved; stage: SessionRow['stage'] },
): Promise<{ token: string; row: SessionRow } | null> {
  const token = newToken();
  const now = clock.now();
  const row: SessionRow = {
    token_hash: sha256Hex(token),
    id: newId('ses', now),
    member_id: member.id,
    stage,
    account_id: null,
    created_at: now,
    seen_at: now,
    ip,
    user_agent: userAgent,
  };
  const isOpen = await db.commit.transact(async (tx) => {
    const [now] = await tx.all<Proved>('SELECT password_hash, totp_sealed FROM members WHERE id = ?', [member.id]);
    if (now?.password_hash !== member.password_hash || now.totp_sealed !== member.totp_sealed) return false;
    await tx.run('DELETE FROM sessions WHERE token_hash = ?', [sha256Hex(sessionToken)]);
    await insertRows(tx, [{ sessions: [row] }]);
    return true;
  });
  return isOpen ? { token, row } : null;
}

/** Gives the session a new cookie and returns its value: the one before opens nothing from now on. */
export async function renewSession({ db }: Pick<StoreDeps, 'db'>, id: string): Promise<string> {
  const token = newToken();
  await db.commit.transact((tx) => tx.run('UPDATE sessions SET token_hash = ? WHERE id = ?', [sha256Hex(token), id]));
  return token;
}

/** Returns the session of a cookie; null if it is unknown or has ended. `isPoll`: the page asks by itself, which does not keep the session open. */
export async function findSession(
  { db, clock }: StoreDeps,
  token: string,
  { isPoll = false }: { isPoll?: boolean } = {},
): Promise<Session | null> {
  if (!tokenForm.test(token)) return null;
  const hash = sha256Hex(token);
  const [row] = await db.prepared.all<SessionRow>('SELECT * FROM sessions WHERE token_hash = ?', [hash]);
  const now = clock.now();
  if (row === undefined || row.seen_at + (row.stage === 'code' ? CODE_MS : SESSION_IDLE_MS) <= now) return null;
  if (row.created_at + SESSION_LIFE_MS <= now) return null;
  const [member] = await db.prepared.all<MemberRow>('SELECT * FROM members WHERE id = ?', [row.member_id]);
  if (member === undefined) return null;
  if (!isPoll && row.stage === 'open' && row.seen_at + SEEN_WRITE_MS <= now)
    // The pages that tell of a full disk have to open although nothing can be written.
    await writeSeenAt({ db, clock }, hash, now).catch((error: unknown) => {
      if (!isStorageTrouble(error)) throw error;
    });
  return { row, member };
}

async function writeSeenAt({ db }: StoreDeps, hash: string, now: number): Promise<void> {
  await db.commit.transact(async (tx) => {
    await tx.run('UPDATE sessions SET seen_at = ? WHERE token_hash = ?', [now, hash]);
  });
}

export async function chooseAccount(
  { db }: StoreDeps,
  id: string,
  accountId: string,
  together: () => Rows = noRows,
): Promise<void> {
  await db.commit.transact(async (tx) => {
    await tx.run('UPDATE sessions SET account_id = ? WHERE id = ?', [accountId, id]);
    await insertRows(tx, [together()]);
  });
}

export async function closeSession(
  { db }: StoreDeps,
  memberId: string,
  id: string,
  together: () => Rows = noRows,
): Promise<void> {
  await db.commit.transact(async (tx) => {
    await tx.run('DELETE FROM sessions WHERE member_id = ? AND id = ?', [memberId, id]);
    await insertRows(tx, [together()]);
  });
}

/** Returns the open sessions of a member, newest first. */
export async function sessionsOf({ db, clock }: StoreDeps, memberId: string): Promise<SessionRow[]> {
  return await db.prepared.all<SessionRow>(
    "SELECT * FROM sessions WHERE member_id = ? AND stage = 'open' AND seen_at > ? AND created_at > ? ORDER BY created_at DESC LIMIT 50",
    [memberId, clock.now() - SESSION_IDLE_MS, clock.now() - SESSION_LIFE_MS],
  );
}

/** Ends every session of a member except `keep`, within a transaction. */
export async function endSessions(tx: Connection, memberId: string, keep: string): Promise<void> {
  await tx.run('DELETE FROM sessions WHERE member_id = ? AND id <> ?', [memberId, keep]);
}
