/** The engine on a real database, with endpoints that are functions: what is called when, what is kept in memory, what is left on disk. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { createNotifier, type Notifier } from '../../src/scheduling/notifier.ts';
import { EventTail } from '../../src/events/tail.ts';
import { newId } from '../../src/base/id.ts';
import { openKeyring, type Keyring } from '../../src/base/keyring.ts';
import { Problem } from '../../src/base/problem.ts';
import type { Fetched, SafeFetch, SafeRequest } from '../../src/net/safe-fetch.ts';
import type { EventType } from '../../src/events/event.ts';
import { Webhooks, type WebhookDeps } from '../../src/webhooks/dispatcher.ts';
import {
  createEndpoint,
  removeEndpoint,
  updateEndpoint,
  type EndpointSettings,
} from '../../src/webhooks/endpoint-store.ts';
import { StorageClosed } from '../../src/storage/commit.ts';
import { createReplay } from '../../src/webhooks/replay.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { ACCOUNT, deliveryRow, messageRow, NOW } from '../support/harness/mail-rows.ts';
import { oldRule } from '../support/harness/old-rule.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const MIN = 60_000;
const DAY = 86_400_000;
const OTHER = 'acc_00000000000000000000000002';

type Told = SafeRequest & { event: { id: string; type: string; sequence: number; data: Record<string, unknown> } };
type Script = (told: Told) => number | Promise<number>;
/** Calls at once of an endpoint. */
const MAX_CALLS = 10;

/** No mail says that an endpoint was disabled. */
const noNotice: WebhookDeps['notice'] = {
  prepare: () => Promise.resolve(),
  of: () => Promise.resolve({ rows: [], recipients: 0, written: () => undefined }),
};

