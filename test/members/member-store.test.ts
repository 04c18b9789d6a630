import assert from 'node:assert/strict';
import { addAccount } from '../../src/accounts/account-store.ts';
import {
  accountsOf,
  addMember,
  changeMember,
  findMemberByEmail,
  listMembers,
  removeMember,
  changeLogin,
} from '../../src/members/member-store.ts';
import { closeSession, findSession, openSession, sessionsOf } from '../../src/members/session-store.ts';
import { findSetUpLink, makeSetUpLink, spendSetUpLink } from '../../src/members/setup-link.ts';
import type { MemberRow, SessionRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { oldRule } from '../support/harness/old-rule.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const HOUR = 3_600_000;
const visitor = { ip: '127.0.0.1', userAgent: 'test' };

describe('members', () => {
  let temp: TempDatabase;
  let deps: { db: TempDatabase['db']; clock: FakeClock };
  beforeEach(async () => {
    temp = await openTempDatabase();
    deps = { db: temp.db, clock: new FakeClock() };
  });
  afterEach(() => temp.close());

  const add = (
    email: string,
    role: MemberRow['role'] = 'developer',
    accountIds: string[] = [],
    passwordHash: string | null = 'hash',
  ) => addMember(deps, { email, role, accountIds, passwordHash, createdBy: 'operator' });

  it('are found by their address, however it is written', async () => {
    const { id } = await add('Ana@Example.NET');
    assert.equal((await findMemberByEmail(deps, 'ana@example.net'))?.id, id);
    await assert.rejects(add('ANA@example.net'), { code: 'already_exists' });
    for (const email of ['', 'ana', 'ana@', 'a\nb@example.net', `${'x'.repeat(300)}@example.net`])
      await assert.rejects(add(email), { code: 'invalid_address' }, email);
  });

  it('see their accounts, administrators all', async () => {
    const [one, two] = [
      await addAccount(deps, { name: 'One', plan: 'pro' }),
      await addAccount(deps, { name: 'Two', plan: 'pro' }),
    ];
    const member = await add('bo@example.net', 'developer', [two.id, two.id]);
    const admin = await add('ana@example.net', 'administrator');
    assert.deepEqual(
      (await accountsOf(deps, member)).map(({ name }) => name),
      ['Two'],
    );
    assert.deepEqual((await accountsOf(deps, admin)).map(({ name }) => name).sort(), ['One', 'Two']);
    await changeMember(deps, member.id, { role: 'developer', accountIds: [one.id] });
    assert.deepEqual(
      (await listMembers(deps)).map(({ email, accountIds }) => [email, accountIds]),
      [
        ['bo@example.net', [one.id]],
        ['ana@example.net', []],
      ],
    );
    await assert.rejects(changeMember(deps, 'mem_none', { role: 'administrator', accountIds: [] }), {
      code: 'not_found',
    });
  });

  async function opened(member: MemberRow, stage: SessionRow['stage'] = 'open') {
    return (await openSession(deps, { member, stage, ...visitor })) ?? assert.fail('no session was opened');
  }

  it('always leave an administrator who can sign in', async () => {
    const [ana, bo] = [
      await add('ana@example.net', 'administrator'),
      await add('bo@example.net', 'administrator', [], null),
    ];
    await assert.rejects(removeMember(deps, ana.id), { code: 'invalid_state' }, 'the other has no password yet');
    await assert.rejects(changeMember(deps, ana.id, { role: 'developer', accountIds: [] }), { code: 'invalid_state' });
    await changeLogin(deps, bo.id, { hash: 'hash' });
    await removeMember(deps, ana.id);
    await assert.rejects(removeMember(deps, bo.id), { code: 'invalid_state' });
  });

  it('go with their sessions and links', async () => {
    const [, bo] = [await add('ana@example.net', 'administrator'), await add('bo@example.net')];
    const { token } = await opened(bo);
    const link = await makeSetUpLink(deps, bo.id);
    await removeMember(deps, bo.id);
    assert.equal(await findSession(deps, token), null);
    assert.equal(await findSetUpLink(deps, link.token), null);
  });

  it('have sessions that end when they are idle, and a short one between password and code', async () => {
    const ana = await add('ana@example.net');
    const [{ token }, half] = [await opened(ana), await opened(ana, 'code')];
    deps.clock.advance(9 * 60_000);
    assert.ok(await findSession(deps, half.token));
    deps.clock.advance(60_000);
    assert.equal(await findSession(deps, half.token), null);
    deps.clock.advance(11 * HOUR);
    assert.ok(await findSession(deps, token));
    deps.clock.advance(11 * HOUR);
    assert.ok(await findSession(deps, token), 'the last look counts');
    assert.equal((await sessionsOf(deps, ana.id)).length, 1);
    deps.clock.advance(12 * HOUR);
    assert.equal(await findSession(deps, token), null);
    assert.equal(await oldRule(temp.db, deps.clock, 'old sessions').step(100, temp.db.commit), 2);
    assert.deepEqual(await temp.db.prepared.all('SELECT * FROM sessions'), []);
  });

  it('keep their session while the disk is full', async () => {
    const { token } = await opened(await add('ana@example.net'));
    const full = Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' });
    const commit = { ...deps.db.commit, transact: () => Promise.reject(full) };
    const onFullDisk = { ...deps, db: { ...deps.db, commit } };
    deps.clock.advance(HOUR);
    assert.ok(await findSession(onFullDisk, token));
    deps.clock.advance(12 * HOUR);
    assert.equal(await findSession(onFullDisk, token), null);
  });

  it('end their own sessions only', async () => {
    const [ana, bo] = [await add('ana@example.net'), await add('bo@example.net')];
    const { token, row } = await opened(ana);
    await closeSession(deps, bo.id, row.id);
    assert.ok(await findSession(deps, token));
    await closeSession(deps, ana.id, row.id);
    assert.equal(await findSession(deps, token), null);
  });

  for (const token of ['', 'x', '../..', 'A'.repeat(44), 'é'.repeat(43)]) {
    it(`have no session for the cookie ${JSON.stringify(token)}`, async () => {
      assert.equal(await findSession(deps, token), null);
    });
  }

  it('keep no token in the database', async () => {
    const ana = await add('ana@example.net');
    const { token } = await opened(ana);
    const link = await makeSetUpLink(deps, ana.id);
    const all = JSON.stringify([
      await temp.db.prepared.all('SELECT * FROM sessions'),
      await temp.db.prepared.all('SELECT * FROM setup_links'),
    ]);
    assert.ok(!all.includes(token) && !all.includes(link.token));
  });

  it('use a set-up link once, even two at a time', async () => {
    const { id } = await add('ana@example.net', 'administrator', [], null);
    const { token } = await makeSetUpLink(deps, id);
    const tries = await Promise.allSettled(
      [1, 2].map((n) => spendSetUpLink(deps, token, { passwordHash: `hash ${String(n)}`, make: null })),
    );
    assert.equal(tries.filter(({ status }) => status === 'fulfilled').length, 1);
  });
});
