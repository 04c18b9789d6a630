/** Steps of the rules of retention on a real database: what they choose ahead, and what others do in between. */
import { noAct } from '../support/harness/audit-columns.ts';
import assert from 'node:assert/strict';
import { newId } from '../../src/base/id.ts';
import { takeStep, type Rule, type Step } from '../../src/housekeeping/housekeeping.ts';
import { retentionRules } from '../../src/housekeeping/retention.ts';
import { oldContents, oldMessages } from '../../src/messages/store/purge.ts';
import { eraseContent } from '../../src/messages/store/erase.ts';
import { balance } from '../../src/messages/store/books.ts';
import type { AuditRow, EventRow, ReportRow } from '../../src/storage/tables.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { ACCOUNT, NOW, acceptedMail, contentRow } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const DAY = 86_400_000;
const OTHER = 'acc_00000000000000000000000002';
const BULK = 'bat_00000000000000000000000001';

const retention = {
  content: 30 * DAY,
  messages: 90 * DAY,
  events: 90 * DAY,
  audit: 90 * DAY,
  reports: 90 * DAY,
  requestDetails: 30 * DAY,
};

describe('housekeeping/retention', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let rules: Map<string, Rule>;

  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
    rules = new Map(retentionRules({ db: temp.db, clock, retention }).map((rule) => [rule.name, rule]));
    await temp.db.commit.insert({
      accounts: [ACCOUNT, OTHER].map((id, n) => ({
        id,
        name: `a${String(n)}`,
        plan: 'pro',
        created_at: NOW,
        paused: 0,
      })),
    });
  });
  afterEach(() => temp.close());

  const step = async (name: string, rows: number): Promise<Step> => {
    const rule = rules.get(name);
    return rule === undefined ? { rows: -1, more: false } : takeStep(rule, rows, temp.db.commit);
  };
  const left = async (table: string, where = 'true'): Promise<number> =>
    (await temp.db.prepared.all<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table} WHERE ${where}`))[0]?.n ?? -1;

  /** Finished messages of an account, each with a body of its own unless one is given. Returns their ids, oldest first. */
  async function finished(accountId: string, count: number, shared?: string): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < count; n++) {
      const { rows, message } = acceptedMail({ account_id: accountId, status: 'bounced', due_at: null });
      const content = shared ?? newId('cnt', NOW);
      Object.assign(message, {
        account_id: accountId,
        content_id: content,
        batch_id: shared === undefined ? null : BULK,
      });
      const contents = shared === undefined ? [contentRow({ id: content, account_id: accountId })] : [];
      await temp.db.commit.insert({ ...rows, contents });
      ids.push(message.id);
    }
    return ids.sort();
  }

  it('goes account by account, and says of each step how many went and whether something is left', async () => {
    await finished(ACCOUNT, 7);
    await finished(OTHER, 3);
    assert.deepEqual(await step('old messages', 5), { rows: 0, more: false }, 'nothing is old');
    clock.advance(91 * DAY);
    assert.deepEqual(await step('old messages', 5), { rows: 5, more: true });
    assert.deepEqual(await step('old messages', 5), { rows: 2, more: true });
    assert.deepEqual(await step('old messages', 5), { rows: 3, more: false });
    assert.deepEqual([await left('messages'), await left('contents'), await left('deliveries')], [0, 0, 0]);
    const books = await balance(temp.db.reader);
    assert.ok(books.balanced, books.faults.join());
  });

  it('chooses anew what was chosen ahead long ago', async () => {
    await temp.db.commit.transact((tx) =>
      tx.run('INSERT INTO account_settings (account_id, messages_days, updated_at) VALUES (?, 10, ?)', [ACCOUNT, NOW]),
    );
    await finished(ACCOUNT, 7);
    clock.advance(11 * DAY);
    assert.deepEqual(await step('old messages', 5), { rows: 5, more: true });
    await temp.db.commit.transact((tx) => tx.run('UPDATE account_settings SET messages_days = 60'));
    clock.advance(3_600_000);
    assert.deepEqual(await step('old messages', 5), { rows: 0, more: false });
    assert.equal(await left('messages'), 2);
  });

  it('keeps nothing longer than the server does, whatever an account asks for', async () => {
    await temp.db.commit.transact((tx) =>
      tx.run('INSERT INTO account_settings (account_id, messages_days, updated_at) VALUES (?, 365, ?)', [ACCOUNT, NOW]),
    );
    await finished(ACCOUNT, 2);
    clock.advance(91 * DAY);
    assert.deepEqual(await step('old messages', 5), { rows: 2, more: false });
  });

  it('leaves a body to the messages of its bulk send that stay, and takes it with the last', async () => {
    const shared = contentRow({ id: newId('cnt', NOW) });
    await temp.db.commit.insert({ contents: [shared] });
    await finished(ACCOUNT, 6, shared.id);
    clock.advance(91 * DAY);
    await step('old messages', 5);
    assert.deepEqual([await left('messages'), await left('contents')], [1, 1]);
    await step('old messages', 5);
    assert.deepEqual([await left('messages'), await left('contents')], [0, 0]);
  });

  const setWaiting = (id: string, due: number | null): Promise<void> =>
    temp.db.commit.transact((tx) => tx.run('UPDATE deliveries SET due_at = ? WHERE message_id = ?', [due, id]));
  const bodiesOf = async (ids: readonly string[]): Promise<boolean[]> => {
    const rows = await temp.db.prepared.all<{ id: string }>(
      'SELECT m.id FROM messages m JOIN contents c ON c.id = m.content_id',
    );
    return ids.map((id) => rows.some((row) => row.id === id));
  };

  it('passes over a message that waits, and takes its body when it is finished', async () => {
    const ids = await finished(ACCOUNT, 6);
    const late = ids[1] ?? '';
    await setWaiting(late, NOW);
    clock.advance(31 * DAY);
    assert.deepEqual(await step('old bodies', 3), { rows: 3, more: true });
    assert.deepEqual(await step('old bodies', 3), { rows: 3, more: false });
    assert.deepEqual(await bodiesOf(ids), [false, true, false, false, false, false]);
    assert.deepEqual(await step('old bodies', 3), { rows: 0, more: false }, 'it still waits');
    await setWaiting(late, null);
    assert.deepEqual(await step('old bodies', 3), { rows: 1, more: false });
    assert.equal(await left('contents'), 0);
    assert.deepEqual(await step('old bodies', 3), { rows: 0, more: false }, 'it is not looked at again');
  });

  it('takes what was passed over before it goes on, and does not begin again', async () => {
    const ids = await finished(ACCOUNT, 5);
    for (const id of ids.slice(0, 3)) await setWaiting(id, NOW);
    clock.advance(31 * DAY);
    while ((await step('old bodies', 2)).rows > 0);
    assert.deepEqual(await bodiesOf(ids), [true, true, true, false, false]);
    for (const id of ids.slice(0, 3)) await setWaiting(id, null);
    const later = await finished(ACCOUNT, 3);
    clock.advance(31 * DAY);
    const rows: number[] = [];
    for (let done = await step('old bodies', 2); done.rows > 0; done = await step('old bodies', 2))
      rows.push(done.rows);
    assert.deepEqual(rows, [2, 1, 2, 1]);
    assert.equal(await left('contents'), 0);
    assert.deepEqual(await bodiesOf([...ids, ...later]), Array(8).fill(false));
  });

  it('leaves the body of a bulk send to an earlier message that waits', async () => {
    const shared = contentRow({ id: newId('cnt', NOW) });
    await temp.db.commit.insert({ contents: [shared] });
    const ids = await finished(ACCOUNT, 4, shared.id);
    await setWaiting(ids[0] ?? '', NOW);
    clock.advance(31 * DAY);
    assert.deepEqual(await step('old bodies', 5), { rows: 4, more: false });
    assert.equal(await left('contents'), 1);
    await setWaiting(ids[0] ?? '', null);
    clock.advance(3_600_000);
    assert.deepEqual(await step('old bodies', 5), { rows: 1, more: false });
    assert.equal(await left('contents'), 0);
  });

  it('leaves no shared body behind where the message that kept it was erased', async () => {
    const shared = contentRow({ id: newId('cnt', NOW) });
    await temp.db.commit.insert({ contents: [shared] });
    const ids = await finished(ACCOUNT, 4, shared.id);
    const first = ids[0] ?? '';
    await setWaiting(first, NOW);
    clock.advance(31 * DAY);
    await step('old bodies', 5);
    assert.equal(await left('contents'), 1);
    await setWaiting(first, null);
    const message = { id: first, account_id: ACCOUNT, content_id: shared.id, batch_id: BULK };
    await eraseContent({ db: temp.db }, message);
    assert.equal(await left('contents'), 0);
  });

  it('keeps a shared body for a message that was passed over, and that its account keeps longer now', async () => {
    const shared = contentRow({ id: newId('cnt', NOW) });
    await temp.db.commit.insert({ contents: [shared] });
    const ids = await finished(ACCOUNT, 2, shared.id);
    const [passed = '', other = ''] = ids;
    await setWaiting(passed, NOW);
    await setWaiting(other, NOW);
    clock.advance(31 * DAY);
    await step('old bodies', 5);
    for (const id of ids) await setWaiting(id, null);
    await eraseContent({ db: temp.db }, { id: other, account_id: ACCOUNT, content_id: shared.id, batch_id: BULK });
    assert.equal(await left('contents'), 1);
    clock.advance(3_600_000);
    assert.deepEqual(await step('old bodies', 5), { rows: 2, more: false });
    assert.equal(await left('contents'), 0);
  });

  it('keeps a body that was passed over as long as its account asks by then', async () => {
    const setDays = (days: number): Promise<void> =>
      temp.db.commit.transact(async (tx) => {
        await tx.run('DELETE FROM account_settings');
        const sql = 'INSERT INTO account_settings (account_id, content_days, updated_at) VALUES (?, ?, ?)';
        await tx.run(sql, [ACCOUNT, days, NOW]);
      });
    await setDays(1);
    const ids = await finished(ACCOUNT, 3);
    await setWaiting(ids[0] ?? '', NOW);
    clock.advance(2 * DAY);
    await step('old bodies', 5);
    assert.deepEqual(await bodiesOf(ids), [true, false, false]);
    await setDays(20);
    await setWaiting(ids[0] ?? '', null);
    assert.deepEqual(await step('old bodies', 5), { rows: 0, more: false });
    clock.advance(20 * DAY);
    assert.deepEqual(await step('old bodies', 5), { rows: 1, more: false });
    assert.deepEqual(await bodiesOf(ids), [false, false, false]);
  });

  it('stops where too many messages wait, and forgets those that were removed whole', async () => {
    const ids = await finished(ACCOUNT, 1203);
    const last = ids.slice(-1);
    await temp.db.commit.transact((tx) => tx.run('UPDATE deliveries SET due_at = ?', [NOW]));
    await setWaiting(last.join(), null);
    clock.advance(31 * DAY);
    let passed = 0;
    for (let done = await step('old bodies', 100); done.rows > 0; done = await step('old bodies', 100))
      passed += done.rows;
    // A step chooses before the one before it has written what it passed over.
    assert.ok(passed >= 1000 && passed <= 1100, String(passed));
    assert.deepEqual(await bodiesOf(last), [true]);
    await temp.db.commit.transact(async (tx) => {
      await tx.run('UPDATE deliveries SET due_at = NULL');
      const all = await oldMessages.choose(tx, { accountId: ACCOUNT, before: clock.now(), after: null, most: 1202 });
      await oldMessages.remove(tx, all, clock.now());
    });
    clock.advance(3_600_000);
    assert.deepEqual(await step('old bodies', 100), { rows: 1, more: false });
    const places = await temp.db.prepared.all("SELECT value FROM settings WHERE name LIKE 'purge.content.%'");
    assert.deepEqual(places, [{ value: last.join() }]);
    assert.equal(await left('contents'), 0);
  });

  it('finds messages that were erased after they were chosen, and counts only what it removed', async () => {
    const ids = await finished(ACCOUNT, 4);
    const range = { accountId: ACCOUNT, before: NOW + DAY, after: null, most: 10 };
    const chosen = await oldMessages.choose(temp.db.maintenance, range);
    assert.deepEqual(
      chosen.map(({ id }) => id),
      ids,
    );
    await temp.db.commit.transact((tx) => oldMessages.remove(tx, chosen.slice(0, 2), NOW));
    await temp.db.commit.transact((tx) => oldMessages.remove(tx, chosen, NOW));
    assert.equal(await left('messages'), 0);
    const books = await balance(temp.db.reader);
    assert.ok(books.balanced, books.faults.join());
  });

  it('looks at what will go without changing any of it', async () => {
    await finished(ACCOUNT, 3);
    const range = { accountId: ACCOUNT, before: NOW + DAY, after: null, most: 10 };
    const messages = await oldMessages.choose(temp.db.maintenance, range);
    const contents = await oldContents.choose(temp.db.maintenance, range);
    assert.deepEqual([messages.length, contents.length, await left('messages'), await left('contents')], [3, 3, 3, 3]);
  });

  it('does not remove what waits again, whatever was chosen', async () => {
    const ids = await finished(ACCOUNT, 2);
    const range = { accountId: ACCOUNT, before: NOW + DAY, after: null, most: 10 };
    const chosen = await oldMessages.choose(temp.db.maintenance, range);
    await temp.db.commit.transact((tx) =>
      tx.run('UPDATE deliveries SET due_at = ? WHERE message_id = ?', [NOW, ids[1] ?? '']),
    );
    await assert.rejects(temp.db.commit.transact((tx) => oldMessages.remove(tx, chosen, NOW)));
    assert.deepEqual([await left('messages'), await left('deliveries')], [2, 2]);
  });

  it("takes an account's own old events, type by type, and nobody else's", async () => {
    await temp.db.commit.transact((tx) =>
      tx.run('INSERT INTO account_settings (account_id, events_days, updated_at) VALUES (?, 10, ?)', [ACCOUNT, NOW]),
    );
    const event = (account_id: string, type: string, test: number, at: number): EventRow => ({
      id: newId('evt', at),
      account_id,
      type,
      at,
      test,
      message_id: 'msg_1',
      delivery_id: 'dlv_1',
      status: 'sent',
      machine: 0,
      detail_json: '{}',
    });
    const old = Array.from({ length: 9 }, (_, n) =>
      event(ACCOUNT, n % 2 === 0 ? 'sent' : 'delivered', n % 3 === 0 ? 1 : 0, NOW),
    );
    await temp.db.commit.insert({
      events: [...old, event(OTHER, 'sent', 0, NOW), event(ACCOUNT, 'sent', 0, NOW + 5 * DAY)],
    });
    clock.advance(11 * DAY);
    let removed = 0;
    let more = true;
    for (let steps = 0; more && steps < 20; steps++) {
      const done = await step('old events of accounts', 2);
      removed += done.rows;
      more = done.more;
    }
    assert.deepEqual([removed, more], [9, false]);
    assert.deepEqual([await left('events'), await left('events', `account_id = '${OTHER}'`)], [2, 1]);
  });

  it('takes audit lines and reports that are old, oldest first, and no report that nobody has read', async () => {
    const line = (at: number): AuditRow => ({
      id: newId('aud', at),
      at,
      account_id: null,
      key_id: null,
      actor: 'operator',
      ip: null,
      method: 'GET',
      endpoint: '/v1/events',
      status: 200,
      result: 'ok',
      error_code: null,
      request_id: 'req_1',
      ms: 1,
      idempotency_replayed: 0,
      user_agent: null,
      ...noAct,
    });
    const report = (at: number, kind: string | null): ReportRow => ({
      id: newId('rep', at),
      received_at: at,
      client_ip: '127.0.0.1',
      sender: '',
      recipients_json: '[]',
      size: 1,
      state: 'done',
      kind,
      account_id: null,
      message_id: null,
      delivery_id: null,
      detail_json: '{}',
      raw: Buffer.from('x'),
    });
    const days = [0, 1, 2, 3].map((day) => NOW + day * DAY);
    await temp.db.commit.insert({
      audit: days.map(line),
      reports: days.map((at, n) => report(at, n === 1 ? null : 'bounce')),
    });
    clock.advance(92 * DAY + 1);
    for (const rule of ['old audit lines', 'old reports']) {
      assert.deepEqual(await step(rule, 2), { rows: 2, more: rule === 'old audit lines' });
      assert.deepEqual(
        await step(rule, 2),
        rule === 'old reports' ? { rows: 0, more: false } : { rows: 1, more: false },
      );
    }
    assert.deepEqual([await left('audit'), await left('reports'), await left('reports', 'kind IS NULL')], [1, 2, 1]);
  });
});