describe('webhooks/dispatcher', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let keyring: Keyring;
  let folder: string;
  let notifiers: WebhookDeps['notifiers'] & { events: Notifier };
  let webhooks: Webhooks;
  let told: Told[];
  let script: Script;
  let errors: unknown[];
  /** The Retry-After of each answer of the endpoint that is not a success. */
  let retryAfter: string | undefined;
  /** The resources that this machine lacks while calls are made. */
  let lacking: string | null;
  /** The queries of the engine to the database, and those that are not answered yet. */
  let begun = 0;
  let underWay = 0;

  beforeEach(async () => {
    temp = await openTempDatabase();
    folder = mkdtempSync(path.join(tmpdir(), 'ph-keys-'));
    keyring = openKeyring(folder);
    clock = new FakeClock(NOW);
    notifiers = { events: createNotifier(), webhooks: createNotifier<string | null>() };
    told = [];
    errors = [];
    lacking = null;
    retryAfter = undefined;
    script = () => 200;
    const account = { plan: 'pro', created_at: NOW, paused: 0 };
    await temp.db.commit.insert({
      accounts: [
        { ...account, id: ACCOUNT, name: 'a' },
        { ...account, id: OTHER, name: 'b' },
      ],
    });
    webhooks = engine();
    await webhooks.start();
  });
  afterEach(async () => {
    await webhooks.stop();
    assert.equal(clock.nextAt(), null, 'a timer was left');
    await temp.close();
    rmSync(folder, { recursive: true });
  });

  function engine(db = asked()): Webhooks {
    let close = (): void => undefined;
    const closed = new Promise<Fetched>((resolve) => {
      close = () => {
        resolve({ kind: 'failed', why: 'closed', text: 'stopping' });
      };
    });
    const fetch: SafeFetch = {
      async send(request) {
        const one: Told = { ...request, event: JSON.parse(request.body ?? '') as Told['event'] };
        if (lacking !== null) return { kind: 'failed', why: 'own', text: lacking };
        told.push(one);
        const answer = Promise.resolve(script(one)).then((status): Fetched => ({
          kind: 'answered',
          status,
          headers: status === 200 || retryAfter === undefined ? {} : { 'retry-after': retryAfter },
          body: Buffer.alloc(0),
        }));
        return Promise.race([answer, closed]);
      },
      vet: (href) => Promise.resolve({ kind: 'ok', href }),
      close,
    };
    const quiet = (): void => undefined;
    const log = { debug: quiet, info: quiet, warn: quiet, error: (fields: unknown) => void errors.push(fields) };
    const owners = { isOurs: () => true, onChange: () => () => undefined };
    const hasOthers = (): boolean => false;
    const tail = new EventTail({ db, clock, log, notifiers });
    return new Webhooks({
      db,
      clock,
      keyring,
      log,
      fetch,
      notifiers,
      tail,
      owners,
      hasOthers,
      random: () => 0.5,
      notice: noNotice,
    });
  }

  const store = () => ({
    db: temp.db,
    clock,
    keyring,
    changed: (id: string) => {
      notifiers.webhooks.notify(id);
    },
  });

  async function register(settings: EndpointSettings = {}, accountId = ACCOUNT): Promise<string> {
    const url = `https://${randomBytes(4).toString('hex')}.test/`;
    const whole = { accountId, createdBy: 'test', ...settings, url: settings.url ?? url };
    return (await createEndpoint(store(), whole, () => ({}))).row.id;
  }

  const enable = (id: string, enabled: boolean) =>
    updateEndpoint(store(), { accountId: ACCOUNT, id }, { enabled }, () => ({}));

  /** Writes events of one mail into the log, and rings. */
  async function happen(
    count: number,
    of: { type?: EventType; machine?: number; accountId?: string; detail?: object } = {},
  ): Promise<void> {
    const { type = 'sent', machine = 0, accountId = ACCOUNT, detail = {} } = of;
    const message = messageRow({ account_id: accountId });
    const delivery = deliveryRow({ message_id: message.id, account_id: accountId });
    const events = Array.from({ length: count }, () => ({
      id: newId('evt', clock.now()),
      account_id: accountId,
      type,
      at: clock.now(),
      test: 0,
      message_id: message.id,
      delivery_id: delivery.id,
      status: 'sent' as const,
      machine,
      detail_json: JSON.stringify(detail),
    }));
    await temp.db.commit.insert({ messages: [message], deliveries: [delivery], events });
    notifiers.events.notify();
  }

  async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await holds())) await turn();
  }

  const count = async (sql: string): Promise<number> =>
    (await temp.db.prepared.all<{ n: number }>(`SELECT COUNT(*) AS n FROM ${sql}`))[0]?.n ?? 0;
  const lines = (): Promise<number> => count('webhook_deliveries');
  const cursorOf = async (id: string): Promise<number> =>
    (await temp.db.prepared.all<{ cursor: number }>('SELECT cursor FROM webhooks WHERE id = ?', [id]))[0]?.cursor ?? -1;

  /** The database as the engine uses it, which counts what is asked of it. */
  const asked = (): WebhookDeps['db'] => ({
    ...temp.db,
    prepared: watched(temp.db.prepared),
    commit: watched(temp.db.commit),
  });

  function watched<Part extends object>(part: Part): Part {
    return new Proxy(part, {
      get(target, name): unknown {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== 'function') return value;
        return async (...args: unknown[]): Promise<unknown> => {
          begun++;
          underWay++;
          try {
            return await (value as (...of: unknown[]) => unknown).apply(target, args);
          } finally {
            underWay--;
          }
        };
      },
    });
  }

  /** Resolves when the engine rests until the clock goes on: nothing of it is being read or written, or waits for the event loop. */
  async function rests(): Promise<void> {
    for (let before = -1; before !== begun;) {
      before = begun;
      while (underWay > 0) await turn();
      await settleEventLoop();
    }
  }

  it('sends only events after the registration', async () => {
    await happen(3);
    const id = await register();
    await rests();
    assert.equal(told.length, 0);
    await happen(2);
    await until(async () => (await lines()) === 2);
    assert.equal(await cursorOf(id), 5);
    await rests();
    assert.equal(clock.nextAt(), null, 'an idle system is not looked at');
  });

  it('keeps ten on the wire and fifty in memory, and the rest in the log', async () => {
    const open: (() => void)[] = [];
    script = () =>
      new Promise((resolve) =>
        open.push(() => {
          resolve(200);
        }),
      );
    const id = await register();
    await happen(300);
    await until(() => told.length === 10);
    await rests();
    assert.equal(told.length, 10);
    assert.equal(await cursorOf(id), 0);
    assert.equal(await count('webhook_calls'), 0);
    // The last of the first ten: everything before it is still open, so the cursor stays.
    open[9]?.();
    await until(async () => (await lines()) === 1);
    assert.equal(await cursorOf(id), 0);
    await until(() => told.length === 11);
    for (let at = 0; at < 300; at++) {
      await until(() => open[at] !== undefined);
      open[at]?.();
    }
    await until(async () => (await lines()) === 300);
    assert.equal(await cursorOf(id), 300);
    assert.equal(new Set(told.map(({ event }) => event.id)).size, 300);
  });

  it('is in step with several endpoints of several accounts, each with its own events', async () => {
    await register();
    await register({ events: ['delivered'] });
    await register({}, OTHER);
    for (let round = 0; round < 5; round++) {
      await happen(1);
      await happen(1, { type: 'delivered' });
      await happen(1, { accountId: OTHER });
    }
    await until(async () => (await lines()) === 20);
    await rests();
    assert.equal(told.length, 20);
    const pairs = new Set(told.map(({ url, event }) => `${url} ${event.id}`));
    assert.equal(pairs.size, 20);
  });

  it('tells opens and clicks of machines only where they were asked for, and of whom only where it was', async () => {
    await register();
    await register({ include_machine_events: true, include_engagement: true });
    const detail = { is_bot: false, ip: '192.0.2.9', user_agent: 'Mail' };
    await happen(1, { type: 'opened', machine: 1, detail });
    await happen(1, { type: 'opened', detail });
    await until(async () => (await lines()) === 3);
    const seen = told.map(({ event }) => event.data['opened'] as { ip: string | null });
    assert.deepEqual(seen.map(({ ip }) => ip).toSorted(), ['192.0.2.9', '192.0.2.9', null]);
  });

  it('leaves an endpoint that only fails alone but for a probe a minute, and catches up when it answers', async () => {
    script = () => 500;
    const id = await register({ concurrency: 2 });
    await happen(100);
    await until(async () => (await lines()) >= 10);
    await rests();
    const first = told.length;
    assert.ok(first <= 12, `${String(first)} calls`);
    assert.ok((await count('webhook_calls')) <= 12);
    // The first retries come after 5 s, one at a time.
    clock.advance(6000);
    await until(async () => (await lines()) >= 2 * first);
    const before = told.length;
    clock.advance(MIN);
    await until(() => told.length > before);
    await rests();
    assert.equal(told.length, before + 1, 'one probe');
    script = () => 200;
    clock.advance(MIN);
    await until(async () => (await cursorOf(id)) === 100);
    clock.advance(10 * MIN);
    await until(async () => (await count('webhook_calls')) === 0);
    assert.equal(new Set(told.map(({ event }) => event.id)).size, 100);
  });

  it('calls an endpoint no more until the time that it asked for, and then one call at a time', async () => {
    retryAfter = '600';
    script = () => 429;
    await register();
    await happen(40);
    await rests();
    assert.equal(told.length, MAX_CALLS, 'only what was on the wire already');
    assert.equal(await count('webhook_calls'), MAX_CALLS);
    clock.advance(9 * MIN);
    await happen(5);
    await rests();
    assert.equal(told.length, MAX_CALLS, 'new events wait too');
    clock.advance(2 * MIN);
    await rests();
    assert.equal(told.length, MAX_CALLS + 1, 'one more asks');
    script = () => 200;
    clock.advance(11 * MIN);
    await until(async () => (await count('webhook_deliveries WHERE error IS NULL')) === 45);
    await rests();
    assert.equal(await count('webhook_calls'), 0);
    assert.equal(await count('webhook_deliveries WHERE error IS NOT NULL'), MAX_CALLS + 1);
  });

  it('keeps strict order over a rest', async () => {
    retryAfter = '600';
    script = () => 503;
    await register({ concurrency: 1 });
    await happen(3);
    await rests();
    assert.equal(told.length, 1);
    script = () => 200;
    clock.advance(11 * MIN);
    await until(async () => (await count('webhook_deliveries WHERE error IS NULL')) === 3);
    assert.deepEqual(
      told.map(({ event }) => event.sequence),
      [1, 1, 2, 3],
    );
  });

  for (const [status, ms, calls, reason] of [
    [429, 1000, 1, 'a short rest'],
    [429, 6000, 3, 'then it goes on'],
    [503, 1000, 2, 'a 503 that asks for nothing is about its event'],
  ] as const) {
    it(`rests after ${String(status)} without Retry-After: ${String(calls)} calls after ${String(ms)} ms (${reason})`, async () => {
      script = () => (told.length === 1 ? status : 200);
      await register();
      await happen(1);
      await until(async () => (await lines()) === 1);
      await happen(1);
      await rests();
      clock.advance(ms);
      await rests();
      assert.equal(told.length, calls);
    });
  }

  it('forgets the rest that another URL, or a pause, asked for', async () => {
    retryAfter = '600';
    script = () => 429;
    const id = await register();
    await happen(1);
    await until(async () => (await lines()) === 1);
    script = () => 200;
    await enable(id, false);
    await enable(id, true);
    await happen(1);
    await until(async () => (await lines()) === 2);
    assert.equal(told.at(-1)?.event.sequence, 2);
  });

  it('forgets the rest also where a pause has ended before its row was read', async () => {
    await webhooks.stop();
    const db = asked();
    let released: Promise<void> | null = null;
    const prepared: typeof db.prepared = {
      engine: db.prepared.engine,
      run: (...question) => db.prepared.run(...question),
      close: () => db.prepared.close(),
      async all<Row>(...question: Parameters<typeof db.prepared.all>): Promise<Row[]> {
        await released;
        return db.prepared.all<Row>(...question);
      },
    };
    webhooks = engine({ ...db, prepared });
    await webhooks.start();
    retryAfter = '600';
    script = () => (told.length === 1 ? 429 : 200);
    const id = await register();
    await happen(1);
    await until(async () => (await lines()) === 1);
    await rests();
    let release = (): void => undefined;
    released = new Promise((resolve) => {
      release = resolve;
    });
    await enable(id, false);
    await enable(id, true);
    release();
    await happen(1);
    await until(async () => (await lines()) === 2);
    assert.equal(told.at(-1)?.event.sequence, 2);
  });

  it('calls an endpoint again in time whose last calls failed before the clock was set back', async () => {
    script = () => 500;
    const id = await register();
    await happen(30);
    await until(async () => (await lines()) >= 10);
    await rests();
    clock.jump(-3 * DAY);
    script = () => 200;
    clock.advance(MIN);
    await until(async () => (await cursorOf(id)) === 30);
    await until(async () => (await count('webhook_calls')) === 0);
    assert.equal(new Set(told.map(({ event }) => event.id)).size, 30);
  });

  it('does not count the failures of an endpoint against the URL that takes its place', async () => {
    script = () => 500;
    const id = await register();
    await happen(30);
    await until(async () => (await lines()) >= 10);
    await rests();
    const failing = 'webhooks WHERE failures > 0 AND failing_since IS NOT NULL';
    assert.equal(await count(failing), 1);
    await updateEndpoint(store(), { accountId: ACCOUNT, id }, { description: 'as before' }, () => ({}));
    assert.equal(await count(failing), 1);
    await updateEndpoint(store(), { accountId: ACCOUNT, id }, { url: 'https://new.test/' }, () => ({}));
    assert.equal(await count('webhooks WHERE failures = 0 AND failing_since IS NULL AND warned_at IS NULL'), 1);
    await rests();
  });

  it('takes no attempt from an endpoint that it lacks the descriptors to call', async () => {
    const id = await register();
    lacking = 'no connection can be opened here: EMFILE';
    await happen(30);
    await until(() => errors.length >= 10);
    await rests();
    assert.equal(await count('webhook_calls'), 0);
    assert.equal(await lines(), 0);
    lacking = null;
    clock.advance(1000);
    await until(async () => (await cursorOf(id)) === 30);
    assert.equal(await count('webhook_deliveries WHERE attempt > 1'), 0);
    assert.equal(await count('webhooks WHERE failures > 0'), 0);
  });

  it('loses nothing where the database cannot be written for a time', async () => {
    await register();
    // It is open: what fails then is the writing, not the first reading.
    await rests();
    await temp.db.commit.transact((tx) => tx.run('ALTER TABLE webhook_deliveries RENAME TO elsewhere'));
    await happen(30);
    await until(() => errors.length >= 10);
    await temp.db.commit.transact((tx) => tx.run('ALTER TABLE elsewhere RENAME TO webhook_deliveries'));
    clock.advance(1000);
    await until(async () => (await lines()) >= 30);
    assert.equal(new Set(told.map(({ event }) => event.id)).size, 30);
    assert.ok(told.length >= 40, 'at least once');
  });

  it('ends also where how far it has come cannot be written', async () => {
    await webhooks.stop();
    const gone = (): Promise<never> => Promise.reject(new StorageClosed('the database is closed'));
    webhooks = engine({ ...asked(), commit: { ...temp.db.commit, transact: gone } });
    await webhooks.start();
    // It passes an event that is not for it.
    await register({ events: ['complained'] });
    await happen(1);
    await rests();
    await webhooks.stop();
    assert.deepEqual(
      errors.map((one) => (one as { event: string }).event),
      ['webhook_handover_failed'],
    );
  });

  it('keeps strict order also while the endpoint struggles, until the event is given up', async () => {
    script = ({ event }) => (event.sequence === 1 ? 500 : 200);
    await register({ concurrency: 1 });
    await happen(3);
    for (let attempt = 1; attempt <= 10; attempt++) {
      await until(async () => (await lines()) >= attempt);
      await rests();
      if (attempt < 10) assert.equal(told.length, attempt);
      assert.ok(told.slice(0, attempt).every(({ event }) => event.sequence === 1));
      if (attempt === 10) break;
      // No further than the next try: an endpoint without a success for five days is disabled.
      await until(() => clock.nextAt() !== null);
      clock.advance((clock.nextAt() ?? 0) - clock.now());
    }
    await until(async () => {
      await rests();
      clock.advance(MIN);
      return (await lines()) === 12;
    });
    assert.deepEqual(
      told.slice(10).map(({ event }) => event.sequence),
      [2, 3],
    );
  });

  it('keeps strict order also in a replay: what fails holds back what comes after it', async () => {
    let fails = 0;
    script = ({ event }) => (event.sequence === 2 && fails > 0 && fails-- > 0 ? 500 : 200);
    const id = await register({ concurrency: 1, events: ['delivered'] });
    await happen(300, { type: 'delivered' });
    await until(async () => (await lines()) === 300);
    told = [];
    fails = 2;
    const times = { since: NOW - DAY, until: NOW + DAY };
    await createReplay(
      { db: temp.db, clock },
      { webhookId: id, accountId: ACCOUNT, ...times, which: 'all', types: [] },
      () => ({}),
    );
    notifiers.webhooks.notify(id);
    for (let failed = 1; failed <= 2; failed++) {
      await until(async () => (await lines()) === 301 + failed);
      await rests();
      assert.deepEqual(
        told.map(({ event }) => event.sequence),
        [1, ...Array<number>(failed).fill(2)],
      );
      clock.advance((clock.nextAt() ?? 0) - clock.now());
    }
    await until(async () => (await lines()) === 602);
    assert.deepEqual(
      told.map(({ event }) => event.sequence),
      [1, 2, 2, ...Array.from({ length: 299 }, (_, n) => n + 2)],
    );
    assert.equal(await count('webhook_calls'), 0);
  });

  it('loses no retry, however calls end and are looked for at the same time', async () => {
    const failures = new Map<string, number>();
    script = async ({ event }) => {
      const failed = failures.get(event.id) ?? 0;
      // Each event fails up to three times, and takes a turn or two.
      for (let turns = 0; turns < event.sequence % 3; turns++) await turn();
      if (failed >= event.sequence % 4) return 200;
      failures.set(event.id, failed + 1);
      return 500;
    };
    const id = await register();
    for (let n = 0; n < 10; n++) {
      await happen(12);
      clock.advance(1000);
    }
    while ((await cursorOf(id)) < 120 || (await count('webhook_calls')) > 0) {
      clock.advance(MIN);
      await rests();
      // A retry that was forgotten would be due for ever.
      await until(async () => (await count(`webhook_calls WHERE due_at <= ${String(clock.now())}`)) === 0);
    }
    const good = await temp.db.prepared.all<{ n: number }>(
      "SELECT COUNT(*) AS n FROM webhook_deliveries WHERE status = 'delivered' GROUP BY event_id",
    );
    assert.deepEqual([good.length, good.filter(({ n }) => n !== 1).length], [120, 0], 'each once');
  });

  it('goes on with a replay after a restart, in steps', async () => {
    const id = await register({ events: ['delivered'] });
    await happen(500, { type: 'delivered' });
    await until(async () => (await lines()) === 500);
    await enable(id, false);
    const replay = {
      webhookId: id,
      accountId: ACCOUNT,
      since: NOW - DAY,
      until: NOW + DAY,
      which: 'all' as const,
      types: [],
    };
    await createReplay({ db: temp.db, clock }, replay, () => ({}));
    await webhooks.stop();
    webhooks = engine();
    await webhooks.start();
    await enable(id, true);
    await until(async () => (await lines()) === 1000);
    assert.equal(await count('webhook_calls'), 0);
    assert.equal(await count("webhook_replays WHERE status = 'done' AND queued = 500"), 1);
  });

  it('refuses an eleventh replay while ten wait', async () => {
    const id = await register({ events: ['delivered'] });
    await enable(id, false);
    const begin = (webhookId: string) =>
      createReplay(
        { db: temp.db, clock },
        { webhookId, accountId: ACCOUNT, since: NOW - DAY, until: NOW + DAY, which: 'all', types: [] },
        () => ({}),
      );
    for (let n = 0; n < 10; n++) await begin(id);
    await assert.rejects(begin(id), (error) => error instanceof Problem && error.code === 'invalid_state');
    await begin('whk_other');
    await enable(id, true);
    await until(async () => (await count("webhook_replays WHERE status = 'done'")) === 10);
    await begin(id);
  });

  it('forgets a call whose event is no longer kept', async () => {
    script = () => 500;
    await register();
    await happen(1);
    await until(async () => (await lines()) === 1);
    await temp.db.commit.transact((tx) => tx.run('DELETE FROM events'));
    clock.advance(MIN);
    await until(async () => (await count('webhook_calls')) === 0);
    assert.equal(told.length, 1);
  });

  it('leaves nothing behind of an endpoint that was removed while it was called', async () => {
    let answer = (): void => undefined;
    script = () =>
      new Promise(
        (resolve) =>
          (answer = () => {
            resolve(500);
          }),
      );
    const id = await register();
    await happen(1);
    await until(() => told.length === 1);
    await removeEndpoint(store(), { accountId: ACCOUNT, id }, () => ({}));
    answer();
    await until(async () => (await lines()) === 1);
    // Its row is read again, as it was changed; then nothing is waited for any more.
    await until(() => clock.nextAt() === null);
    await rests();
    assert.equal(await count('webhook_calls'), 0);
    assert.equal(clock.nextAt(), null);
  });

  it('stops within five seconds, and does not count what it cut off', async () => {
    script = () => new Promise(() => undefined);
    const id = await register();
    await happen(1);
    await until(() => told.length === 1);
    const stopping = webhooks.stop();
    clock.advance(5000);
    await stopping;
    assert.equal(await lines(), 0);
    assert.deepEqual([await cursorOf(id), await count('webhook_calls')], [0, 0]);
    script = () => 200;
    webhooks = engine();
    await webhooks.start();
    await until(async () => (await lines()) === 1);
    assert.equal(told.at(-1)?.headers['webhook-attempt'], '1');
    await until(async () => (await count('webhook_calls')) === 0);
  });

  it('sends nothing again after a stop but what it cut off, however long that was on the wire', async () => {
    script = ({ event }) => (event.sequence === 3 ? new Promise(() => undefined) : 200);
    const id = await register();
    await happen(300);
    await until(async () => (await lines()) === 299);
    assert.equal(await cursorOf(id), 2);
    const stopping = webhooks.stop();
    clock.advance(5000);
    await stopping;
    script = () => 200;
    webhooks = engine();
    await webhooks.start();
    await until(async () => (await lines()) === 300);
    await rests();
    assert.deepEqual(
      told.slice(300).map(({ event }) => event.sequence),
      [3],
    );
  });

  it('writes the cursor at the end, past events without a subscriber', async () => {
    const id = await register({ events: ['complained'] });
    await happen(20);
    // A stop writes how far the log was read by then.
    await until(async () => {
      await rests();
      await webhooks.stop();
      webhooks = engine();
      await webhooks.start();
      return (await cursorOf(id)) === 20;
    });
    assert.equal(told.length, 0);
  });

  it('calls no endpoint that was disabled while its row was being read', async () => {
    await webhooks.stop();
    // Underneath, so that the engine rests while the answer is kept back.
    const db = asked();
    /** The answer to the first read of the row comes only after this; that of later reads at once. */
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    let reads = 0;
    const prepared: typeof db.prepared = {
      engine: db.prepared.engine,
      run: (...question) => db.prepared.run(...question),
      close: () => db.prepared.close(),
      async all<Row>(...question: Parameters<typeof db.prepared.all>): Promise<Row[]> {
        const rows = await db.prepared.all<Row>(...question);
        const isRowOfEndpoint = JSON.stringify(question[0]).includes('SELECT * FROM webhooks WHERE id');
        if (isRowOfEndpoint && ++reads === 1) await released;
        return rows;
      },
    };
    webhooks = engine({ ...db, prepared });
    await webhooks.start();
    const id = await register();
    await until(() => reads === 1);
    await enable(id, false);
    await rests();
    release();
    await rests();
    await happen(1);
    await rests();
    assert.equal(told.length, 0);
  });

  it('does not call an endpoint whose secrets cannot be opened, and says so', async () => {
    const id = await register();
    await temp.db.commit.transact((tx) =>
      tx.run("UPDATE webhooks SET secrets_sealed = 'v1.gone.AAAA' WHERE id = ?", [id]),
    );
    notifiers.webhooks.notify(id);
    await until(() => errors.length > 0);
    await happen(1);
    await rests();
    assert.equal(told.length, 0);
  });

  it('drops its log and what was given up when they are old', async () => {
    await register();
    await happen(60);
    await until(async () => (await lines()) === 60);
    const purge = (name: string) => oldRule(temp.db, clock, name).step(50, temp.db.commit);
    assert.equal(await purge('old webhook deliveries'), 0);
    clock.advance(91 * DAY);
    assert.equal(await purge('old webhook deliveries'), 50);
    assert.equal(await purge('old webhook deliveries'), 10);
    await temp.db.commit.transact((tx) =>
      tx.run(
        `INSERT INTO webhook_calls VALUES ('whk_x', 1, 'event', 10, NULL, ${String(NOW)}), ('whk_x', 2, 'event', 1, 5, ${String(NOW)})`,
      ),
    );
    assert.equal(await purge('old webhook calls'), 1);
    assert.equal(await purge('old webhook calls'), 0);
    assert.equal(await count('webhook_calls'), 1);
  });
});
