/** Several nodes on one database: who leads, what they tell each other, and what a removed one can still write. */
import assert from 'node:assert/strict';
import { once, EventEmitter } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isStorageTrouble } from '../../../src/storage/commit.ts';
import { openDatabase, type Database } from '../../../src/storage/database.ts';
import { Owners } from '../../../src/storage/owners.ts';
import { clockOffIn, rolesIn, type NodeMessage, type Nodes } from '../../../src/storage/nodes.ts';
import { NodeMessages } from '../../../src/storage/postgres/node-messages.ts';
import { systemClock } from '../../../src/base/clock.ts';
import {
  addressOf,
  connectTo,
  createPostgresConnection,
  isConnectionLoss,
} from '../../../src/storage/postgres/connection.ts';
import { DEAD_AFTER_MS, joinNodes, Silences, type NodeRow } from '../../../src/storage/postgres/node.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';

describe('storage/postgres: several nodes', () => {
  let url: string;
  const open: Database[] = [];

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    const { folder } = await startedCluster();
    url = urlOf(folder, await makeDatabase());
  });
  afterEach(async () => {
    for (const db of open.splice(0).reverse()) await db.close();
  });

  async function join(name: string, takenOver: () => void = () => undefined): Promise<{ db: Database; nodes: Nodes }> {
    const db = await openDatabase({ url, node: { name, version: '1', facts: '{}' }, takenOver });
    open.push(db);
    assert.ok(db.nodes);
    return { db, nodes: db.nodes };
  }

  const close = async (db: Database): Promise<void> => {
    open.splice(open.indexOf(db), 1);
    await db.close();
  };

  it('lets the node lead that joined first, and the next one when it leaves', async () => {
    const one = await join('one');
    const two = await join('two');
    assert.deepEqual([one.nodes.isLeader, two.nodes.isLeader], [true, false]);
    assert.deepEqual(
      two.nodes.list().map(({ name, isLeader }) => [name, isLeader]),
      [
        ['one', true],
        ['two', false],
      ],
    );
    await close(one.db);
    await two.nodes.leads;
    assert.equal(two.nodes.isLeader, true);
    assert.ok(two.nodes.epoch > one.nodes.epoch);
  });

  it('lets a command write that never leads', async () => {
    const command = await openDatabase({ url });
    open.push(command);
    const { nodes } = await join('one');
    assert.ok(nodes.epoch > (command.nodes?.epoch ?? Infinity));
    assert.equal(nodes.isLeader, true);
    assert.equal(nodes.hasOthers, false);
    await command.commit.insert({ settings: [{ name: 'by a command', value: '1' }] });
  });

  it('ends a node that another one removes: its writes fail, and it is told once', async () => {
    let told = 0;
    const ended = new EventEmitter();
    const one = await join('one', () => {
      told++;
      ended.emit('end');
    });
    const two = await join('two');
    const end = once(ended, 'end');
    await two.nodes.remove(one.nodes.epoch);
    await assert.rejects(one.db.commit.insert({ settings: [{ name: 'late', value: '1' }] }));
    await end;
    await two.nodes.leads;
    assert.equal(told, 1);
    assert.equal(one.nodes.holdsLease, false);
    assert.deepEqual(await two.db.reader('settings').where({ name: 'late' }), []);
  });

  it('bug: only the node whose clock was wrong knew of it; now each node tells the others, and when it is right again', async () => {
    const address = addressOf({ url });
    const connection = createPostgresConnection(() => connectTo(address, { setUp: [] }), { reconnects: true });
    const clock = new FakeClock(Date.now());
    const messages = new NodeMessages(connection, clock);
    const deps = { connection, clock, messages, takenOver: () => undefined };
    const node = await joinNodes(deps, { name: 'one', version: '1', facts: '{"roles":["delivery"]}' });
    /** Sets the clock `ahead` ms ahead and lets the node give signs of life until its row says so. */
    const saysIt = async (ahead: number, isSo: (off: number) => boolean): Promise<void> => {
      for (;;) {
        clock.jump(Date.now() + ahead - clock.now() - 2000);
        clock.advance(2000);
        // A sign of life is up to four statements on this connection, one after the other.
        for (let n = 0; n < 6; n++) await connection.all('SELECT 1');
        const [{ facts } = { facts: '' }] = await connection.all<{ facts: string }>(
          'SELECT facts FROM nodes WHERE epoch = ?',
          [node.epoch],
        );
        assert.deepEqual(rolesIn(facts), ['delivery'], 'the other facts stay');
        if (isSo(clockOffIn(facts))) return;
      }
    };
    await saysIt(300_000, (off) => Math.abs(off - 300_000) < 30_000);
    await saysIt(-300_000, (off) => Math.abs(off + 300_000) < 30_000);
    await saysIt(0, (off) => off === 0);
    await node.leave();
    await connection.close();
  });

  it('gives a connection up that falls silent behind the first answer of a sign of life', async () => {
    await join('other');
    const address = addressOf({ url });
    const connection = createPostgresConnection(() => connectTo(address, { setUp: [] }), { reconnects: true });
    const clock = new FakeClock(Date.now());
    let [isSilent, dropped] = [false, 0];
    let asked = (): void => undefined;
    const isAsked = new Promise<void>((resolve) => (asked = resolve));
    const silencing: typeof connection = {
      ...connection,
      all(sql, values) {
        if (!isSilent || (typeof sql === 'string' && sql.startsWith('UPDATE node_beats')))
          return connection.all(sql, values);
        asked();
        return new Promise(() => undefined);
      },
      drop: () => dropped++,
    };
    const messages = new NodeMessages(connection, clock);
    const deps = { connection: silencing, clock, messages, takenOver: () => undefined };
    const node = await joinNodes(deps, { name: 'one', version: '1', facts: '{}' });
    isSilent = true;
    clock.advance(2000);
    await isAsked;
    for (let second = 0; second < 6; second++) clock.advance(1000);
    assert.equal(dropped, 1);
    isSilent = false;
    await node.leave();
    await connection.close();
  });

  it('tells the other nodes what it says of itself after a reload', async () => {
    const address = addressOf({ url });
    const connection = createPostgresConnection(() => connectTo(address, { setUp: [] }), { reconnects: true });
    const clock = new FakeClock(Date.now());
    const messages = new NodeMessages(connection, clock);
    const deps = {
      connection,
      clock,
      messages,
      takenOver: () => undefined,
      answersAgain: () => undefined,
    };
    const node = await joinNodes(deps, { name: 'one', version: '1', facts: '{"settings":{"plans":"a"}}' });
    node.describe('{"settings":{"plans":"b"}}');
    for (let told = ''; !told.includes('"plans":"b"');) {
      clock.advance(2000);
      for (let n = 0; n < 6; n++) await connection.all('SELECT 1');
      const [row] = await connection.all<{ facts: string }>('SELECT facts FROM nodes WHERE epoch = ?', [node.epoch]);
      told = row?.facts ?? '';
    }
    await node.leave();
    await connection.close();
  });

  it('lists older and older signs of life while the database is away', async () => {
    const address = addressOf({ url });
    const connection = createPostgresConnection(() => connectTo(address, { setUp: [] }), { reconnects: true });
    const clock = new FakeClock();
    const messages = new NodeMessages(connection, clock);
    const takenOver = (): void => assert.fail('it must not end');
    const self = { name: 'one', version: '1', facts: '{}' };
    const node = await joinNodes({ connection, clock, messages, takenOver }, self);
    await connection.close();
    clock.advance(20_000);
    const [record] = node.list();
    assert.ok(record !== undefined && record.quietMs >= 20_000, JSON.stringify(record));
    await node.leave();
  });

  it('leads within 15 s of the last sign of life of a node on another machine', async () => {
    const address = addressOf({ url });
    const connection = createPostgresConnection(() => connectTo(address, { setUp: [] }), { reconnects: true });
    const clock = new FakeClock();
    try {
      await connection.run(
        `INSERT INTO nodes (epoch, name, version, facts, is_command) VALUES (0, 'silent', '1', '{}', false)`,
      );
      await connection.run('INSERT INTO node_beats (epoch, at) VALUES (0, clock_timestamp())');
      const messages = new NodeMessages(connection, clock);
      const takenOver = (): void => assert.fail('it must not end');
      const node = await joinNodes(
        { connection, clock, messages, takenOver },
        { name: 'two', version: '1', facts: '{}' },
      );
      const led = { at: Infinity };
      void node.leads.then(() => (led.at = clock.monotonic()));
      const began = clock.monotonic();
      while (led.at === Infinity && clock.monotonic() - began < 60_000) {
        clock.advance(2000);
        // A sign of life is three statements on this connection, one after the other.
        for (let n = 0; n < 6; n++) await connection.all('SELECT 1');
        assert.equal(node.holdsLease, true);
      }
      assert.ok(led.at - began <= 15_000, String(led.at - began));
      await node.leave();
    } finally {
      await connection.close();
    }
  });

  it('leaves the keys of a server that joins to the others until it takes work: nobody had them while it started', async () => {
    const one = await join('one');
    await one.nodes.setDraining(one.nodes.epoch, false);
    const two = await join('two');
    const keys = Array.from({ length: 50 }, (_, n) => `${String(n)}.example.com`);
    const owners = new Owners(two.nodes);
    assert.deepEqual(
      keys.filter((key) => owners.isOurs(key)),
      [],
    );
    await two.nodes.setDraining(two.nodes.epoch, false);
    assert.ok(keys.filter((key) => owners.isOurs(key)).length > 10);
  });

  it('carries messages to the other nodes, long lists in parts, and none back to the sender', async () => {
    const one = await join('one');
    const two = await join('two');
    const heard: (NodeMessage | null)[] = [];
    const last = new EventEmitter();
    two.nodes.listen((message) => {
      heard.push(message);
      if (message?.about === 'last') last.emit('last');
    });
    one.nodes.listen((message) => assert.notEqual(message?.about, 'last'));
    // The first node has to know that there is another.
    await one.nodes.setDraining(two.nodes.epoch, true);
    const end = once(last, 'last');
    const list = Array.from({ length: 500 }, (_, n) => ({ domain: `${String(n)}.example.com` }));
    one.nodes.tell({ about: 'list', hint: list });
    one.nodes.tell({ about: 'last', hint: 'x' });
    await end;
    assert.deepEqual(
      heard.flatMap((message) => (message?.about === 'list' ? (message.hint as unknown[]) : [])),
      list,
    );
    assert.ok(heard.filter((message) => message?.about === 'list').length > 1);
    assert.equal(one.nodes.list().find(({ name }) => name === 'two')?.isDraining, true);
  });

  it('goes on without a sign of life where the database refuses the connection: an error of the password or the name ended the process', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'ph-refusing-'));
    const fields = ['SFATAL', 'C28P01', 'Mpassword authentication failed'].map((field) => `${field}\0`).join('');
    const refusal = Buffer.from(`E\0\0\0\0${fields}\0`);
    refusal.writeInt32BE(refusal.length - 1, 1);
    const refusing = net.createServer((client) => {
      client.on('error', () => undefined).once('data', () => client.end(refusal));
    });
    await new Promise<void>((resolve) => refusing.listen(path.join(folder, '.s.PGSQL.5432'), resolve));
    await (await openDatabase({ url })).close();
    let target = url;
    const connection = createPostgresConnection(() => connectTo(addressOf({ url: target }), { setUp: [] }), {
      reconnects: true,
    });
    const clock = new FakeClock();
    const takenOver = (): void => assert.fail('it must not end');
    const self = { name: 'one', version: '1', facts: '{}' };
    const messages = new NodeMessages(connection, clock);
    const node = await joinNodes({ connection, clock, messages, takenOver }, self);
    target = urlOf(folder, 'x');
    await assert.rejects(connection.all('SELECT pg_terminate_backend(pg_backend_pid())'));
    for (let beats = 0; beats < 6; beats++) {
      clock.advance(2000);
      await assert.rejects(connection.all('SELECT 1'));
    }
    const holdsLease = (): boolean => node.holdsLease;
    assert.equal(holdsLease(), false);
    // Writes wait, and requests get 503.
    await assert.rejects(connection.all('SELECT 1'), (error) => isStorageTrouble(error) && isConnectionLoss(error));
    target = url;
    while (!holdsLease()) {
      clock.advance(2000);
      for (let n = 0; n < 6; n++) await connection.all('SELECT 1');
    }
    await node.leave();
    await connection.close();
    await new Promise((resolve) => refusing.close(resolve));
    rmSync(folder, { recursive: true });
  });

  it('opens no connection for a statement that comes after the close, which would keep the process alive', async () => {
    let opened = 0;
    const connection = createPostgresConnection(
      () => {
        opened++;
        return connectTo(addressOf({ url }), { setUp: [] });
      },
      { reconnects: true },
    );
    await connection.ready();
    const late = connection.all('SELECT pg_sleep(0.05)').catch(() => undefined);
    await connection.close();
    await assert.rejects(connection.all('SELECT 1'), /the connection to the database was lost/);
    await late;
    assert.equal(opened, 1);
  });
});

