/**
 * Set-up links: valid once. Without a member the link makes the first administrator; with one it sets a password and removes the
 * second factor: for new members, and for members who have lost both. The database has only the hash of a link.
 */
import { randomBytes } from 'node:crypto';
import { Problem } from '../base/problem.ts';
import { sha256Hex } from '../base/secret.ts';
import { HOUR_MS, MINUTE_MS } from '../base/time.ts';
import { insertRows, type Rows } from '../storage/rows.ts';
import type { MemberRow, SetUpLinkRow } from '../storage/tables.ts';
import type { StoreDeps } from '../storage/database.ts';

/** The life of a link that is handed over at once. */
const LIFE_MS = 30 * MINUTE_MS;
/** The life of an invitation: a weekend. */
export const INVITATION_MS = 72 * HOUR_MS;
const TOKEN_BYTES = 32;

export interface SetUpLink {
  token: string;
  expiresAt: number;
}

/** Makes a link; earlier ones for the same purpose end. `mail` makes the mail that carries it, written in the same transaction. */
export async function makeSetUpLink(
  { db, clock }: StoreDeps,
  memberId: string | null,
  {
    lifeMs = LIFE_MS,
    mail = () => ({ rows: [], messageId: null }),
  }: { lifeMs?: number; mail?: (link: SetUpLink) => { rows: readonly Rows[]; messageId: string | null } } = {},
): Promise<SetUpLink> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const now = clock.now();
  const link = { token, expiresAt: now + lifeMs };
  const { rows, messageId } = mail(link);
  const row: SetUpLinkRow = {
    token_hash: sha256Hex(token),
    member_id: memberId,
    created_at: now,
    expires_at: link.expiresAt,
    message_id: messageId,
  };
  await db.commit.transact(async (tx) => {
    await tx.run('DELETE FROM setup_links WHERE member_id IS NOT DISTINCT FROM ?', [memberId]);
    await insertRows(tx, [{ setup_links: [row] }, ...rows]);
  });
  return link;
}

/** Returns the links of members that are still valid. */
export const linksOf = async ({ db, clock }: StoreDeps): Promise<SetUpLinkRow[]> =>
  await db.prepared.all<SetUpLinkRow>('SELECT * FROM setup_links WHERE member_id IS NOT NULL AND expires_at > ?', [
    clock.now(),
  ]);

/** Returns the member of a valid link, or null. */
export async function findSetUpLink(
  { db, clock }: StoreDeps,
  token: string,
): Promise<{ member: MemberRow | null } | null> {
  const [link] = await db.prepared.all<SetUpLinkRow>(
    'SELECT * FROM setup_links WHERE token_hash = ? AND expires_at > ?',
    [sha256Hex(token), clock.now()],
  );
  if (link === undefined) return null;
  if (link.member_id === null) {
    // Such a link is void once there is an administrator.
    const admins = await db.prepared.all("SELECT 1 FROM members WHERE role = 'administrator' LIMIT 1");
    return admins.length === 0 ? { member: null } : null;
  }
  const [member] = await db.prepared.all<MemberRow>('SELECT * FROM members WHERE id = ?', [link.member_id]);
  return member === undefined ? null : { member };
}

/** Uses the link up: sets its member's password and ends the sessions, or makes the first administrator. Throws `invalid_state` for a used one. */
export function spendSetUpLink(
  { db, clock }: StoreDeps,
  token: string,
  { passwordHash, make }: { passwordHash: string; make: MemberRow | null },
): Promise<MemberRow> {
  return db.commit.transact(async (tx) => {
    const [link] = await tx.all<SetUpLinkRow>(
      'DELETE FROM setup_links WHERE token_hash = ? AND expires_at > ? RETURNING *',
      [sha256Hex(token), clock.now()],
    );
    if (link === undefined)
      throw new Problem('invalid_state', 'This link was used already, or its time is over. Ask for a new one.');
    if (link.member_id === null) {
      const admins = await tx.all("SELECT 1 FROM members WHERE role = 'administrator' LIMIT 1");
      if (make === null || admins.length > 0)
        throw new Problem('invalid_state', 'There is already an administrator. Ask them for a link of your own.');
      const others = await tx.all('SELECT 1 FROM members WHERE email_key = ?', [make.email_key]);
      if (others.length > 0)
        throw new Problem(
          'already_exists',
          `${make.email} is in the team already, with another role. Take another address.`,
          {
            field: 'email',
          },
        );
      const first = { ...make, password_hash: passwordHash };
      await insertRows(tx, [{ members: [first] }]);
      return first;
    }
    await tx.run('DELETE FROM sessions WHERE member_id = ?', [link.member_id]);
    await tx.run('DELETE FROM recovery_codes WHERE member_id = ?', [link.member_id]);
    const [member] = await tx.all<MemberRow>(
      'UPDATE members SET password_hash = ?, totp_sealed = NULL, totp_step = NULL WHERE id = ? RETURNING *',
      [passwordHash, link.member_id],
    );
    if (member === undefined) throw new Problem('invalid_state', 'This member was removed.');
    return member;
  });
}
