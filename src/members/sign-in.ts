/**
 * Signing in: password, second factor, session. Every try that is looked at stands in the sign-in log, which is what they are
 * counted by (tries.ts). A password is looked at when its turn has come, and the limits are asked in that turn: tries side by
 * side count each other, and one that is not looked at counts for nothing.
 */
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import { addressKey } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import type { MemberRow, SignInRow } from '../storage/tables.ts';
import type { KnownDevices } from './known-device.ts';
import { findMemberByEmail } from './member-store.ts';
import type { Passwords } from './password.ts';
import { spendRecoveryCode } from './recovery-codes.ts';
import { closeSession, openSession, type Session, type Visitor } from './session-store.ts';
import { stepOfCode } from './totp.ts';
import { noteTry, sessionSource, sourceOf, waitFor, waitForCode } from './tries.ts';

export interface SignInDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
  keyring: Keyring;
  passwords: Passwords;
  devices: KnownDevices;
  /** Hears of each limit that is reached. */
  usedUp?: UsedUp;
}

export type SignIn =
  /** `device`: the cookie of the browser, which is known for this login from now on. */
  | { kind: 'in'; token: string; device: string; member: MemberRow; codesLeft: number | null }
  /** The password was right, and a code is owed: the cookie of a session that is good for that alone. */
  | { kind: 'code'; token: string }
  | Refused;

export type Refused =
  | { kind: 'refused' }
  /** Too many tries: nothing was looked at. */
  | { kind: 'wait'; seconds: number };

/** What is entered in the second step. */
export interface Code {
  kind: 'app' | 'recovery';
  text: string;
}

/** A browser that asks; `device` is its cookie, '' where it has none. */
export interface Browsing extends Visitor {
  device: string;
}

/** What TOTP secrets are sealed for. */
export const TOTP_PURPOSE = 'second factor';
const LONGEST_EMAIL = 320;

/** First step: address and password. */
export async function signIn(
  deps: SignInDeps,
  { email, password }: { email: string; password: string },
  visitor: Browsing,
): Promise<SignIn> {
  const key = addressKey(email.slice(0, LONGEST_EMAIL).trim());
  const source = sourceOf(visitor.ip, deps.devices.idFor(visitor.device, key));
  const looked = await proveAs(deps, key, source, password, visitor);
  if (looked.kind !== 'right') return looked;
  const { member } = looked;
  if (member.totp_sealed === null) return await letIn(deps, member, visitor, { result: 'in' });
  const { token } = await openSession(deps, { ...visitorOf(visitor), memberId: member.id, stage: 'code' });
  return { kind: 'code', token };
}

/** Second step, with the session of the first. */
export async function signInWithCode(
  deps: SignInDeps,
  session: Session,
  code: Code,
  visitor: Browsing,
): Promise<SignIn> {
  const { member } = session;
  const source = sourceOf(visitor.ip, deps.devices.idFor(visitor.device, member.email_key));
  const wait = async (): Promise<number> =>
    Math.max(
      await waitFor(deps, member.email_key, source),
      code.kind === 'app' ? await waitForCode(deps, member.email_key, source) : 0,
    );
  const looked = await deps.passwords.inTurn(
    source,
    async (): Promise<Refused | { kind: 'right'; left: number | null }> => {
      const seconds = await wait();
      if (seconds > 0) return { kind: 'wait', seconds };
      if (code.kind === 'recovery') {
        const left = await spendRecoveryCode(deps, member.id, code.text);
        if (left !== null) return { kind: 'right', left };
      } else if (await takeCode(deps, member, code.text)) return { kind: 'right', left: null };
      await noteTry(deps, member.email_key, source, visitor, 'code_refused');
      return { kind: 'refused' };
    },
  );
  if (looked.kind !== 'right') return looked;
  await closeSession(deps, member.id, session.row.id);
  const { left } = looked;
  return await letIn(deps, member, visitor, { result: left === null ? 'in' : 'recovered', codesLeft: left });
}