describe('storage/postgres/node: silences', () => {
  const node = (beat: string): NodeRow => ({
    epoch: 7,
    name: 'other',
    version: '1',
    facts: '{}',
    is_command: 0,
    is_draining: 0,
    since_ms: 0,
    beat,
    quiet_ms: 60_000,
  });

  it('calls a node dead that was seen silent for the whole time', () => {
    const silences = new Silences();
    for (let now = 0; now < DEAD_AFTER_MS; now += 2000) assert.deepEqual(silences.look([node('a')], now), []);
    assert.equal(silences.look([node('a')], DEAD_AFTER_MS).length, 1);
  });

  it('begins anew with each sign of life', () => {
    const silences = new Silences();
    for (let now = 0; now <= 4 * DEAD_AFTER_MS; now += 2000)
      assert.deepEqual(silences.look([node(String(Math.floor(now / 10_000)))], now), []);
  });

  it('counts from the sign of life, not from the look that saw it, and from the look before where the database’s clock was set', () => {
    for (const [quietMs, deadAt] of [
      [1500, 4500],
      [-300, 6000],
      [90_000, 4000],
    ] as const) {
      const silences = new Silences();
      silences.look([node('a')], 2000);
      silences.look([node('a')], 4000);
      silences.look([{ ...node('b'), quiet_ms: quietMs }], 6000);
      assert.equal(silences.untilDead(6000), deadAt + DEAD_AFTER_MS - 6000);
      for (let now = 8000; now < deadAt + DEAD_AFTER_MS; now += 2000)
        assert.deepEqual(silences.look([node('b')], now), []);
      assert.equal(silences.look([node('b')], deadAt + DEAD_AFTER_MS).length, 1);
    }
    assert.equal(new Silences().untilDead(0), Infinity);
  });

  it('knows nothing after a pause in which it could not look: the others could not beat either', () => {
    const silences = new Silences();
    for (let now = 0; now < DEAD_AFTER_MS; now += 2000) silences.look([node('a')], now);
    const back = 10 * DEAD_AFTER_MS;
    assert.deepEqual(silences.look([node('a')], back), []);
    assert.deepEqual(silences.look([node('a')], back + 2000), []);
    assert.deepEqual(silences.look([node('b')], back + 4000), []);
  });
});

describe('storage/postgres/node-messages', () => {
  it('leaves payloads alone that are no messages of nodes', () => {
    const messages = new NodeMessages({ all: () => Promise.resolve([]) }, systemClock);
    messages.listen(() => assert.fail('nothing was told'));
    for (const payload of [
      '',
      'x',
      'null',
      '[]',
      '{"from":"1","messages":[]}',
      '{"from":1}',
      '{"from":0,"messages":[{}]}',
    ])
      messages.arrived(payload);
  });

  it('sends equal messages of one moment once', async () => {
    const sent: string[] = [];
    const messages = new NodeMessages(
      {
        all<Row>(_sql: unknown, values?: readonly unknown[]): Promise<Row[]> {
          sent.push(String(values?.[1]));
          return Promise.resolve([]);
        },
      },
      systemClock,
    );
    messages.epoch = 3;
    for (let n = 0; n < 5; n++) messages.tell({ about: 'events', hint: null });
    await messages.flush({ about: 'keys', hint: null });
    assert.deepEqual(sent, ['{"from":3,"messages":[{"about":"events","hint":null},{"about":"keys","hint":null}]}']);
  });
});
