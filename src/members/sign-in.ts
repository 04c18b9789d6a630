/**
 * Signing in: throttle, password, second factor, session. Every try that is looked at stands in the sign-in log, and the
 * log itself is what tries are counted by: it survives a restart, and an address that belongs to nobody is treated like any
 * other, so that nobody learns who has a login here.
 */
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import type { Keyring } from '../base/keyring.ts';
import { addressKey } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import type { MemberRow, SignInRow } from '../storage/tables.ts';
import { findMemberByEmail } from './member-store.ts';
import type { Passwords } from './password.ts';
import { closeSession, openSession, type Session, type Visitor } from './session-store.ts';
import { stepOfCode } from './totp.ts';

export interface SignInDeps {
  db: Pick<Database, 'commit' | 'read' | 'fast'>;
  clock: Clock;
  keyring: Keyring;
  passwords: Passwords;
}

export type SignIn =
  | { kind: 'in'; token: string; member: MemberRow }
  /** The password was right, and a code is owed: the cookie of a session that is good for that alone. */
  | { kind: 'code'; token: string }
  | { kind: 'refused' }
  /** Too many tries: nothing was looked at. */
  | { kind: 'wait'; seconds: number };

/** What TOTP secrets are sealed for. */
export const TOTP_PURPOSE = 'second factor';
const SPAN_MS = 15 * 60_000;
/** So many failures for one login lock it until they are 15 minutes old. */
const LOCK_AFTER = 10;
/** From this failure on the next try has to wait: 1 s, 2 s, 4 s, ... */
const SLOW_AFTER = 3;
/** Failures from one address, whichever logins it tried. */
const LOCK_ADDRESS_AFTER = 50;
const LONGEST_EMAIL = 320;
const LONGEST_AGENT = 300;

/** First step: address and password. */
export async function signIn(
  deps: SignInDeps,
  { email, password }: { email: string; password: string },
  visitor: Visitor,
): Promise<SignIn> {
  const key = addressKey(email.slice(0, LONGEST_EMAIL).trim());
  const seconds = await wait(deps, key, visitor.ip);
  if (seconds > 0) return { kind: 'wait', seconds };
  // Noted before the slow hash, so that tries side by side count each other; struck out when the password was right.
  const noted = await note(deps, key, visitor, 'refused');
  const member = await findMemberByEmail(deps, key);
  const isRight = await deps.passwords.matches(password, member?.password_hash ?? null);
  if (member === null || !isRight) return { kind: 'refused' };
  if (member.totp_sealed === null) return await letIn(deps, member, visitor, noted);
  await settle(deps, noted, null);
  return { kind: 'code', ...(await openSession(deps, { memberId: member.id, stage: 'code', ...visitor })) };
}

/** Second step, with the session of the first. */
export async function signInWithCode(
  deps: SignInDeps,
  session: Session,
  code: string,
  visitor: Visitor,
): Promise<SignIn> {
  const { member } = session;
  const seconds = await wait(deps, member.email_key, visitor.ip);
  if (seconds > 0) return { kind: 'wait', seconds };
  const noted = await note(deps, member.email_key, visitor, 'code_refused');
  const step = await takeCode(deps, member, code);
  if (step === null) return { kind: 'refused' };
  await closeSession(deps, member.id, session.row.id);
  return await letIn(deps, member, visitor, noted);
}

/** The time step of the code, marked as used; null where the code is wrong or was taken before. */
async function takeCode({ db, clock, keyring }: SignInDeps, member: MemberRow, code: string): Promise<number | null> {
  if (member.totp_sealed === null) return null;
  const secret = keyring.open(TOTP_PURPOSE, member.totp_sealed);
  const step = stepOfCode(secret, code, clock.now(), member.totp_step);
  if (step === null) return null;
  // Two requests with the same code at the same moment: one of them finds the step taken.
  const taken = await db.commit.transact((tx) =>
    tx.all('UPDATE members SET totp_step = ? WHERE id = ? AND (totp_step IS NULL OR totp_step < ?) RETURNING id', [
      step,
      member.id,
      step,
    ]),
  );
  return taken.length === 0 ? null : step;
}

