/** A full disk, a database that cannot be written, no descriptors, dead DNS, a clock that jumps: it says so, and recovers by itself. */
import { isOnPostgres } from '../support/harness/postgres.ts';
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readdirSync, rmSync } from 'node:fs';
import { openReader } from '../../src/storage/database.ts';
import type { DeliveryRow } from '../../src/storage/tables.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { Browser, PASSWORD, signedIn } from '../support/harness/browser.ts';
import { smtpClient } from '../support/harness/smtp-client.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** For each line it reads, connects and tells the first line it hears, or `nothing`. */
const CLIENT = `
const net = require('node:net');
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const [port, hello] = JSON.parse(line);
  let heard = '';
  const socket = net.connect(port, '127.0.0.1', () => hello && socket.write(hello));
  socket.on('data', (chunk) => {
    heard += chunk;
    if (heard.startsWith('220 ')) socket.end('QUIT\\r\\n');
  });
  socket.on('error', () => undefined);
  socket.on('close', () => console.log(heard.split('\\r')[0] || 'nothing'));
});`;

describe('journey: pressure', () => {
  let server: FakeMailServer;
  let app: TestApp;
  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test', 'other.test') });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const turns = async (count = 50): Promise<void> => {
    for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  const mail = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 's', text: 'x'.repeat(100_000) };
  const lines = (event: string) => app.logged.filter((line) => line['event'] === event);
  const lastEvent = (id: string, type: string) => app.follow().of(id, type);
  /** A pragma of the connection that writes, outside of any transaction. */
  const pragma = (text: string): Promise<unknown> =>
    app.app.db.commit
      .submit(
        {
          name: 'pragma',
          read: (connection) => connection.all(`PRAGMA ${text}`),
          run: (_, inputs) => Promise.resolve(inputs),
        },
        null,
      )
      // A group that cannot begin fails, but by then the pragma is done.
      .catch(() => undefined);
  const deliveryOf = async (id: string) =>
    (
      await app.app.db.prepared.all<Pick<DeliveryRow, 'status' | 'due_at' | 'attempt_count'>>(
        'SELECT status, due_at, attempt_count FROM deliveries WHERE message_id = ?',
        [id],
      )
    )[0] ?? assert.fail(id);
  /** A worker has a mail in hand: it opens a connection, sends, or writes an outcome. */
  const isAtWork = (): boolean => app.app.mta.sizes().workers > 0;

  /** The answer to a mail that is offered by SMTP, each command before it having been taken. */
  const offered = async (port: number, commands: readonly string[]): Promise<string> => {
    const client = smtpClient(port);
    assert.match(await client.reply(), /^220 /);
    await client.say('EHLO client.test');
    assert.match(await client.say('STARTTLS'), /^220 /);
    await client.startTls();
    for (const command of ['EHLO client.test', ...commands, 'DATA'])
      assert.match(await client.say(command), /^[23]/, command);
    const answer = await client.say('From: hi@acme.test\r\nTo: ana@dest.test\r\nSubject: x\r\n\r\nx\r\n.');
    client.end();
    await client.closed;
    return answer;
  };

  /**
   * Lets time pass, so much at a time, until the mail is delivered. While a worker is at work the clock stands still, since what it waits
   * for has time limits of this clock; not so where all that it waits for is the time to write an outcome again.
   */
  const passing = async (id: string, step: number, { isAnswered = false } = {}): Promise<void> => {
    for (;;) {
      const { status, due_at: due } = await deliveryOf(id);
      if (status === 'delivered') return;
      const left = (due ?? 0) - app.clock.now();
      // Mail that is due waits for a host or for DNS: too large a step would find it too old before it was tried again.
      if (isAnswered || !isAtWork()) app.clock.advance(Math.min(step, left > 0 ? left : 10_000));
      await turns(5);
      // The clock runs far ahead of the machine: a request gives sockets and threads their time.
      await app.get(`/v1/messages/${id}`);
    }
  };

  it('answers 503 while the disk is full, writes what the world has answered as soon as it can, and goes on', async function () {
    if (isOnPostgres) return this.skip('fills the file of SQLite');
    // The receiver takes the mail while there is no room for writing that down.
    server.options.script = { message: { raw: '' } };
    const { id } = await app.send();
    await server.reached('message');
    await pragma('max_page_count = 1'); // the least it can be is what there is
    for (let i = 0; ; i++) {
      assert.ok(i < 200, 'the database does not fill');
      const answer = await app.request('POST', '/v1/messages', mail);
      if (answer.status === 202) continue;
      assert.deepEqual([answer.status, (answer.body['error'] as { code: string }).code], [503, 'service_unavailable']);
      assert.equal(answer.headers.get('retry-after'), '10');
      break;
    }
    server.sessions[0]?.say('250 2.0.0 taken\r\n');
    await turns();
    await pragma('max_page_count = 1073741823');
    server.options.script = {};
    await passing(id, 1000, { isAnswered: true });
    assert.equal((await app.request('POST', '/v1/messages', mail)).status, 202);
    assert.equal((await app.message(id)).attempts.length, 1, 'it was not sent twice');
    await app.balanced();
  });

  it('ends in order on a full disk, with the books as they were', async function () {
    if (isOnPostgres) return this.skip('fills the file of SQLite');
    const { id } = await app.send();
    await app.follow().of(id, 'delivered');
    await pragma('query_only = ON');
    // Their lines and the use of the key wait to be written.
    for (let i = 0; i < 3; i++) assert.equal((await app.get('/v1/messages')).status, 200);
    await app.app.stop();
    assert.ok(lines('background_write_failed').length > 0);
    const reader = await openReader({ url: `sqlite:${app.folder}/posthorn.db` });
    assert.deepEqual(await reader.reader('deliveries').pluck('status'), ['delivered']);
    await reader.close();
  });

  it('answers 503 to every write while the database can only be read, and lets mail wait', async function () {
    if (isOnPostgres) return this.skip('fills the file of SQLite');
    const later = await app.send({ send_at: new Date(app.clock.now() + MINUTE).toISOString() });
    await pragma('query_only = ON');
    for (const [method, path, body] of [
      ['POST', '/v1/messages', mail],
      ['POST', '/v1/suppressions', { email: 'x@dest.test' }],
      ['POST', '/v1/streams', { slug: 'more', name: 'More', type: 'broadcast' }],
    ] as const) {
      const { status, text } = await app.request(method, path, body);
      assert.equal(status, 503, `${path}: ${text}`);
    }
    assert.equal((await app.get('/v1/messages')).status, 200, 'reading goes on');
    assert.match(
      await offered(app.app.ports.mx ?? 0, ['MAIL FROM:<>', 'RCPT TO:<postmaster@mail.posthorn.test>']),
      /^452 4\.3\.1 /,
    );
    const plain = Buffer.from(`\0apikey\0${app.key}`).toString('base64');
    assert.match(
      await offered(app.app.ports.submission ?? 0, [
        `AUTH PLAIN ${plain}`,
        'MAIL FROM:<hi@acme.test>',
        'RCPT TO:<ana@dest.test>',
      ]),
      /^452 4\.3\.1 /,
    );
    app.clock.advance(MINUTE);
    while (lines('storage_failed').length === 0) await turns(5);
    const said = server.sessions.flatMap(({ lines: told }) => told.filter((line) => line.startsWith('MAIL')));
    assert.deepEqual(said, [], 'nothing leaves that cannot be written down');
    await pragma('query_only = OFF');
    await passing(later.id, 1000);
    await app.balanced();
  });

  it('answers 503 to the forms of the dashboard meanwhile, and writes no set-up link to its log', async function () {
    if (isOnPostgres) return this.skip('fills the file of SQLite');
    const ana = await signedIn(app.url, app.operator);
    const guest = new Browser(app.url);
    const added = { email: 'bo@example.net', role: 'developer', accounts: ['default'] } as const;
    const { url } = await app.operator.call('team.add', { ...added, accounts: [...added.accounts] });
    const { pathname } = new URL(url ?? '');
    await guest.open(pathname);
    await ana.open('/streams');
    await pragma('query_only = ON');
    const made = await ana.submit('/streams', { slug: 'more', name: 'More', type: 'broadcast' });
    assert.deepEqual([made.status, made.headers.get('retry-after')], [503, '10'], made.html);
    const password = { password: PASSWORD, password_again: PASSWORD };
    assert.equal((await guest.submit(pathname, password)).status, 503);
    assert.equal(lines('page_failed').length, 2);
    const token = pathname.split('/').at(-1) ?? '';
    assert.ok(!JSON.stringify(app.logged).includes(token), 'the link is in the log');
    await pragma('query_only = OFF');
    await guest.open(pathname);
    assert.equal((await guest.submit(pathname, password)).at, '/', 'the link is still good');
  });

  it('keeps mail while DNS is dead for an hour, without an attempt, and delivers it afterwards', async () => {
    await app.send();
    await app.settled();
    const saved = { ...app.resolver.zones };
    app.resolver.zones = { 'lost.test MX': 'TIMEOUT' };
    const { id } = await app.send({ to: 'ana@lost.test' });
    const why = async () => (await app.why(id)).reason;
    for (let minutes = 0; minutes <= 60; minutes += 5) {
      while ((await why()) !== 'dns_trouble') await turns(5);
      app.clock.advance(5 * MINUTE);
    }
    const message = await app.message(id);
    assert.deepEqual([message.status, message.attempts.length], ['queued', 0]);
    app.resolver.zones = { ...saved, ...zonesFor('lost.test') };
    await passing(id, MINUTE);
    await app.balanced();
  });

  it('keeps mail while the only mail host is dead for a day, with few attempts, and delivers everything afterwards', async () => {
    const saved = { ...app.resolver.zones };
    // Nothing listens at this address.
    app.resolver.zones = { ...saved, 'dead.test MX': ['10 mx.dead.test'], 'mx.dead.test A': ['127.0.0.9'] };
    const mails = await Promise.all(['a', 'b', 'c'].map((name) => app.send({ to: `${name}@dead.test` })));
    await lastEvent((await app.send()).id, 'delivered');
    const end = app.clock.now() + 24 * HOUR;
    while (app.clock.now() < end) {
      app.clock.advance(10 * MINUTE);
      await turns();
    }
    await lastEvent((await app.send()).id, 'delivered');
    for (const { id } of mails) {
      const { status, attempts } = await app.message(id);
      assert.match(status, /^(?:queued|deferred|sent)$/);
      // The schedule has ten in a day; time here runs ahead of the attempts, so there are fewer.
      assert.ok(attempts.length <= 10, String(attempts.length));
    }
    app.resolver.zones = { ...saved, ...zonesFor('dead.test') };
    for (const { id } of mails) await passing(id, 10 * MINUTE);
    await app.balanced();
  });

  /** Runs while this process has no descriptor left; false if the limit cannot be set. */
  const withoutDescriptors = async (work: () => Promise<void>): Promise<boolean> => {
    const limit = spawnSync(
      'prlimit',
      ['--pid', String(process.pid), '--nofile', '--raw', '--noheadings', '--output', 'SOFT,HARD'],
      { encoding: 'utf8' },
    );
    if (limit.status !== 0) return false;
    const [soft = '', hard = ''] = limit.stdout.trim().split(/\s+/);
    // Raising it again takes descriptors too: one that stays would fail every test after this one.
    const setLimit = (most: number | string): void => {
      const { status } = spawnSync('prlimit', ['--pid', String(process.pid), `--nofile=${String(most)}:${hard}`], {
        stdio: 'ignore',
      });
      assert.equal(status, 0);
    };
    const taken: number[] = [];
    setLimit(readdirSync('/proc/self/fd').length + 100);
    try {
      for (;;) taken.push(openSync('/dev/null', 'r'));
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'EMFILE');
    }
    try {
      await work();
    } finally {
      for (const fd of taken) closeSync(fd);
      setLimit(soft);
    }
    return true;
  };

  it('spends no attempt while no descriptor is left to dial with', async function () {
    const { id } = await app.send({ send_at: new Date(app.clock.now() + MINUTE).toISOString() });
    const isDone = await withoutDescriptors(async () => {
      app.clock.advance(MINUTE);
      while (lines('no_descriptors').length === 0) await turns(5);
    });
    if (!isDone) return this.skip('the limit of open files cannot be lowered here');
    // Memory that was claimed is given back.
    while ((await app.message(id)).recipients[0]?.attempt_count !== 0) await turns(5);
    await passing(id, 1000);
    assert.deepEqual(
      (await app.message(id)).attempts.map(({ outcome }) => outcome),
      ['accepted'],
    );
    return app.balanced();
  });

  it('drops what connects while no descriptor is left to accept it with, and takes it again afterwards', async function () {
    // Another process: here there is no descriptor for a client either.
    const client = spawn(process.execPath, ['-e', CLIENT], { stdio: ['pipe', 'pipe', 'inherit'] });
    let said = '';
    client.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
    const connecting = async (port: number, hello: string): Promise<string> => {
      said = '';
      client.stdin.write(`${JSON.stringify([port, hello])}\n`);
      while (!said.endsWith('\n')) await once(client.stdout, 'data');
      return said.trim();
    };
    const http = Number(new URL(app.url).port);
    const smtp = app.app.ports.mx ?? 0;
    const doors = [
      [http, 'GET /healthz HTTP/1.0\r\n\r\n'],
      [smtp, ''],
    ] as const;
    try {
      const answers: string[] = [];
      const isDone = await withoutDescriptors(async () => {
        for (const [port, hello] of doors) answers.push(await connecting(port, hello));
      });
      if (!isDone) return this.skip('the limit of open files cannot be lowered here');
      assert.deepEqual(answers, ['nothing', 'nothing']);
      for (const [port, hello] of doors) assert.match(await connecting(port, hello), /^(?:HTTP\/1\.1 200|220 )/);
      const { id } = await app.send();
      await passing(id, 1000);
    } finally {
      client.kill();
      await once(client, 'exit');
    }
    return app.balanced();
  });

  describe('a clock that is set', () => {
    it('forward does not have mail sent twice that is on the wire', async () => {
      server.options.script = { message: { raw: '' } };
      const { id } = await app.send();
      await server.reached('message');
      // Past the lease.
      app.clock.jump(2 * HOUR);
      app.clock.advance(30_000);
      await turns();
      server.sessions[0]?.say('250 2.0.0 taken\r\n');
      server.options.script = {};
      await lastEvent(id, 'delivered');
      app.clock.advance(30_000);
      await turns();
      assert.equal(server.sessions.flatMap(({ mails }) => mails).length, 1);
      assert.equal(lines('clock_jumped').length, 1);
      await app.balanced();
    });

    it('back by a day lets deferred mail go when it would have gone', async () => {
      server.options.script = { rcpt: '451 4.3.0 later' };
      const { id } = await app.send();
      await lastEvent(id, 'deferred');
      server.options.script = {};
      app.clock.jump(-24 * HOUR);
      app.clock.advance(30_000);
      await lastEvent(id, 'delivered');
      await app.balanced();
    });

    it('back by a day while the server was down lets deferred mail go', async () => {
      server.options.script = { rcpt: '451 4.3.0 later' };
      const { id } = await app.send();
      const planned = await app.send({ send_at: new Date(app.clock.now() + HOUR).toISOString() });
      await lastEvent(id, 'deferred');
      server.options.script = {};
      const { folder, clock, key } = app;
      await app.app.stop();
      clock.jump(-24 * HOUR);
      app = await startTestApp({ folder, clock, mailPort: server.port, zones: zonesFor('dest.test', 'other.test') });
      try {
        await app.follow({ key }).of(id, 'delivered');
        assert.equal(lines('clock_jumped').length, 1);
        const { body } = await app.get(`/v1/messages/${planned.id}`, { key });
        assert.equal(body['status'], 'scheduled');
        await app.balanced();
      } finally {
        rmSync(folder, { recursive: true });
      }
    });

    it('back by a day keeps no host closed for a day', async () => {
      server.options.script = { connect: 'drop' };
      const mails = await Promise.all([0, 1, 2].map(() => app.send()));
      const parkedUntil = (): number => app.app.mta.reports.lane('mx.dest.test')?.parkedUntil ?? 0;
      // After the third failed dial the host is left alone for a minute.
      while (parkedUntil() < app.clock.now() + 50_000) {
        app.clock.advance(500);
        await turns(5);
      }
      // An outcome that is written after the sweep would still have the time of the old clock.
      while (isAtWork()) await turns(5);
      server.options.script = {};
      app.clock.jump(-24 * HOUR);
      const start = app.clock.now();
      while (lines('clock_jumped').length === 0) {
        app.clock.advance(1000);
        await deliveryOf(mails[0]?.id ?? '');
      }
      // The sweep brings all of it forward, for which no time has to pass.
      for (const { id } of mails) while (((await deliveryOf(id)).due_at ?? 0) > app.clock.now() + HOUR) await turns(5);
      for (const { id } of mails) await passing(id, 1000);
      assert.ok(app.clock.now() - start < 5 * MINUTE, String(app.clock.now() - start));
      await app.balanced();
    });

    it('back by a day lets mail go whose outcome was being written meanwhile', async () => {
      server.options.script = { rcpt: '451 4.3.0 later' };
      const { id } = await app.send();
      await lastEvent(id, 'deferred');
      const byTheOldClock = (await deliveryOf(id)).due_at ?? 0;
      while (isAtWork()) await turns(5);
      app.clock.jump(-24 * HOUR);
      while (lines('clock_jumped').length === 0) {
        app.clock.advance(1000);
        await deliveryOf(id);
      }
      // The sweep that notices has it tried again.
      while ((await deliveryOf(id)).attempt_count < 2 || isAtWork()) await turns(5);
      await app.app.db.commit.transact((tx) =>
        tx.run('UPDATE deliveries SET due_at = ? WHERE message_id = ?', [byTheOldClock, id]),
      );
      server.options.script = {};
      const start = app.clock.now();
      await passing(id, 1000);
      assert.ok(app.clock.now() - start < HOUR, String(app.clock.now() - start));
      await app.balanced();
    });

    it('back does not send scheduled mail early', async () => {
      const { id } = await app.send({ send_at: new Date(app.clock.now() + HOUR).toISOString() });
      app.clock.jump(-24 * HOUR);
      app.clock.advance(60_000);
      await turns();
      assert.equal((await deliveryOf(id)).status, 'scheduled');
    });
  });
});
