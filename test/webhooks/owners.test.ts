/** Endpoints that move between nodes: three engines on one database, each with its own view of who has which endpoint. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openKeyring, type Keyring } from '../../src/base/keyring.ts';
import { newId } from '../../src/base/id.ts';
import type { Fetched } from '../../src/net/safe-fetch.ts';
import { createNotifier, type Notifier } from '../../src/scheduling/notifier.ts';
import { EventTail } from '../../src/events/tail.ts';
import type { Database } from '../../src/storage/database.ts';
import { Webhooks, type WebhookDeps } from '../../src/webhooks/dispatcher.ts';
import { createEndpoint, updateEndpoint } from '../../src/webhooks/endpoint-store.ts';
import { createReplay } from '../../src/webhooks/replay.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';
import { ACCOUNT, deliveryRow, messageRow, NOW } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const DAY = 86_400_000;
/** Other nodes learn within this time who is there. */
const SEEN_MS = 2000;

interface Call {
  node: number;
  url: string;
  event: string;
  sequence: number;
  attempt: number;
  at: number;
  /** Null while it is on the wire. */
  status: number | null;
  /** How long it takes. */
  ms: number;
}

/** One of the nodes. A dead one writes nothing, and hears and tells nothing. */
interface TestNode {
  webhooks: Webhooks;
  notifiers: WebhookDeps['notifiers'] & { events: Notifier };
  /** The node that has each endpoint, as this one sees it. */
  view: ReadonlyMap<string, number>;
  changed: () => void;
  isDead: boolean;
}

/** Numbers in [0, 1) that are the same in each run (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** No mail says that an endpoint was disabled. */
const noNotice: WebhookDeps['notice'] = {
  prepare: () => Promise.resolve(),
  of: () => Promise.resolve({ rows: [], recipients: 0, written: () => undefined }),
};

