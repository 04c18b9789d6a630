/**
 * Signs members in: password, second factor, session. Every checked try is written to the sign-in log, by which tries are counted. A password is
 * checked when its turn has come, and the limits are checked in that turn: concurrent tries count each other, and an unchecked try does not count.
 */
import { budgets, type BudgetName, type UsedUp } from '../base/budgets.ts';
import type { Keyring } from '../base/keyring.ts';
import { addressKey } from '../mail/address.ts';
import type { StoreDeps } from '../storage/database.ts';
import type { MemberRow, SignInRow } from '../storage/tables.ts';
import { findMemberByEmail } from './member-store.ts';
import type { Passwords, Share } from './password.ts';
import { spendRecoveryCode } from './recovery-codes.ts';
import { closeSession, openSession, type Session, type Visitor } from './session-store.ts';
import { stepOfCode } from './totp.ts';
import { newId } from '../base/id.ts';
import { MINUTE_MS } from '../base/time.ts';
import { addressBucket } from '../net/ip.ts';
import { createHmac, randomBytes } from 'node:crypto';
import { equalInConstantTime } from '../base/secret.ts';

export interface SignInDeps extends StoreDeps {
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
  const looked = await deps.passwords.inTurn(
    source,
    async (): Promise<Refused | { kind: 'right'; left: number | null }> => {
      // A recovery code cannot be guessed.
      const seconds = await waitFor(deps, member.email_key, source, code.kind === 'app');
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
 * Checks the password again before the login itself is changed: a browser left open, or a stolen session, is not proof of the owner. Wrong passwords
 * count for this session alone, as at the sign-in.
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
  source: Share,
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
export const signInsOf = async ({ db }: Pick<SignInDeps, 'db'>, emailKey: string): Promise<SignInRow[]> =>
  await db.prepared.all<SignInRow>('SELECT * FROM sign_ins WHERE email_key = ? ORDER BY at DESC, id DESC LIMIT 20', [
    emailKey,
  ]);

/**
 * Limits wrong passwords and codes, counted by the login and the source of the try. They are counted in the sign-in log, which survives a restart; an
 * address without a login is treated like any other. A login is never locked as a whole, or any stranger with the address could lock its owner out.
 * Each source has its own tries: an IPv4 address or the /64 of an IPv6 address; a device that has signed in with this login before; a session in
 * which the password is asked again. When very many addresses try one login, each unknown one has one try left.
 */

const SPAN_MS = 15 * MINUTE_MS;
/** After this many failures the next try from the same source must wait: 1 s, 2 s, 4 s, ... */
const SLOW_AFTER = 3;
const LONGEST_AGENT = 300;

const DEVICE = 'device:';
const SESSION = 'session:';

/** Returns the source of a try. `device`: the id of the device if it is known for this login. */
const sourceOf = (ip: string, device: string | null): Share =>
  device === null ? { name: addressBucket(ip), isKnown: false } : { name: DEVICE + device, isKnown: true };

const sessionSource = (sessionId: string): Share => ({ name: SESSION + sessionId, isKnown: true });

type Tried = Pick<SignInRow, 'at' | 'result'>;

/** Returns the seconds until this login may be tried again from this source, with a code of the second factor if `isCode`; 0 for now. */
async function waitFor(
  { db, clock, usedUp = () => undefined }: SignInDeps,
  emailKey: string,
  source: Share,
  isCode = false,
): Promise<number> {
  const now = clock.now();
  const span = [now - SPAN_MS, now] as const;
  // Tries in the future are ignored: the clock was set back since.
  const mine = await db.prepared.all<Tried>(
    'SELECT at, result FROM sign_ins WHERE email_key = ? AND at > ? AND at <= ? AND source = ? ORDER BY at DESC, id DESC LIMIT ?',
    [emailKey, ...span, source.name, budgets.sign_in_login_network.most],
  );
  const failures = sinceSuccess(mine);
  const untils = [pacedUntil(failures)];
  const limit = (budget: BudgetName, until: number): void => {
    if (until > now) usedUp(budget);
    untils.push(until);
  };
  limit('sign_in_login_network', lockedUntil(failures, budgets.sign_in_login_network.most));
  if (!source.isKnown) {
    const fromHere = await db.prepared.all<Tried>(
      `SELECT at, result FROM sign_ins WHERE source = ? AND at > ? AND at <= ? AND ${FAILED} ORDER BY at DESC LIMIT ?`,
      [source.name, ...span, budgets.sign_in_network.most],
    );
    limit('sign_in_network', lockedUntil(fromHere, budgets.sign_in_network.most));
    const isTriedByMany = (await failuresOfStrangers(db, emailKey, span, FAILED, budgets.sign_in_login.most)) !== null;
    if (isTriedByMany) limit('sign_in_login', lockedUntil(failures, 1));
    // Six digits can be guessed, and the password was right: all strangers have ten tries in total.
    const { most } = budgets.sign_in_codes;
    const oldest = isCode ? await failuresOfStrangers(db, emailKey, span, "result = 'code_refused'", most) : null;
    if (oldest !== null) limit('sign_in_codes', oldest + SPAN_MS);
  }
  return Math.max(0, Math.ceil((Math.max(...untils) - now) / 1000));
}

const FAILED = "result IN ('refused', 'code_refused')";

/** Returns the time of the `most`th last failure by strangers for this login; null if there are fewer. */
async function failuresOfStrangers(
  db: SignInDeps['db'],
  emailKey: string,
  span: readonly [number, number],
  condition: string,
  most: number,
): Promise<number | null> {
  const rows = await db.prepared.all<{ at: number }>(
    `SELECT at FROM sign_ins WHERE email_key = ? AND at > ? AND at <= ? AND ${condition}
       AND source NOT LIKE '${DEVICE}%' AND source NOT LIKE '${SESSION}%' ORDER BY at DESC LIMIT 1 OFFSET ?`,
    [emailKey, ...span, most - 1],
  );
  return rows[0]?.at ?? null;
}

/** Returns the failures since the last successful sign-in, newest first. */
function sinceSuccess(tries: readonly Tried[]): Tried[] {
  const good = tries.findIndex(({ result }) => result !== 'refused' && result !== 'code_refused');
  return good < 0 ? [...tries] : tries.slice(0, good);
}

function pacedUntil(failures: readonly Tried[]): number {
  const [last] = failures;
  const slow = failures.length - SLOW_AFTER;
  return last === undefined || slow < 0 ? 0 : last.at + 1000 * 2 ** slow;
}

/** After `most` failures in the span, tries are allowed again when the oldest has left it. */
function lockedUntil(failures: readonly Tried[], most: number): number {
  const oldest = failures[most - 1];
  return oldest === undefined ? 0 : oldest.at + SPAN_MS;
}

async function logTry(
  { db, clock }: SignInDeps,
  emailKey: string,
  source: Share,
  { ip, userAgent }: Visitor,
  result: SignInRow['result'],
): Promise<void> {
  const at = clock.now();
  const user_agent = userAgent?.slice(0, LONGEST_AGENT) ?? null;
  const row = { id: newId('sgn', at), at, email_key: emailKey, ip, user_agent, result, source: source.name };
  await db.commit.insert({ sign_ins: [row] });
}

const ID_BYTES = 16;
/** Characters of a MAC: 120 bits. */
const MAC_LENGTH = 20;
/** Logins that one cookie holds; the oldest is dropped. */
const MOST_LOGINS = 5;
const form = /^([A-Za-z0-9_-]{22})((?:\.[A-Za-z0-9_-]{20}){1,6})$/;

/** `secret`: at least 32 bytes. */
export function createKnownDevices(secret: Buffer) {
  const macOf = (id: string, emailKey: string): string =>
    createHmac('sha256', secret).update(`${id}\n${emailKey}`).digest('base64url').slice(0, MAC_LENGTH);

  /** Reads a cookie. The first MAC covers the device alone: it tells our cookies from made-up ones. */
  function read(cookie: string): { id: string; macs: string[] } | null {
    const [, id = '', rest = ''] = form.exec(cookie) ?? [];
    const [own = '', ...macs] = rest.split('.').slice(1);
    return id !== '' && equalInConstantTime(own, macOf(id, '')) ? { id, macs } : null;
  }

  return {
    /** Returns the id of the device if this login has signed in from it; null otherwise. */
    idFor(cookie: string, emailKey: string): string | null {
      const device = read(cookie);
      if (device === null) return null;
      const wanted = macOf(device.id, emailKey);
      return device.macs.some((mac) => equalInConstantTime(mac, wanted)) ? device.id : null;
    },
    /** Returns the cookie after this login has signed in: the same device, the newest login first. */
    after(cookie: string, emailKey: string): string {
      const { id, macs } = read(cookie) ?? { id: randomBytes(ID_BYTES).toString('base64url'), macs: [] };
      const mine = macOf(id, emailKey);
      return [id, macOf(id, ''), mine, ...macs.filter((mac) => mac !== mine)].slice(0, 2 + MOST_LOGINS).join('.');
    },
  };
}

export type KnownDevices = ReturnType<typeof createKnownDevices>;
