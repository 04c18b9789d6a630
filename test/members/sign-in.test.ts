/** Guessing passwords and codes, by one and by many, and what it does to the owner of the login. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { openKeyring } from '../../src/base/keyring.ts';
import { budgets, type BudgetName } from '../../src/base/budgets.ts';
import type { Problem } from '../../src/base/problem.ts';
import { newId } from '../../src/base/id.ts';
import {
  createKnownDevices,
  provePassword,
  signIn,
  signInWithCode,
  TOTP_PURPOSE,
  type Browsing,
  type SignInDeps,
} from '../../src/members/sign-in.ts';
import { addMember, changeLogin } from '../../src/members/member-store.ts';
import { createPasswords, type Passwords } from '../../src/members/password.ts';
import { makeRecoveryCodes, recoveryCodesOf } from '../../src/members/recovery-codes.ts';
import { findSession, openSession, sessionsOf } from '../../src/members/session-store.ts';
import { codeAt, stepOf } from '../../src/members/totp.ts';
import type { MemberRow, SignInRow } from '../../src/storage/tables.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { oldRule } from '../support/harness/old-rule.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const ANA = 'ana@example.net';
const RIGHT = 'correct horse battery staple';
const MINUTE = 60_000;

/** Turns as they are, without the time that a hash takes. */
function quickPasswords(usedUp: (budget: BudgetName) => void): Passwords {
  const turns = createPasswords(usedUp);
  const matches = (password: string, stored: string | null): Promise<boolean> => Promise.resolve(password === stored);
  return {
    hash: (password) => Promise.resolve(password),
    inTurn: (share, work) => turns.inTurn(share, () => work({ matches })),
  };
}

