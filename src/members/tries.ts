/**
 * Limits wrong passwords and codes, counted by the login and the source of the try. They are counted in the sign-in log, which
 * survives a restart; an address without a login is treated like any other.
 *
 * A login is never locked as a whole, or any stranger with the address could lock its owner out. Each source has its own tries:
 * an IPv4 address or the /64 of an IPv6 address; a device that has signed in with this login before; a session in which the
 * password is asked again. When very many addresses try one login, each unknown one has one try left.
 */
import { budgets, type UsedUp } from '../base/budgets.ts';
import { newId } from '../base/id.ts';
import { MINUTE_MS } from '../base/time.ts';
import { addressBucket } from '../net/ip.ts';
import type { SignInRow } from '../storage/tables.ts';
import type { Visitor } from './session-store.ts';
import type { Share } from './turns.ts';
import type { SessionDeps } from './session-store.ts';

export interface TryDeps extends SessionDeps {
  /** Is called for each limit that is reached. */
  usedUp?: UsedUp;
}

/** The source of a try. */
export type Source = Share;

const SPAN_MS = 15 * MINUTE_MS;
/** After this many failures the next try from the same source must wait: 1 s, 2 s, 4 s, ... */
const SLOW_AFTER = 3;
const LONGEST_AGENT = 300;

const DEVICE = 'device:';
const SESSION = 'session:';

/** Returns the source of a try. `device`: the id of the device if it is known for this login. */
export const sourceOf = (ip: string, device: string | null): Source =>
  device === null ? { name: addressBucket(ip), isKnown: false } : { name: DEVICE + device, isKnown: true };

export const sessionSource = (sessionId: string): Source => ({ name: SESSION + sessionId, isKnown: true });

type Tried = Pick<SignInRow, 'at' | 'result'>;

/** Returns the seconds until this login may be tried again from this source; 0 for now. */
export async function waitFor(
  { db, clock, usedUp = () => undefined }: TryDeps,
  emailKey: string,
  source: Source,
): Promise<number> {
  const now = clock.now();
  const span = [now - SPAN_MS, now] as const;
  // Tries in the future are ignored: the clock was set back since.
  const mine = await db.prepared.all<Tried>(
    'SELECT at, result FROM sign_ins WHERE email_key = ? AND at > ? AND at <= ? AND source = ? ORDER BY at DESC, id DESC LIMIT ?',
    [emailKey, ...span, source.name, budgets.sign_in_login_network.most],
  );
  const failures = sinceSuccess(mine);
  const paced = pacedUntil(failures);
  const untils = [paced, lockedUntil(failures, budgets.sign_in_login_network.most)];
  if ((untils[1] ?? 0) > now) usedUp('sign_in_login_network');
  if (!source.isKnown) {
    const fromHere = await db.prepared.all<Tried>(
      `SELECT at, result FROM sign_ins WHERE source = ? AND at > ? AND at <= ? AND ${FAILED} ORDER BY at DESC LIMIT ?`,
      [source.name, ...span, budgets.sign_in_network.most],
    );
    const locked = lockedUntil(fromHere, budgets.sign_in_network.most);
    if (locked > now) usedUp('sign_in_network');
    untils.push(locked);
    const isTriedByMany = (await failuresOfStrangers(db, emailKey, span, FAILED, budgets.sign_in_login.most)) !== null;
    if (failures.length > 0 && isTriedByMany) {
      usedUp('sign_in_login');
      untils.push(lockedUntil(failures, 1));
    }
  }
  return secondsUntil(untils, now);
}

/**
 * Returns the seconds until a code of the second factor may be tried; 0 for now. Six digits can be guessed, and the password
 * was right: all strangers have ten tries in total. Known devices and recovery codes, which cannot be guessed, have no such
 * limit.
 */
export async function waitForCode(
  { db, clock, usedUp = () => undefined }: TryDeps,
  emailKey: string,
  source: Source,
): Promise<number> {
  if (source.isKnown) return 0;
  const now = clock.now();
  const { most } = budgets.sign_in_codes;
  const oldest = await failuresOfStrangers(db, emailKey, [now - SPAN_MS, now], "result = 'code_refused'", most);
  if (oldest === null) return 0;
  usedUp('sign_in_codes');
  return secondsUntil([oldest + SPAN_MS], now);
}

const FAILED = "result IN ('refused', 'code_refused')";

/** Returns the time of the `most`th last failure by strangers for this login; null if there are fewer. */
async function failuresOfStrangers(
  db: TryDeps['db'],
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

const secondsUntil = (untils: readonly number[], now: number): number =>
  Math.max(0, Math.ceil((Math.max(...untils) - now) / 1000));

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

/** Writes a checked try to the log. */
export async function logTry(
  { db, clock }: TryDeps,
  emailKey: string,
  source: Source,
  { ip, userAgent }: Visitor,
  result: SignInRow['result'],
): Promise<void> {
  const at = clock.now();
  const user_agent = userAgent?.slice(0, LONGEST_AGENT) ?? null;
  const row = { id: newId('sgn', at), at, email_key: emailKey, ip, user_agent, result, source: source.name };
  await db.commit.insert({ sign_ins: [row] });
}