describe('webhooks: endpoints that move between nodes', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let keyring: Keyring;
  let folder: string;
  let nodes: TestNode[];
  let owner: ReadonlyMap<string, number>;
  let calls: Call[];
  let script: (call: Call) => { status: number; ms: number };
  let logged: string[];
  /** Messages between nodes do not arrive. */
  let isDeaf: boolean;
  /** The queries of the nodes to the database, and those that are not answered yet. */
  let begun = 0;
  let underWay = 0;

  beforeEach(async () => {
    temp = await openTempDatabase();
    folder = mkdtempSync(path.join(tmpdir(), 'ph-keys-'));
    keyring = openKeyring(folder);
    clock = new FakeClock(NOW);
    calls = [];
    logged = [];
    isDeaf = false;
    owner = new Map();
    script = () => ({ status: 200, ms: 0 });
    await temp.db.commit.insert({ accounts: [{ plan: 'pro', created_at: NOW, paused: 0, id: ACCOUNT, name: 'a' }] });
    nodes = [];
    for (const at of [0, 1, 2]) nodes.push(nodeOf(at));
    for (const { webhooks } of nodes) await webhooks.start();
    clock.advance(3 * SECOND);
    await settled();
  });
  afterEach(async () => {
    await stopAll();
    await temp.close();
    rmSync(folder, { recursive: true });
  });

  async function stopAll(): Promise<void> {
    const stopping = nodes.splice(0).map(({ webhooks }) => webhooks.stop().catch(() => undefined));
    clock.advance(5 * SECOND);
    await Promise.all(stopping);
  }

  function nodeOf(at: number): TestNode {
    const notifiers = { events: createNotifier(), webhooks: createNotifier<string | null>() };
    const listeners = new Set<() => void>();
    const node: TestNode = {
      notifiers,
      view: new Map(),
      changed: () => {
        for (const listener of listeners) listener();
      },
      isDead: false,
      webhooks: new Webhooks({
        db: asked(temp.db, () => node.isDead),
        clock,
        keyring,
        tail: new EventTail({
          db: asked(temp.db, () => node.isDead),
          clock,
          log: { warn: () => undefined },
          notifiers,
        }),
        log: {
          debug: () => undefined,
          info: () => undefined,
          warn: (fields) => void logged.push((fields as { event: string }).event),
          error: (fields) => {
            if (!node.isDead) logged.push(JSON.stringify(fields));
          },
        },
        fetch: fetchOf(at),
        notifiers,
        owners: {
          isOurs: (id) => (node.view.get(id) ?? 0) === at,
          onChange: (listener) => {
            listeners.add(listener);
            return () => listeners.delete(listener);
          },
        },
        hasOthers: () => true,
        random: () => 0.5,
        notice: noNotice,
      }),
    };
    for (const name of ['events', 'webhooks'] as const)
      notifiers[name].joinOthers((hint) => {
        if (isDeaf || node.isDead) return;
        for (const other of nodes)
          if (other !== node && !other.isDead)
            setImmediate(() => (other.notifiers[name] as { arrive(hint: unknown): void }).arrive(hint));
      });
    return node;
  }

  function fetchOf(at: number): WebhookDeps['fetch'] {
    let close = (): void => undefined;
    const closed = new Promise<Fetched>((resolve) => {
      close = () => {
        resolve({ kind: 'failed', why: 'closed', text: 'stopping' });
      };
    });
    return {
      async send({ url, body, headers }) {
        const event = JSON.parse(body ?? '') as { id: string; sequence: number };
        const call: Call = {
          node: at,
          url,
          event: event.id,
          sequence: event.sequence,
          attempt: Number(headers['webhook-attempt']),
          at: clock.now(),
          status: null,
          ms: 0,
        };
        calls.push(call);
        const { status, ms } = script(call);
        call.ms = ms;
        const answered = new Promise<Fetched>((resolve) => {
          const end = (): void => {
            if (nodes[at]?.isDead === true) return;
            call.status = status;
            resolve({ kind: 'answered', status, headers: {}, body: Buffer.alloc(0) });
          };
          if (ms === 0) end();
          else clock.after(ms, end);
        });
        return Promise.race([answered, closed]);
      },
      vet: (href) => Promise.resolve({ kind: 'ok', href }),
      close,
    };
  }

  /** Resolves when the nodes rest until the clock goes on: nothing of theirs is being read or written. */
  async function settled(): Promise<void> {
    for (let before = -1; before !== begun;) {
      before = begun;
      await settleEventLoop();
      while (underWay > 0) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Short times pass in steps, since nothing else happens while the clock moves. */
  async function pass(ms: number): Promise<void> {
    const step = ms < 5 * SECOND ? 500 : ms;
    for (let left = ms; left > 0; left -= step) {
      clock.advance(Math.min(step, left));
      await settled();
    }
  }

  /** Moves endpoints; each node sees it a little later. */
  function move(to: ReadonlyMap<string, number>, random: () => number): void {
    owner = to;
    for (const node of nodes) {
      const see = (): void => {
        if (node.view === owner || node.isDead) return;
        node.view = owner;
        node.changed();
      };
      clock.after(Math.floor(random() * SEEN_MS), see);
    }
  }

  async function register(concurrency: number): Promise<{ id: string; url: string }> {
    const url = `https://${newId('evt', NOW).toLowerCase().replace('_', '-')}.test/`;
    const settings = { url, concurrency, accountId: ACCOUNT, createdBy: 'test' };
    const { row } = await createEndpoint(storeAt(0), settings, () => ({}));
    return { id: row.id, url };
  }

  const storeAt = (at: number) => ({
    db: temp.db,
    clock,
    keyring,
    changed: (id: string) => nodes[at]?.notifiers.webhooks.notify(id),
  });

  async function happen(count: number): Promise<void> {
    const message = messageRow({ account_id: ACCOUNT });
    const delivery = deliveryRow({ message_id: message.id, account_id: ACCOUNT });
    const events = Array.from({ length: count }, () => ({
      ...{ id: newId('evt', clock.now()), account_id: ACCOUNT, type: 'sent' as const, at: clock.now(), test: 0 },
      ...{ message_id: message.id, delivery_id: delivery.id, status: 'sent' as const, machine: 0, detail_json: '{}' },
    }));
    await temp.db.commit.insert({ messages: [message], deliveries: [delivery], events });
    nodes[0]?.notifiers.events.notify();
  }

  const count = async (sql: string): Promise<number> =>
    (await temp.db.prepared.all<{ n: number }>(`SELECT COUNT(*) AS n FROM ${sql}`))[0]?.n ?? 0;

  /** Lets the time pass until every endpoint has come to the end of the log and nothing waits. */
  async function allSettled(): Promise<void> {
    for (let looks = 0; looks < 1000; looks++) {
      // At first in steps that are shorter than the longest call.
      await pass(looks < 20 ? 2 * SECOND : MINUTE);
      const behind = await count('webhooks WHERE cursor < (SELECT MAX(sequence) FROM events)');
      const running = await count("webhook_replays WHERE status = 'running'");
      if (behind + running + (await count('webhook_calls')) === 0) return;
    }
    assert.fail('an endpoint did not come to the end of the log');
  }

  const delivered = (url: string): number[] =>
    calls.flatMap((call) => (call.url === url && call.status === 200 ? [call.sequence] : []));

  for (const seed of [1, 2, 3])
    it(`are called for each event, and again only for what was on the wire while they moved (seed ${String(seed)})`, async () => {
      const random = randomFrom(seed);
      const strict = await register(1);
      const others = [await register(10), await register(4), await register(1)];
      const all = [strict, ...others];
      script = () => ({ status: random() < 0.1 ? 500 : 200, ms: Math.floor(random() ** 3 * 15_000) });
      let total = 0;
      let moved = 0;
      for (let round = 0; round < 100; round++) {
        const events = Math.floor(random() * 8);
        if (events > 0) await happen(events);
        total += events;
        // A node that has an endpoint begins three seconds after the last change.
        if (random() < 0.5 && clock.now() - moved > 6 * SECOND) {
          moved = clock.now();
          move(new Map(all.map(({ id }) => [id, Math.floor(random() * 3)])), random);
        }
        isDeaf = random() < 0.2;
        if (!isDeaf && random() < 0.2) for (const { notifiers } of nodes) notifiers.events.arrive();
        await pass(Math.floor(random() * 1500));
      }
      isDeaf = false;
      for (const { notifiers } of nodes) notifiers.events.arrive();
      await allSettled();
      const expected = Array.from({ length: total }, (_, at) => at + 1);
      for (const { url } of all) {
        const own = calls.filter((call) => call.url === url && call.status === 200);
        assert.deepEqual(
          [...new Set(own.map(({ sequence }) => sequence))].toSorted((a, b) => a - b),
          expected,
        );
        // A call that ends within the time for which the next node waits is made once.
        const again = own.filter((call, at) => own.findIndex(({ sequence }) => sequence === call.sequence) < at);
        for (const { sequence } of again)
          assert.ok(
            calls.some((call) => call.url === url && call.sequence === sequence && call.ms > 1000),
            `event ${String(sequence)} was sent again`,
          );
        assert.ok(again.length < total / 4, String(again.length));
      }
      assert.ok(new Set(calls.map(({ node }) => node)).size === 3, 'all nodes have called');
      assert.deepEqual(
        logged.filter((line) => line.includes('failed')),
        [],
      );
    });

  it('are called again only for what was not written when their node dies', async () => {
    const { id, url } = await register(10);
    script = ({ sequence }) => ({ status: 200, ms: sequence % 5 === 0 ? 4 * SECOND : 100 });
    await happen(40);
    for (let ms = 0; ms < 800; ms += 100) await pass(100);
    const [first] = nodes;
    assert.ok(first !== undefined);
    first.isDead = true;
    const lines = await temp.db.prepared.all<{ sequence: number }>('SELECT sequence FROM webhook_deliveries');
    const written = new Set(lines.map(({ sequence }) => sequence));
    assert.ok(written.size > 10, 'also beyond the calls that take long');
    assert.equal(await count('webhooks WHERE cursor < 5'), 1);
    await happen(5);
    await pass(12 * SECOND);
    move(new Map([[id, 1]]), () => 0.5);
    await allSettled();
    const after = calls.filter(({ node }) => node === 1).map(({ sequence }) => sequence);
    assert.equal(new Set(delivered(url)).size, 45);
    assert.equal(new Set(after).size, after.length);
    assert.ok(after.every((sequence) => !written.has(sequence)));
  });

  it('lose nothing where two nodes have the same one for a time, or none', async () => {
    const random = randomFrom(7);
    const both = [await register(1), await register(10)];
    script = () => ({ status: random() < 0.1 ? 500 : 200, ms: Math.floor(random() ** 3 * 5000) });
    let total = 0;
    for (let round = 0; round < 40; round++) {
      const events = Math.floor(random() * 8);
      if (events > 0) await happen(events);
      total += events;
      for (const node of nodes)
        if (random() < 0.2) {
          node.view = new Map(both.map(({ id }) => [id, Math.floor(random() * 3)]));
          node.changed();
        }
      await pass(Math.floor(random() * 1500));
    }
    move(new Map(both.map(({ id }, at) => [id, at])), random);
    await allSettled();
    for (const { url } of both) assert.equal(new Set(delivered(url)).size, total);
  });

  it('keep their health: one warning and one end, by whichever node calls them then', async () => {
    const { id } = await register(10);
    script = () => ({ status: 500, ms: 10 });
    await happen(30);
    for (let hour = 0; hour < 24 * 7; hour++) {
      await happen(1);
      if (hour % 5 === 0) move(new Map([[id, (hour / 5) % 3]]), () => 0.5);
      await pass(30 * MINUTE);
      await pass(30 * MINUTE);
      const [failing] = await temp.db.prepared.all<{ failures: number; status: string }>('SELECT * FROM webhooks');
      assert.equal(failing?.failures, await count('webhook_deliveries'), 'every failure is counted once');
      if (failing.status === 'disabled') break;
    }
    assert.equal(await count("webhooks WHERE status = 'disabled'"), 1);
    assert.deepEqual(
      logged.filter((line) => line.startsWith('webhook_')),
      ['webhook_failing', 'webhook_disabled'],
    );
    assert.ok(new Set(calls.map(({ node }) => node)).size === 3);
    const before = calls.length;
    await pass(DAY);
    assert.equal(calls.length, before);
    // Enabled at a node that does not call it.
    script = () => ({ status: 200, ms: 10 });
    const at = (((owner.get(id) ?? 0) + 1) % 3) as 0 | 1 | 2;
    await updateEndpoint(storeAt(at), { accountId: ACCOUNT, id }, { enabled: true }, () => ({}));
    await allSettled();
    assert.equal(await count("webhooks WHERE status = 'active' AND failures = 0"), 1);
  });

  it('are sent what is asked for again at another node, also while they move', async () => {
    const { id, url } = await register(4);
    script = () => ({ status: 200, ms: 50 });
    await happen(450);
    await allSettled();
    const replay = {
      ...{ webhookId: id, accountId: ACCOUNT, since: NOW - DAY, until: NOW + DAY },
      ...{ which: 'all' as const, types: [] },
    };
    await createReplay({ db: temp.db, clock }, replay, () => ({}));
    nodes[2]?.notifiers.webhooks.notify(id);
    for (let to = 1; to < 10; to++) {
      move(new Map([[id, to % 3]]), () => 0);
      await pass(to < 5 ? 300 : 3200);
    }
    await allSettled();
    assert.equal(await count("webhook_replays WHERE status = 'done'"), 1);
    assert.equal(delivered(url).length, 900);
  });

  it('are known everywhere after messages were lost', async () => {
    const { id, url } = await register(4);
    isDeaf = true;
    await updateEndpoint(storeAt(1), { accountId: ACCOUNT, id }, { enabled: false }, () => ({}));
    isDeaf = false;
    nodes[0]?.notifiers.webhooks.arrive(null);
    await settled();
    await happen(3);
    await pass(MINUTE);
    assert.deepEqual(delivered(url), []);
  });

  /** The database as a node uses it, which can write no more when it is dead. */
  function asked(db: Database, isDead: () => boolean): WebhookDeps['db'] {
    const refuse = (): Promise<never> => Promise.reject(new Error('fenced'));
    return {
      ...db,
      prepared: watched(db.prepared, () => false, refuse),
      commit: watched(db.commit, isDead, refuse),
    };
  }

  function watched<Part extends object>(part: Part, isDead: () => boolean, refuse: () => Promise<never>): Part {
    return new Proxy(part, {
      get(target, name): unknown {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return async (...args: unknown[]): Promise<unknown> => {
          begun++;
          underWay++;
          try {
            return await (isDead() ? refuse() : (value as (...of: unknown[]) => unknown).apply(target, args));
          } finally {
            underWay--;
          }
        };
      },
    });
  }
});
