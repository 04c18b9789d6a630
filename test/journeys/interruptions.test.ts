/** The ugly ones: stops, crashes and broken connections at the worst moment, and keys that cannot be opened. */
import { isOnPostgres } from '../support/harness/postgres.ts';
import { ROW_ORDER } from '../support/harness/temp-database.ts';
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import {
  copyData,
  newFolder,
  startTestApp,
  TestClock,
  zonesFor,
  type SeenEvent,
  type TestApp,
  type TestAppOptions,
} from '../support/harness/app.ts';

const MINUTE = 60_000;
const kinds = (events: readonly SeenEvent[]): string => events.map(({ type }) => type).join(' ');

describe('journey: interruptions', () => {
  let server: FakeMailServer;
  let folder: string;
  let clock: TestClock;
  const running = new Set<TestApp>();

  beforeEach(async () => {
    server = await startMailServer();
    folder = newFolder();
    clock = new TestClock();
  });

  afterEach(async () => {
    for (const app of running) await app.stop();
    running.clear();
    await server.close();
    rmSync(folder, { recursive: true });
  });

  async function start(options: TestAppOptions = {}): Promise<TestApp> {
    const app = await startTestApp({ folder, clock, mailPort: server.port, zones: zonesFor('dest.test'), ...options });
    running.add(app);
    return app;
  }

  async function stop(app: TestApp): Promise<void> {
    running.delete(app);
    await app.stop();
  }

  const mails = () => server.sessions.flatMap((session) => session.mails).filter(({ data }) => data !== '');

  async function assertBalanced(app: TestApp): Promise<void> {
    const { balanced, faults } = await app.operator.call('books', {});
    assert.ok(balanced, faults.join());
  }

  it('a stop in the middle of the body waits for its end; nothing is lost and nothing sent twice', async () => {
    server.options.extensions = ['PIPELINING'];
    server.options.script = {
      data: (_line, session) => {
        session.pause();
        return '354 go ahead';
      },
    };
    const app = await start();
    // Larger than what the sockets' buffers take, so that the writing really stands still.
    const { id } = await app.send({ text: 'All work and no play.\n'.repeat(150_000) });
    await server.reached('data');
    const queued = await app.send({ to: 'bo@dest.test', send_at: new Date(clock.now() + MINUTE).toISOString() });
    let ended = false;
    const stopping = stop(app).then(() => (ended = true));
    await assert.rejects(fetch(app.url), 'the API is closed while mail is still on the wire');
    assert.equal(ended, false);
    assert.deepEqual(mails(), []);
    for (const session of server.sessions) session.resume();
    await stopping;
    assert.equal(mails().length, 1);

    server.options.script = {};
    const later = await start();
    const events = await later.follow().of(id, 'delivered');
    assert.equal(kinds(events), 'sent delivered');
    clock.advance(MINUTE);
    await later.follow().of(queued.id, 'delivered');
    assert.deepEqual(
      mails().map(({ to }) => to.join()),
      ['ana@dest.test', 'bo@dest.test'],
    );
    await assertBalanced(later);
  });

  it('a stop does not wait for ever: after a minute the connection is given up, and the mail tried again by the next start', async () => {
    server.options.script = { message: { raw: '' } };
    const app = await start();
    const { id } = await app.send();
    await server.reached('message');
    const armed = clock.armed(60_000);
    const stopping = stop(app);
    await armed;
    clock.advance(60_000);
    await stopping;
    server.options.script = {};
    const later = await start();
    const { attempts } = await later.nextAttempt(id);
    assert.deepEqual(
      attempts.map(({ outcome }) => outcome),
      ['uncertain', 'accepted'],
    );
    await assertBalanced(later);
  });

  it('mail accepted while nobody could be reached goes out after a restart, by its schedule', async () => {
    server.options.script = { connect: '421 4.3.2 not now' };
    const app = await start();
    const { id } = await app.send();
    await app.settled();
    await stop(app);
    clock.advance(MINUTE);
    server.options.script = {};
    const later = await start();
    assert.equal(kinds(await later.follow().of(id, 'delivered')), 'sent deferred delivered');
  });

  it('a connection that ends between the final dot and the reply: uncertain, and tried again with the same Message-ID', async () => {
    let dots = 0;
    server.options.script = { message: () => (++dots === 1 ? 'drop' : '250 2.0.0 taken') };
    const app = await start();
    const { id, rfc_message_id } = await app.send();
    await app.settled();
    const first = await app.message(id);
    assert.deepEqual(
      [first.status, first.attempts[0]?.outcome, first.attempts[0]?.next_attempt_at],
      ['deferred', 'uncertain', new Date(clock.now() + MINUTE).toISOString()],
    );
    const last = await app.nextAttempt(id);
    assert.deepEqual(
      [last.status, last.attempts.map(({ outcome }) => outcome)],
      ['delivered', ['uncertain', 'accepted']],
    );
    assert.equal(mails().length, 2);
    const [one, two] = mails();
    // The same bytes, signatures included: a receiver that got both can tell.
    assert.equal(one?.data, two?.data);
    assert.equal(one?.from, two?.from);
    assert.match(one?.data ?? '', new RegExp(`^Message-ID: ${rfc_message_id}\r$`, 'm'));
    await assertBalanced(app);
  });

  for (const stage of ['mail', 'data', 'message'] as const) {
    it(`a crash while ${stage} is answered: the claim is taken back as an uncertain attempt and tried by the schedule`, async function () {
      if (isOnPostgres) return this.skip('a copy of a PostgreSQL database is not made in an instant');
      server.options.script = { [stage]: { raw: '' } };
      const app = await start();
      const { id, rfc_message_id } = await app.send();
      await app.send({ to: 'bo@dest.test', send_at: new Date(clock.now() + 30 * MINUTE).toISOString() });
      await server.reached(stage);
      const copy = newFolder();
      await copyData(folder, copy);
      server.options.script = {};
      const later = await startTestApp({
        folder: copy,
        clock: new TestClock(clock.now()),
        mailPort: server.port,
        zones: zonesFor('dest.test'),
      });
      try {
        await later.settled();
        const orphaned = await later.message(id);
        assert.deepEqual(
          [
            orphaned.status,
            orphaned.attempts.map(({ outcome, number }) => [outcome, number]),
            orphaned.recipients[0]?.next_attempt_at,
          ],
          ['deferred', [['uncertain', 1]], new Date(clock.now() + MINUTE).toISOString()],
        );
        assert.ok(later.logged.some(({ event }) => event === 'attempts_taken_back'));
        const { status, attempts } = await later.nextAttempt(id);
        assert.deepEqual([status, attempts.map(({ outcome }) => outcome)], ['delivered', ['uncertain', 'accepted']]);
        assert.match(mails().at(-1)?.data ?? '', new RegExp(`^Message-ID: ${rfc_message_id}\r$`, 'm'));
        const events = await later.follow().of(id, 'delivered');
        assert.equal(kinds(events), 'sent deferred delivered', '`sent` is told once');
        await assertBalanced(later);
      } finally {
        await later.stop();
        rmSync(copy, { recursive: true });
      }
      for (const session of server.sessions) session.end();
    });
  }

  it('mail whose DKIM key cannot be opened waits, is never sent unsigned, and goes out when the key is back', async () => {
    const app = await start();
    const { commit, prepared: fast } = app.app.db;
    const keys = await fast.all<{ id: string; private_key_sealed: string }>(
      'SELECT id, private_key_sealed FROM dkim_keys',
    );
    const seal = (sealedOf: (key: (typeof keys)[number]) => string): Promise<void> =>
      commit.transact(async (tx) => {
        for (const key of keys)
          await tx.run('UPDATE dkim_keys SET private_key_sealed = ? WHERE id = ?', [sealedOf(key), key.id]);
      });
    await seal(({ private_key_sealed }) => `${private_key_sealed.slice(0, -4)}AAAA`);
    const { id } = await app.send();
    await app.settled();
    const waiting = await app.message(id);
    assert.equal(waiting.status, 'deferred');
    assert.match(waiting.attempts[0]?.smtp_reply ?? '', /DKIM key .* of acme\.test cannot be opened/);
    assert.deepEqual(server.sessions, [], 'nobody was dialled');
    assert.ok(app.logged.some(({ level, event }) => level === 'error' && event === 'signing_unavailable'));
    await seal((key) => key.private_key_sealed);
    assert.equal((await app.nextAttempt(id)).status, 'delivered');
    assert.equal(mails()[0]?.data.match(/^DKIM-Signature:/gm)?.length, 2);
  });

  it('mail that the database does not give out just now waits, and neither log nor attempt blames the key', async () => {
    const app = await start();
    const rename = (from: string, to: string): Promise<void> =>
      app.app.db.commit.transact((tx) => tx.run(`ALTER TABLE ${from} RENAME TO ${to}`));
    await rename('dkim_keys', 'keys_away');
    const { id } = await app.send();
    await app.settled();
    const waiting = await app.message(id);
    assert.deepEqual([waiting.status, waiting.attempts[0]?.smtp_reply], ['deferred', 'it could not be loaded']);
    assert.deepEqual(server.sessions, [], 'nobody was dialled');
    const logged = (name: string) => app.logged.filter(({ event }) => event === name);
    assert.deepEqual(
      logged('composing_failed').map(({ level, reason }) => [level, reason]),
      [['error', 'it could not be loaded']],
    );
    assert.deepEqual(logged('signing_unavailable'), []);
    assert.ok(logged('storage_failed').length > 0);
    await rename('keys_away', 'dkim_keys');
    assert.equal((await app.nextAttempt(id)).status, 'delivered');
    assert.equal(mails().length, 1);
  });

  it('mail of a domain with no active key waits as well', async () => {
    const app = await start();
    await app.app.db.commit.transact((tx) => tx.run(`UPDATE dkim_keys SET state = 'pending'`));
    const { id } = await app.send();
    await app.settled();
    assert.equal((await app.message(id)).status, 'deferred');
    await app.app.db.commit.transact((tx) => tx.run(`UPDATE dkim_keys SET state = 'active'`));
    assert.equal((await app.nextAttempt(id)).status, 'delivered');
  });

  describe('idempotency', () => {
    const body = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Once', text: 'Once only.' };
    const post = (app: TestApp, what: object, key: string, options: { key?: string } = {}) =>
      app.request<{ id?: string; error?: { code: string } }>('POST', '/v1/messages', what, {
        ...options,
        headers: { 'idempotency-key': key },
      });

    it('twenty at once with one key: one message, twenty equal answers', async () => {
      const app = await start();
      const answers = await Promise.all(Array.from({ length: 20 }, () => post(app, body, 'one')));
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]));
      assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
      assert.equal(answers.filter(({ headers }) => headers.get('idempotency-replayed') === 'true').length, 19);
      assert.equal(new Set(answers.map(({ headers }) => headers.get('x-request-id'))).size, 20);
      await app.settled();
      assert.equal(mails().length, 1);
      const lines = await app.app.db.prepared.all<{ idempotency_replayed: number; status: number }>(
        `SELECT idempotency_replayed, status FROM audit WHERE endpoint = '/v1/messages' AND method = 'POST'`,
      );
      assert.deepEqual(lines.map((line) => line.idempotency_replayed).sort(), [
        0,
        ...Array.from({ length: 19 }, () => 1),
      ]);
    });

    it('holds after a restart, for the account rather than the API key, and ends after 24 hours', async () => {
      const app = await start();
      const first = await post(app, body, '"kept"');
      await app.settled();
      await stop(app);
      const later = await start();
      const { key } = await later.operator.ask<{ id: string; key: string }>('createKey', {
        body: { name: 'rotated', scopes: ['send'] },
      });
      const again = await post(later, { ...body }, 'kept', { key });
      assert.equal(again.text, first.text);
      assert.equal(again.headers.get('location'), first.headers.get('location'));
      assert.equal(again.headers.get('idempotency-replayed'), 'true');
      clock.advance(24 * 60 * MINUTE);
      const fresh = await post(later, body, 'kept');
      assert.notEqual(fresh.body.id, first.body.id);
      await later.settled();
      assert.equal(mails().length, 2);
    });

    it('another body gets the first answer, and is told so in answer and audit; order of members is no difference', async () => {
      const app = await start();
      const first = await post(app, body, 'k');
      const turned = await post(app, Object.fromEntries(Object.entries(body).reverse()), 'k');
      assert.equal(turned.headers.get('idempotency-mismatch'), null);
      const other = await post(app, { ...body, subject: 'Twice' }, 'k');
      assert.equal(other.text, first.text);
      assert.equal(other.headers.get('idempotency-mismatch'), 'true');
      const lines = await app.app.db.prepared.all<{ result: string }>(
        `SELECT result FROM audit WHERE method = 'POST' ORDER BY ${ROW_ORDER}`,
      );
      assert.deepEqual(
        lines.map(({ result }) => result),
        ['ok', 'ok', 'idempotency_mismatch'],
      );
      await app.settled();
      assert.equal(mails().length, 1);
    });

    it('another body is an error where the operator wants that', async () => {
      const app = await start({ settings: { idempotency: { onMismatch: 'error' } } });
      await post(app, body, 'k');
      const other = await post(app, { ...body, subject: 'Twice' }, 'k');
      assert.deepEqual([other.status, other.body.error?.code], [409, 'idempotency_key_reused']);
      await app.settled();
    });

    it('a refusal is kept as well, and survives a crash that follows the answer', async () => {
      const app = await start();
      const refused = await post(app, { ...body, to: 'nobody' }, 'bad');
      assert.equal(refused.status, 400);
      const copy = newFolder();
      await copyData(folder, copy);
      const later = await startTestApp({ folder: copy, mailPort: server.port });
      try {
        const again = await post(later, { ...body, to: 'nobody' }, 'bad');
        assert.equal(again.text, refused.text);
        assert.equal(again.headers.get('idempotency-replayed'), 'true');
      } finally {
        await later.stop();
        rmSync(copy, { recursive: true });
      }
    });
  });

  describe('after four days in which it did not run', () => {
    const FOUR_DAYS = 4 * 24 * 60 * MINUTE;

    /** Sends mail that is put off once, and comes back four days later. */
    async function comeBack(
      fields: Record<string, unknown> = {},
      prepare = (): Promise<void> | void => undefined,
      options: TestAppOptions = {},
    ) {
      server.options.script = { rcpt: '451 4.3.0 come back later' };
      const first = await start();
      const { id } = await first.send(fields);
      await first.settled();
      await stop(first);
      clock.advance(FOUR_DAYS);
      await prepare();
      return { app: await start(options), id };
    }

    it('tries again', async () => {
      const { app, id } = await comeBack({}, () => {
        server.options.script = {};
      });
      await app.settled();
      const { status, attempts } = await app.message(id);
      assert.deepEqual([status, attempts.length], ['delivered', 2]);
      await assertBalanced(app);
    });

    it('tries for six hours, and gives up then', async () => {
      const { app, id } = await comeBack();
      const back = clock.now();
      await app.settled();
      assert.equal((await app.message(id)).status, 'deferred');
      let message = await app.nextAttempt(id);
      while (message.status === 'deferred') message = await app.nextAttempt(id);
      assert.deepEqual(
        [message.status, message.attempts.at(-1)?.smtp_code, Date.parse(message.status_at) - back],
        ['bounced', 451, 6 * 60 * MINUTE],
      );
      await assertBalanced(app);
    });

    it('does not try after the end that the sender has set', async () => {
      const { app, id } = await comeBack({ expires_at: new Date(clock.now() + 60 * MINUTE).toISOString() }, () => {
        server.options.script = {};
      });
      await app.settled();
      const { status, attempts } = await app.message(id);
      assert.deepEqual([status, attempts.length], ['bounced', 1]);
    });

    it('tries again where DNS is not there yet', async () => {
      const { app, id } = await comeBack({}, undefined, { zones: { 'dest.test MX': 'SERVFAIL' } });
      server.options.script = {};
      for (let minute = 0; minute < 60; minute++) {
        clock.advance(MINUTE);
        assert.equal((await app.message(id)).status, 'deferred');
      }
      app.resolver.zones = zonesFor('dest.test');
      let message = await app.message(id);
      for (; message.status === 'deferred'; message = await app.message(id)) clock.advance(MINUTE);
      assert.equal(message.status, 'delivered');
    });

    it('gives up after six hours where the host cannot be reached', async () => {
      const { app, id } = await comeBack({}, () => server.close());
      const back = clock.now();
      let message = await app.message(id);
      for (; message.status === 'deferred'; message = await app.message(id)) clock.advance(MINUTE);
      assert.equal(message.status, 'bounced');
      assert.ok(Date.parse(message.status_at) - back >= 6 * 60 * MINUTE, message.status_at);
      await assertBalanced(app);
      server = await startMailServer();
    });
  });

  it('tries again after the machine was suspended for four days', async () => {
    server.options.script = { rcpt: '451 4.3.0 come back later' };
    const app = await start();
    const { id } = await app.send();
    await app.settled();
    server.options.script = {};
    clock.jump(4 * 24 * 60 * MINUTE);
    const follower = app.follow();
    clock.advance(MINUTE);
    await follower.of(id, 'delivered');
    await assertBalanced(app);
  });

  it('writes an audit line for every use of a key: sends, refusals and reads', async () => {
    const app = await start();
    const { id } = await app.send();
    await app.request('POST', '/v1/messages', { from: 'hi@acme.test' });
    await app.request('POST', '/v1/nothing', {});
    await app.request('GET', '/v1/domains', undefined, { key: 'ak_live_abcdefgh_nonsense' });
    await app.get(`/v1/messages/${id}`);
    await app.settled();
    await stop(app);
    const later = await start();
    const lines = await later.app.db.prepared.all<{
      method: string;
      endpoint: string;
      status: number;
      error_code: string | null;
      key_id: string | null;
      request_id: string;
    }>(
      `SELECT method, endpoint, status, error_code, key_id, request_id FROM audit WHERE method NOT IN ('CLI', 'SYSTEM') ORDER BY at, id`,
    );
    const shown = lines.map(
      ({ method, endpoint, status, error_code, key_id }) =>
        `${method} ${endpoint} ${String(status)} ${String(error_code)} ${key_id === app.keyId ? 'ours' : String(key_id)}`,
    );
    assert.deepEqual(
      shown.sort(),
      [
        'GET /v1/domains 401 invalid_api_key null',
        'GET /v1/messages/{id} 200 null ours',
        'POST /v1/messages 202 null ours',
        'POST /v1/messages 400 missing_field ours',
        'POST /v1/nothing 404 not_found ours',
      ].sort(),
    );
    assert.equal(new Set(lines.map(({ request_id }) => request_id)).size, 5);
  });
});
