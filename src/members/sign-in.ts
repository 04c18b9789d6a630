/**
 * Signs members in: password, second factor, session. Every checked try is written to the sign-in log, by which tries are
 * counted (tries.ts). A password is checked when its turn has come, and the limits are checked in that turn: concurrent tries
 * count each other, and an unchecked try does not count.
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
import { logTry, sessionSource, sourceOf, waitFor, waitForCode } from './tries.ts';

export interface SignInDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
  keyring: Keyring;
  passwords: Passwords;
  devices: KnownDevices;
  /** Is called for each limit that is reached. */
  usedUp?: UsedUp;
}

export type SignIn =
  /** `device`: the cookie that makes the browser known for this login. */
  | { kind: 'in'; token: string; device: string; member: MemberRow; codesLeft: number | null }
  /** The password was right and a code is still needed: the cookie of a session that is valid for that only. */
  | { kind: 'code'; token: string }
  | Refused;

export type Refused =
  | { kind: 'refused' }
  /** Too many tries: nothing was checked. */
  | { kind: 'wait'; seconds: number };

type LetIn = Extract<SignIn, { kind: 'in' | 'refused' }>;

/** The input of the second step. */
export interface Code {
  kind: 'app' | 'recovery';
  text: string;
}

/** The browser of a request; `device` is its cookie, '' without one. */
export interface Browsing extends Visitor {
  device: string;
}

/** The purpose that TOTP secrets are sealed for. */
export const TOTP_PURPOSE = 'second factor';
const LONGEST_EMAIL = 320;

/** Takes the first step: address and password. */
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
  const opened = await openSession(deps, { ...visitor, member, stage: 'code' });
  if (opened !== null) return { kind: 'code', token: opened.token };
  await logTry(deps, key, source, visitor, 'refused');
  return { kind: 'refused' };
}

/** Takes the second step, with the session of the first. */
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
      await logTry(deps, member.email_key, source, visitor, 'code_refused');
      return { kind: 'refused' };
    },
  );
  if (looked.kind !== 'right') return looked;
  await closeSession(deps, member.id, session.row.id);
  const { left } = looked;
  return await letIn(deps, member, visitor, { result: left === null ? 'in' : 'recovered', codesLeft: left });
}

/**
 * Checks the password again before the login itself is changed: a browser left open, or a stolen session, is not proof of the
 * owner. Wrong passwords count for this session alone, as at the sign-in.
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
  // Also checked before the turn: a source without tries left does not make others wait.
  const early = await wait();
  if (early !== null) return early;
  return await deps.passwords.inTurn(source, async ({ matches }) => {
    const late = await wait();
    if (late !== null) return late;
    const member = await findMemberByEmail(deps, emailKey);
    const isRight = await matches(password, member?.password_hash ?? null);
    if (member !== null && isRight) return { kind: 'right', member };
    await logTry(deps, emailKey, source, visitor, 'refused');
    return { kind: 'refused' };
  });
}

/** Returns whether the code is right and unused; marks it as used. */
async function takeCode({ db, clock, keyring }: SignInDeps, member: MemberRow, code: string): Promise<boolean> {
  if (member.totp_sealed === null) return false;
  const secret = keyring.open(TOTP_PURPOSE, member.totp_sealed);
  const step = stepOfCode(secret, code, clock.now(), member.totp_step);
  if (step === null) return false;
  // Of two requests with the same code at the same moment, one finds the step taken.
  const taken = await db.commit.transact((tx) =>
    tx.all('UPDATE members SET totp_step = ? WHERE id = ? AND (totp_step IS NULL OR totp_step < ?) RETURNING id', [
      step,
      member.id,
      step,
    ]),
  );
  return taken.length > 0;
}

/** Opens a session for a member who has proved their identity or has just set a password through a link, and logs the sign-in. Refuses if the proof is worth nothing any more. */
export async function letIn(
  deps: SignInDeps,
  member: MemberRow,
  visitor: Browsing,
  { result, codesLeft = null }: { result: SignInRow['result']; codesLeft?: number | null },
): Promise<LetIn> {
  const source = sourceOf(visitor.ip, deps.devices.idFor(visitor.device, member.email_key));
  const opened = await openSession(deps, { ...visitor, member, stage: 'open' });
  await logTry(deps, member.email_key, source, visitor, opened === null ? 'refused' : result);
  if (opened === null) return { kind: 'refused' };
  await deps.db.commit.transact(async (tx) => {
    await tx.run('UPDATE members SET last_sign_in_at = ? WHERE id = ?', [deps.clock.now(), member.id]);
  });
  return {
    kind: 'in',
    token: opened.token,
    device: deps.devices.after(visitor.device, member.email_key),
    member,
    codesLeft,
  };
}

/** Returns the last tries for a login, newest first, for its owner to check. */
export async function signInsOf({ db }: Pick<SignInDeps, 'db'>, emailKey: string): Promise<SignInRow[]> {
  return await db.prepared.all<SignInRow>(
    'SELECT * FROM sign_ins WHERE email_key = ? ORDER BY at DESC, id DESC LIMIT 20',
    [emailKey],
  );
}