/** Opens a session for who has proved to be this member; the sign-in goes into the log as `in`. */
async function letIn(deps: SignInDeps, member: MemberRow, visitor: Visitor, noted: string): Promise<SignIn> {
  await settle(deps, noted, { memberId: member.id, result: 'in' });
  const { token } = await openSession(deps, { memberId: member.id, stage: 'open', ...visitor });
  return { kind: 'in', token, member };
}

/** Opens a session for who has just set a password through a set-up link. */
export async function signInAfterSetUp(deps: SignInDeps, member: MemberRow, visitor: Visitor): Promise<string> {
  await settle(deps, await note(deps, member.email_key, visitor, 'refused'), { memberId: member.id, result: 'set_up' });
  const { token } = await openSession(deps, { memberId: member.id, stage: 'open', ...visitor });
  return token;
}

/** Writes a try into the log. */
async function note(
  { db, clock }: SignInDeps,
  emailKey: string,
  { ip, userAgent }: Visitor,
  result: SignInRow['result'],
): Promise<string> {
  const at = clock.now();
  const id = newId('sgn', at);
  const user_agent = userAgent?.slice(0, LONGEST_AGENT) ?? null;
  await db.commit.insert({ sign_ins: [{ id, at, email_key: emailKey, ip, user_agent, result }] });
  return id;
}

/** The try was a good one: into the log as such, or, with half the way still to go, out of it. */
async function settle(
  { db, clock }: SignInDeps,
  id: string,
  good: { memberId: string; result: 'in' | 'set_up' } | null,
): Promise<void> {
  await db.commit.transact(async (tx) => {
    if (good === null) {
      await tx.run('DELETE FROM sign_ins WHERE id = ?', [id]);
      return;
    }
    await tx.run('UPDATE sign_ins SET result = ? WHERE id = ?', [good.result, id]);
    await tx.run('UPDATE members SET last_sign_in_at = ? WHERE id = ?', [clock.now(), good.memberId]);
  });
}

type Tried = Pick<SignInRow, 'at' | 'result'>;

/** Seconds until this login may be tried again from this address; 0 for now. */
async function wait({ db, clock }: SignInDeps, emailKey: string, ip: string): Promise<number> {
  const now = clock.now();
  const since = now - SPAN_MS;
  // Tries that a clock noted which has been set back since count neither against the login nor for it.
  const forLogin = await db.fast.all<Tried>(
    'SELECT at, result FROM sign_ins WHERE email_key = ? AND at > ? AND at <= ? ORDER BY at DESC, id DESC LIMIT ?',
    [emailKey, since, now, LOCK_AFTER],
  );
  const fromAddress = await db.fast.all<Tried>(
    "SELECT at, result FROM sign_ins WHERE ip = ? AND at > ? AND at <= ? AND result NOT IN ('in', 'set_up') ORDER BY at DESC LIMIT ?",
    [ip, since, now, LOCK_ADDRESS_AFTER],
  );
  const until = Math.max(freeAt(sinceSuccess(forLogin)), locked(fromAddress, LOCK_ADDRESS_AFTER));
  return Math.max(0, Math.ceil((until - now) / 1000));
}

/** The failures after the last sign-in that went well, newest first. */
function sinceSuccess(tries: readonly Tried[]): Tried[] {
  const good = tries.findIndex(({ result }) => result === 'in' || result === 'set_up');
  return good < 0 ? [...tries] : tries.slice(0, good);
}

function freeAt(failures: readonly Tried[]): number {
  const [last] = failures;
  const slow = failures.length - SLOW_AFTER;
  const paced = last === undefined || slow < 0 ? 0 : last.at + 1000 * 2 ** slow;
  return Math.max(paced, locked(failures, LOCK_AFTER));
}

/** With `most` failures in the span, it is free again when the oldest of them has left the span. */
function locked(failures: readonly Tried[], most: number): number {
  const oldest = failures[most - 1];
  return oldest === undefined ? 0 : oldest.at + SPAN_MS;
}

/** The last tries for a login, newest first: for its owner to look through. */
export async function signInsOf({ db }: Pick<SignInDeps, 'db'>, emailKey: string): Promise<SignInRow[]> {
  return await db.fast.all<SignInRow>('SELECT * FROM sign_ins WHERE email_key = ? ORDER BY at DESC, id DESC LIMIT 20', [
    emailKey,
  ]);
}