/**
 * The password again, before the login itself is changed: a browser left open, or a stolen session, is not its owner. Wrong
 * ones count for this session alone, as at the sign-in.
 */
export async function provePassword(
  deps: SignInDeps,
  { member, sessionId }: { member: MemberRow; sessionId: string },
  password: string,
  visitor: Visitor,
): Promise<Refused | { kind: 'right' }> {
  return await proveAs(deps, member.email_key, sessionSource(sessionId), password, visitor);
}

async function proveAs(
  deps: SignInDeps,
  emailKey: string,
  source: ReturnType<typeof sourceOf>,
  password: string,
  visitor: Visitor,
): Promise<Refused | { kind: 'right'; member: MemberRow }> {
  const wait = async (): Promise<Refused | null> => {
    const seconds = await waitFor(deps, emailKey, source);
    return seconds > 0 ? { kind: 'wait', seconds } : null;
  };
  // Asked before the turn as well: a source that is out of tries does not keep others waiting.
  const early = await wait();
  if (early !== null) return early;
  return await deps.passwords.inTurn(source, async ({ matches }) => {
    const late = await wait();
    if (late !== null) return late;
    const member = await findMemberByEmail(deps, emailKey);
    const isRight = await matches(password, member?.password_hash ?? null);
    if (member !== null && isRight) return { kind: 'right', member };
    await noteTry(deps, emailKey, source, visitor, 'refused');
    return { kind: 'refused' };
  });
}

/** Whether the code is right and was not taken before; it is marked as used. */
async function takeCode({ db, clock, keyring }: SignInDeps, member: MemberRow, code: string): Promise<boolean> {
  if (member.totp_sealed === null) return false;
  const secret = keyring.open(TOTP_PURPOSE, member.totp_sealed);
  const step = stepOfCode(secret, code, clock.now(), member.totp_step);
  if (step === null) return false;
  // Two requests with the same code at the same moment: one of them finds the step taken.
  const taken = await db.commit.transact((tx) =>
    tx.all('UPDATE members SET totp_step = ? WHERE id = ? AND (totp_step IS NULL OR totp_step < ?) RETURNING id', [
      step,
      member.id,
      step,
    ]),
  );
  return taken.length > 0;
}

const visitorOf = ({ ip, userAgent }: Visitor): Visitor => ({ ip, userAgent });

/** Opens a session for whoever has proved to be this member; the sign-in goes into the log. */
async function letIn(
  deps: SignInDeps,
  member: MemberRow,
  visitor: Browsing,
  { result, codesLeft = null }: { result: SignInRow['result']; codesLeft?: number | null },
): Promise<Extract<SignIn, { kind: 'in' }>> {
  const source = sourceOf(visitor.ip, deps.devices.idFor(visitor.device, member.email_key));
  await noteTry(deps, member.email_key, source, visitor, result);
  await deps.db.commit.transact(async (tx) => {
    await tx.run('UPDATE members SET last_sign_in_at = ? WHERE id = ?', [deps.clock.now(), member.id]);
  });
  const { token } = await openSession(deps, { ...visitorOf(visitor), memberId: member.id, stage: 'open' });
  return { kind: 'in', token, device: deps.devices.after(visitor.device, member.email_key), member, codesLeft };
}

/** Opens a session for whoever has just set a password through a set-up link. */
export async function signInAfterSetUp(
  deps: SignInDeps,
  member: MemberRow,
  visitor: Browsing,
): Promise<Extract<SignIn, { kind: 'in' }>> {
  return await letIn(deps, member, visitor, { result: 'set_up' });
}

/** The last tries for a login, newest first: for its owner to look through. */
export async function signInsOf({ db }: Pick<SignInDeps, 'db'>, emailKey: string): Promise<SignInRow[]> {
  return await db.prepared.all<SignInRow>(
    'SELECT * FROM sign_ins WHERE email_key = ? ORDER BY at DESC, id DESC LIMIT 20',
    [emailKey],
  );
}