describe('members/sign-in', () => {
  let temp: TempDatabase;
  let deps: SignInDeps & { clock: FakeClock };
  let ana: MemberRow;
  const usedUp: BudgetName[] = [];
  beforeEach(async () => {
    temp = await openTempDatabase();
    usedUp.length = 0;
    const note = (budget: BudgetName): void => void usedUp.push(budget);
    deps = {
      db: temp.db,
      clock: new FakeClock(),
      keyring: openKeyring(temp.folder),
      passwords: quickPasswords(note),
      devices: createKnownDevices(randomBytes(32)),
      usedUp: note,
    };
    ana = await addMember(deps, {
      email: ANA,
      role: 'administrator',
      accountIds: [],
      passwordHash: RIGHT,
      createdBy: 'operator',
    });
  });
  afterEach(() => temp.close());

  const from = (ip: string, device = ''): Browsing => ({ ip, userAgent: 'test', device });
  const tried = async (password: string, ip: string, device = '', email = ANA): Promise<string> =>
    (await signIn(deps, { email, password }, from(ip, device))).kind;
  const rows = (): Promise<SignInRow[]> => deps.db.prepared.all<SignInRow>('SELECT * FROM sign_ins ORDER BY id');
  const fail = async (
    count: number,
    sourceOf: (n: number) => string,
    result: SignInRow['result'] = 'refused',
  ): Promise<void> => {
    const at = deps.clock.now();
    await deps.db.commit.insert({
      sign_ins: Array.from({ length: count }, (_, n) => ({
        id: newId('sgn', at),
        at,
        email_key: ANA,
        ip: '192.0.2.1',
        user_agent: null,
        result,
        source: sourceOf(n),
      })),
    });
  };

  it('lets the owner in from elsewhere at the first try after fourteen wrong passwords at once', async () => {
    const tries = Array.from({ length: 14 }, () =>
      tried('wrong', '192.0.2.66').catch((error: unknown) => (error as Problem).code),
    );
    const results = await Promise.all(tries);
    assert.equal(results.filter((one) => one === 'refused').length, 3, results.join(' '));
    assert.equal((await rows()).length, 3, 'only what was looked at is noted');
    assert.equal(await tried(RIGHT, '198.51.100.7'), 'in');
    assert.equal(await tried(RIGHT, '192.0.2.66'), 'wait', 'but not from there');
  });

  it('counts a /64 as one, and another /64 apart', async () => {
    await fail(10, () => '2001:db8:1:2');
    assert.equal(await tried(RIGHT, '2001:db8:1:2:aaaa::1'), 'wait');
    assert.equal(await tried(RIGHT, '2001:db8:1:2:bbbb::9'), 'wait');
    assert.equal(await tried(RIGHT, '2001:db8:1:3::1'), 'in');
    assert.ok(usedUp.includes('sign_in_login_network'));
  });

  it('counts what one address does to all logins together', async () => {
    await fail(budgets.sign_in_network.most, () => '192.0.2.66');
    await deps.db.commit.transact((tx) => tx.run("UPDATE sign_ins SET email_key = 'n' || id"));
    assert.equal(await tried(RIGHT, '192.0.2.66'), 'wait');
    assert.ok(usedUp.includes('sign_in_network'));
    deps.clock.advance(15 * MINUTE);
    assert.equal(await tried(RIGHT, '192.0.2.66'), 'in');
  });

  it('leaves every address one try where very many addresses try one login', async () => {
    await fail(budgets.sign_in_login.most, (n) => `203.0.113.${String(n)}`);
    assert.equal(await tried('wrong', '192.0.2.1'), 'refused', 'one try');
    assert.equal(await tried('wrong', '192.0.2.1'), 'wait');
    assert.ok(usedUp.includes('sign_in_login'));
    assert.equal(await tried(RIGHT, '192.0.2.2'), 'in', 'the owner needs no more than one');
  });

  it('never keeps a member out of a device that is known, which has tries of its own', async () => {
    const first = await signIn(deps, { email: ANA, password: RIGHT }, from('192.0.2.66'));
    assert.ok(first.kind === 'in');
    await fail(60, () => '192.0.2.66');
    assert.equal(await tried(RIGHT, '192.0.2.66'), 'wait');
    assert.equal(await tried(RIGHT, '192.0.2.66', first.device), 'in', 'from the very address of the attack');
    assert.equal(
      await tried(
        RIGHT,
        '192.0.2.66',
        first.device.replace(/.$/, (last) => (last === 'x' ? 'y' : 'x')),
      ),
      'wait',
      'not with a cookie made up',
    );
    await addMember(deps, {
      email: 'bo@example.net',
      role: 'administrator',
      accountIds: [],
      passwordHash: RIGHT,
      createdBy: 'x',
    });
    assert.equal(await tried(RIGHT, '192.0.2.66', first.device, 'bo@example.net'), 'wait', 'nor for another login');
    for (let n = 0; n < 10; n++) {
      deps.clock.advance(MINUTE);
      await tried('wrong', '192.0.2.9', first.device);
      deps.clock.advance(20_000);
    }
    assert.equal(
      await tried(RIGHT, '192.0.2.9', first.device),
      'wait',
      'a stolen cookie does not open the door to guessing',
    );
    assert.equal(await tried(RIGHT, '192.0.2.9'), 'in');
  });

  it('keeps a browser known for five logins, the oldest goes', async () => {
    const { devices } = deps;
    let cookie = '';
    for (const login of ['a', 'b', 'c', 'd', 'e', 'f']) cookie = devices.after(cookie, login);
    assert.deepEqual(
      ['a', 'b', 'f'].map((login) => devices.idFor(cookie, login) !== null),
      [false, true, true],
    );
    assert.equal(devices.after(cookie, 'f'), cookie);
    for (const made of ['', 'x', `${'A'.repeat(22)}.${'A'.repeat(20)}.${'A'.repeat(20)}`])
      assert.equal(devices.idFor(made, 'f'), null);
  });

  async function withFactor(): Promise<{ code: () => string; recoveryCodes: string[] }> {
    const secret = randomBytes(20);
    const recoveryCodes = makeRecoveryCodes();
    const totp = { sealed: deps.keyring.seal(TOTP_PURPOSE, secret), step: 0 };
    await changeLogin(deps, ana.id, { totp, recoveryCodes });
    return { code: () => codeAt(secret, stepOf(deps.clock.now())), recoveryCodes };
  }

  const halfway = async (ip: string) => {
    const half = await signIn(deps, { email: ANA, password: RIGHT }, from(ip));
    assert.ok(half.kind === 'code', half.kind);
    const session = await findSession(deps, half.token);
    assert.ok(session);
    return session;
  };

  it('gives strangers ten tries together at the code, and leaves known devices and recovery codes open', async () => {
    const { code, recoveryCodes } = await withFactor();
    const session = await halfway('192.0.2.1');
    await fail(10, (n) => `203.0.113.${String(n)}`, 'code_refused');
    const app = (device = '') =>
      signInWithCode(deps, session, { kind: 'app', text: code() }, from('192.0.2.1', device));
    assert.equal((await app()).kind, 'wait');
    assert.ok(usedUp.includes('sign_in_codes'));
    const recovered = await signInWithCode(
      deps,
      session,
      { kind: 'recovery', text: recoveryCodes[0] ?? '' },
      from('192.0.2.1'),
    );
    assert.ok(recovered.kind === 'in');
    assert.equal((await app(recovered.device)).kind, 'in');
  });

  it('takes each code of an app once, of two browsers that passed the first step before', async () => {
    const { code } = await withFactor();
    const sessions = [await halfway('192.0.2.1'), await halfway('192.0.2.2')];
    const results = await Promise.all(
      sessions.map((session, n) =>
        signInWithCode(deps, session, { kind: 'app', text: code() }, from(`192.0.2.${String(n + 1)}`)),
      ),
    );
    assert.deepEqual(results.map(({ kind }) => kind).sort(), ['in', 'refused']);
  });

  it('takes each recovery code once, however it is typed', async () => {
    const { recoveryCodes } = await withFactor();
    assert.equal(recoveryCodes.length, 10);
    assert.match(recoveryCodes.join(' '), /^(?:[A-Z2-7]{4}-){3}[A-Z2-7]{4}(?: |$)/);
    const session = await halfway('192.0.2.1');
    const typed = (text: string) => signInWithCode(deps, session, { kind: 'recovery', text }, from('192.0.2.1'));
    const first = (recoveryCodes[0] ?? '').toLowerCase().replaceAll('-', ' ');
    const both = await Promise.all([typed(first), typed(first)]);
    assert.deepEqual(
      both.map(({ kind }) => kind),
      ['in', 'refused'],
    );
    assert.deepEqual([both[0].kind === 'in' && both[0].codesLeft, (await recoveryCodesOf(deps, ana.id))?.left], [9, 9]);
    assert.equal((await typed('')).kind, 'refused');
    const stored = await deps.db.prepared.all<{ code_hash: string }>('SELECT code_hash FROM recovery_codes');
    assert.ok(
      stored.every(({ code_hash }) => /^[0-9a-f]{64}$/.test(code_hash)),
      'no code is in the database',
    );
    const other = await addMember(deps, {
      email: 'bo@example.net',
      role: 'developer',
      accountIds: [],
      passwordHash: RIGHT,
      createdBy: 'x',
    });
    assert.equal(
      (
        await signInWithCode(
          deps,
          { ...session, member: other },
          { kind: 'recovery', text: recoveryCodes[1] ?? '' },
          from('192.0.2.1'),
        )
      ).kind,
      'refused',
    );
  });

  /** Has `change` happen while the password is compared. */
  function meanwhile(change: () => Promise<void>): void {
    const { passwords } = deps;
    deps.passwords = {
      ...passwords,
      inTurn: (share, work) =>
        passwords.inTurn(share, ({ matches }) =>
          work({
            async matches(password, stored) {
              const isRight = await matches(password, stored);
              await change();
              return isRight;
            },
          }),
        ),
    };
  }

  it('opens no session with a password that was replaced while it was compared', async () => {
    meanwhile(() => changeLogin(deps, ana.id, { hash: 'a better one' }));
    assert.equal(await tried(RIGHT, '192.0.2.66'), 'refused');
    assert.deepEqual(await sessionsOf(deps, ana.id), []);
    assert.deepEqual(
      (await rows()).map(({ result }) => result),
      ['refused'],
    );
  });

  it('opens no session without the second factor that was switched on while the password was compared', async () => {
    meanwhile(async () => {
      await withFactor();
    });
    assert.equal(await tried(RIGHT, '192.0.2.66'), 'refused');
    assert.deepEqual(await sessionsOf(deps, ana.id), []);
  });

  it('opens no session by a code where the password was replaced after the first step', async () => {
    const { code } = await withFactor();
    const session = await halfway('192.0.2.1');
    await changeLogin(deps, ana.id, { hash: 'a better one' });
    const second = await signInWithCode(deps, session, { kind: 'app', text: code() }, from('192.0.2.1'));
    assert.equal(second.kind, 'refused');
    assert.deepEqual(await sessionsOf(deps, ana.id), []);
  });

  it('limits the password that is asked for again by session, like the sign-in', async () => {
    const prove = (sessionId: string, password: string) =>
      provePassword(deps, { member: ana, sessionId }, password, from('192.0.2.1'));
    const results: string[] = [];
    for (let n = 0; n < 20; n++) {
      results.push((await prove('ses_stolen', `guess ${String(n)}`)).kind);
      deps.clock.advance(20_000);
    }
    assert.ok(results.filter((one) => one === 'refused').length <= 10, results.join(' '));
    assert.equal((await prove('ses_stolen', RIGHT)).kind, 'wait');
    assert.equal((await prove('ses_own', RIGHT)).kind, 'right');
    assert.equal(await tried(RIGHT, '192.0.2.1'), 'in', 'and the sign-in is as before');
  });

  it('ends other sessions with a changed factor, and every session after seven days', async () => {
    const open = async () =>
      (await openSession(deps, { member: ana, stage: 'open', ip: '192.0.2.1', userAgent: null })) ??
      assert.fail('none');
    const [mine, other] = [await open(), await open()];
    await changeLogin(deps, ana.id, { totp: null, recoveryCodes: [], keep: mine.row.id });
    assert.deepEqual(
      [(await findSession(deps, mine.token)) !== null, await findSession(deps, other.token)],
      [true, null],
    );
    for (let hours = 0; hours < 7 * 24 - 1; hours += 11) {
      assert.ok(await findSession(deps, mine.token), `after ${String(hours)} hours`);
      deps.clock.advance(11 * 3_600_000);
    }
    assert.equal(await findSession(deps, mine.token), null);
    assert.deepEqual(await sessionsOf(deps, ana.id), []);
    assert.equal(await oldRule(temp.db, deps.clock, 'old sessions').step(100, temp.db.commit), 1);
  });
});

