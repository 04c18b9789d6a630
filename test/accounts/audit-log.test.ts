import { noAct } from '../support/harness/audit-columns.ts';
import assert from 'node:assert/strict';
import { createAuditLog, type AuditLog } from '../../src/accounts/audit-log.ts';
import { newId } from '../../src/base/id.ts';
import { StorageUnavailable, type Committer } from '../../src/storage/commit.ts';
import type { AuditRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const line = (endpoint: string): AuditRow => ({
  id: newId('aud', 1),
  at: 1,
  account_id: null,
  key_id: null,
  actor: 'key:App',
  ip: '192.0.2.1',
  method: 'GET',
  endpoint,
  status: 200,
  result: 'ok',
  error_code: null,
  request_id: 'req_1',
  ms: 1.25,
  idempotency_replayed: 0,
  user_agent: "'); DROP TABLE audit; --",
  ...noAct,
});

describe('accounts/audit-log', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let audit: AuditLog;
  let reports: { error: unknown; lost: number }[];
  let broken: boolean;

  const written = async (): Promise<string[]> => {
    // An empty unit is committed after all that was handed in before it.
    await temp.db.commit.insert({});
    const rows: AuditRow[] = await temp.db.reader<AuditRow>('audit').orderBy('id');
    return rows.map(({ endpoint }) => endpoint);
  };
  const reported = async (times: number): Promise<void> => {
    while (reports.length < times) await new Promise((resolve) => setImmediate(resolve));
  };

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
    reports = [];
    broken = false;
    const commit: Committer = {
      ...temp.db.commit,
      insert: (...args) =>
        broken ? Promise.reject(new StorageUnavailable('disk full')) : temp.db.commit.insert(...args),
    };
    audit = createAuditLog({ db: { commit }, clock, report: (error, lost) => void reports.push({ error, lost }) });
  });
  afterEach(async () => {
    broken = false;
    await audit.close();
    await temp.close();
  });

  it('has a line on disk when write resolves', async () => {
    const row = line('/v1/messages');
    await audit.write(row);
    assert.deepEqual(await temp.db.reader('audit'), [row]);
  });

  it('writes later lines together within 100 ms', async () => {
    for (const name of ['a', 'b', 'c']) audit.later(line(name));
    assert.deepEqual(await written(), []);
    clock.advance(99);
    assert.deepEqual(await written(), []);
    clock.advance(1);
    assert.deepEqual(await written(), ['a', 'b', 'c']);
    assert.equal(clock.nextAt(), null);
  });

  it('writes at once what was taken where that is asked for, and does not wait for a database that fails', async () => {
    audit.later(line('a'));
    await audit.settled();
    assert.deepEqual(await written(), ['a']);
    broken = true;
    audit.later(line('b'));
    await audit.settled();
    assert.equal(reports.length, 1);
    broken = false;
    await audit.settled();
    assert.deepEqual(await written(), ['a', 'b']);
  });

  it('does not wait where many lines came', async () => {
    for (let i = 0; i < 1000; i++) audit.later(line('x'));
    assert.equal((await written()).length, 1000);
  });

  it('writes what waits when it is closed', async () => {
    audit.later(line('last'));
    await audit.close();
    assert.deepEqual(await written(), ['last']);
    assert.equal(clock.nextAt(), null);
  });

  it('keeps lines that could not be written, says so, and tries again', async () => {
    broken = true;
    audit.later(line('a'));
    clock.advance(100);
    await reported(1);
    audit.later(line('b'));
    assert.deepEqual(
      reports.map(({ lost }) => lost),
      [0],
    );
    clock.advance(999);
    broken = false;
    assert.deepEqual(await written(), []);
    clock.advance(1);
    assert.deepEqual(await written(), ['a', 'b']);
  });

  it('writes lines once that were written although their write was not confirmed, and those that follow', async () => {
    let isLost = true;
    const commit: Committer = {
      ...temp.db.commit,
      async insert(...args) {
        await temp.db.commit.insert(...args);
        if (isLost) throw new StorageUnavailable('the database did not confirm the write in time');
      },
    };
    const own = createAuditLog({ db: { commit }, clock, report: (error, lost) => void reports.push({ error, lost }) });
    own.later(line('/v1/a'));
    clock.advance(100);
    await reported(1);
    isLost = false;
    own.later(line('/v1/b'));
    clock.advance(1000);
    await own.settled();
    assert.deepEqual(await written(), ['/v1/a', '/v1/b']);
    assert.equal(reports.length, 1);
    await own.close();
  });

  it('gives up lines only beyond its bound, and says how many', async () => {
    broken = true;
    audit.later(line('first'));
    clock.advance(100);
    await reported(1);
    const one = line('x');
    for (let i = 0; i < 50_000; i++) audit.later(one);
    assert.deepEqual(
      reports.map(({ lost }) => lost),
      [0, 1001],
    );
  });

  it('gives up what cannot be written at the end, and says how many: a full disk does not keep the program from ending', async () => {
    broken = true;
    audit.later(line('a'));
    clock.advance(100);
    audit.later(line('b'));
    await audit.close();
    assert.deepEqual(
      reports.map(({ lost }) => lost),
      [0, 2],
    );
    assert.equal(clock.nextAt(), null, 'no timer is left');
  });

  it('rejects a write that fails, since its answer must not be given', async () => {
    broken = true;
    await assert.rejects(audit.write(line('a')), StorageUnavailable);
  });
});