describe('members/turns', () => {
  it('lets shares take turns, known ones first, and holds so many of one share', async () => {
    const refused: BudgetName[] = [];
    const turns = createPasswords((budget) => refused.push(budget));
    const done: string[] = [];
    let start: () => void = () => undefined;
    const first = turns.inTurn({ name: 'x', isKnown: false }, () => new Promise<void>((resolve) => (start = resolve)));
    await settleEventLoop();
    const wait = (name: string, isKnown = false) => turns.inTurn({ name, isKnown }, async () => void done.push(name));
    const many = Array.from({ length: 7 }, () =>
      wait('loud').catch((error: unknown) => void done.push((error as Problem).code)),
    );
    const others = [wait('quiet'), wait('home', true)];
    start();
    await Promise.all([first, ...many, ...others]);
    assert.deepEqual(done, [
      'service_unavailable',
      'service_unavailable',
      'home',
      'loud',
      'quiet',
      'loud',
      'loud',
      'loud',
      'loud',
    ]);
    assert.deepEqual(refused, ['sign_in_waiting_network', 'sign_in_waiting_network']);
    const names = Array.from({ length: budgets.sign_in_waiting.most + 1 }, (_, n) => String(n));
    let again: () => void = () => undefined;
    const busy = turns.inTurn({ name: 'x', isKnown: false }, () => new Promise<void>((resolve) => (again = resolve)));
    const results = Promise.allSettled(names.map((name) => wait(name)));
    await settleEventLoop();
    again();
    await busy;
    assert.equal((await results).filter(({ status }) => status === 'rejected').length, 1);
    assert.equal(refused.at(-1), 'sign_in_waiting');
  });

  it('goes on after work that failed', async () => {
    const turns = createPasswords();
    const share = { name: 'x', isKnown: false };
    const failing = turns.inTurn(share, () => Promise.reject(new Error('no')));
    const next = turns.inTurn(share, () => Promise.resolve('yes'));
    await assert.rejects(failing, /no/);
    assert.equal(await next, 'yes');
  });
});
