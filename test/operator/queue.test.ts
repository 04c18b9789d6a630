import assert from 'node:assert/strict';
import type { SourceSetting } from '../../src/config/sources.ts';
import { operatorCaller } from '../../src/api/inside.ts';
import type { StoreDeps } from '../../src/operator/server-route.ts';
import type { ArgsOf, ResultOf } from '../../src/operator/routes.ts';
import { insertRows } from '../../src/storage/rows.ts';
import type { DeliveryRow, MessageRow } from '../../src/storage/tables.ts';
import { Office } from './office.ts';

const HOUR = 3_600_000;

const idleLane = {
  source: null,
  waiting: 0,
  slots: 0,
  limit: 1,
  perMinute: null,
  cause: 'start',
  causeAt: null,
  limits: [],
  waits: [],
  parkedUntil: null,
  lastReply: null,
  lastProgressAt: 0,
  changes: [],
};

const source = (name: string, pool: string): SourceSetting => ({
  name,
  pool,
  ipv4: '192.0.2.1',
  ipv6: null,
  ehlo: null,
  warmUp: null,
  node: null,
});

describe('operator/queue', () => {
  let office: Office;
  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  it('lists what waits, soonest due first, narrowed by domain, account and status', async () => {
    const now = office.clock.now();
    const [late, soon, fresh] = [
      await office.mail('a@dest.test'),
      await office.mail('b@dest.test'),
      await office.mail('c@other.test'),
    ];
    await office.defer(late, now + 2 * HOUR);
    await office.defer(soon, now + HOUR);
    const { data } = await office.run('queue.list', {});
    assert.deepEqual(
      data.map(({ message_id: id, status, next_attempt_at: at }) => [id, status, at]),
      [
        [fresh, 'queued', '2026-01-31T09:30:00.000Z'],
        [soon, 'deferred', '2026-01-31T10:30:00.000Z'],
        [late, 'deferred', '2026-01-31T11:30:00.000Z'],
      ],
    );
    assert.deepEqual(data[1]?.smtp, { code: 452, reply: '4.2.2 mailbox full', mx: 'mx1.dest.test' });
    assert.equal((await office.run('queue.list', { domain: 'DEST.test' })).data.length, 2);
    assert.equal((await office.run('queue.list', { status: ['queued'] })).data.length, 1);
    assert.equal((await office.run('queue.list', { account: 'default' })).data.length, 3);
    const first = await office.run('queue.list', { limit: 1 });
    assert.deepEqual([first.data.length, first.has_more], [1, true]);
    await office.happen(late, { kind: 'canceled' });
    assert.equal((await office.run('queue.list', {})).data.length, 2);
  });

  it('lists by lane, age and class', async () => {
    const old = await office.mail('a@dest.test');
    await office.deps.db.commit.transact((tx) => tx.run('UPDATE deliveries SET class = 1'));
    office.clock.advance(6 * HOUR);
    const fresh = await office.mail('b@dest.test');
    const scheduled = await office.mail('c@dest.test', {
      send_at: new Date(office.clock.now() + HOUR).toISOString(),
    });
    const other = await office.mail('d@other.test');
    const listed = async (args: ArgsOf<'queue.list'>) =>
      (await office.run('queue.list', args)).data.map(({ message_id: id }) => id);
    assert.deepEqual(await listed({ lane: 'mx.dest.test' }), [old, fresh, scheduled]);
    assert.deepEqual(await listed({ lane: 'mx.other.test' }), [other]);
    assert.deepEqual(await listed({ older_than: 6 * HOUR }), [old]);
    assert.deepEqual(await listed({ older_than: 6 * HOUR + 1 }), []);
    office.clock.advance(HOUR - 1);
    assert.deepEqual(await listed({ older_than: 1, domain: 'dest.test' }), [old, fresh], 'one that is not to go yet');
    assert.deepEqual(await listed({ class: 'broadcast' }), [old]);
    assert.deepEqual(await listed({ class: 'transactional', lane: 'mx.dest.test' }), [fresh, scheduled]);
    const { data } = await office.run('queue.list', { class: 'broadcast' });
    assert.deepEqual(
      data.map((one) => [one.class, one.queued_at]),
      [['broadcast', '2026-01-31T09:30:00.000Z']],
    );
    await assert.rejects(office.run('queue.list', { lane: 'mx.mistyped.test' }), { code: 'not_found' });
    const store: StoreDeps & { mta?: unknown } = { ...office.deps };
    delete store.mta;
    const list = (body: object): Promise<unknown> => office.perform(operatorCaller(), 'queue.list', { body }, store);
    await assert.rejects(list({ lane: 'mx.dest.test' }), { why: 'not_running' });
    assert.equal(((await list({})) as ResultOf<'queue.list'>).data.length, 4);
  });

  it('shows no next try while a delivery is being tried', async () => {
    const id = await office.mail('a@dest.test');
    await office.happen(id, { kind: 'claimed', epoch: 1, leaseUntil: office.clock.now() + HOUR });
    const { data } = await office.run('queue.list', {});
    assert.deepEqual(
      data.map(({ status, next_attempt_at: at }) => [status, at]),
      [['sent', null]],
    );
  });

  it('shows lanes with the reason for their limit, and what waits by domain', async () => {
    const now = office.clock.now();
    const lane = {
      changes: [],
      waiting: 3,
      slots: 2,
      source: null,
      limit: 1,
      perMinute: null,
      cause: '421 slow down',
      causeAt: now,
      lastReply: '421 slow down',
      limits: [{ what: 'connections', to: 1, by: 'receiver', cause: '421 slow down', since: now }] as const,
      waits: [],
    };
    office.lanes = [
      { ...lane, name: 'mx.dest.test', parkedUntil: now + 1000, lastProgressAt: now },
      { ...lane, name: '~simulator', causeAt: null, parkedUntil: null, lastReply: null, lastProgressAt: 0 },
    ];
    await office.mail('a@dest.test');
    const deferred = await office.mail('b@dest.test');
    await office.defer(deferred, now + HOUR);
    const { data, domains } = await office.run('queue.lanes', {});
    assert.deepEqual(data, [
      {
        object: 'lane',
        name: 'mx.dest.test',
        source: null,
        nodes: ['office'],
        waiting: 3,
        connections: 2,
        limit: 1,
        per_minute: null,
        cause: '421 slow down',
        cause_at: '2026-01-31T09:30:00.000Z',
        parked_until: '2026-01-31T09:30:01.000Z',
        last_reply: '421 slow down',
        last_progress_at: '2026-01-31T09:30:00.000Z',
        limits: [
          {
            what: 'connections',
            to: 1,
            by: 'receiver',
            cause: '421 slow down',
            since: '2026-01-31T09:30:00.000Z',
            domain: null,
          },
        ],
        waits: [],
        waiting_in_all: 2,
        held: 0,
      },
      {
        object: 'lane',
        name: '~simulator',
        source: null,
        nodes: ['office'],
        waiting: 3,
        connections: 2,
        limit: 1,
        per_minute: null,
        cause: '421 slow down',
        cause_at: null,
        parked_until: null,
        last_reply: null,
        last_progress_at: null,
        limits: [
          {
            what: 'connections',
            to: 1,
            by: 'receiver',
            cause: '421 slow down',
            since: '2026-01-31T09:30:00.000Z',
            domain: null,
          },
        ],
        waits: [],
        waiting_in_all: 0,
        held: 0,
      },
    ]);
    assert.deepEqual(domains, [
      {
        domain: 'dest.test',
        lane: 'mx.dest.test',
        waiting: 2,
        due: 1,
        held: 0,
        oldest_due_at: '2026-01-31T09:30:00.000Z',
        oldest_at: '2026-01-31T09:30:00.000Z',
      },
    ]);
  });

  it('tells the age of what waits: since acceptance or send_at, whenever its next try is', async () => {
    const begun = office.clock.now();
    const scheduled = await office.mail('s@dest.test', { send_at: new Date(begun + 30 * HOUR).toISOString() });
    office.clock.advance(HOUR);
    await office.defer(await office.mail('a@dest.test'), office.clock.now() + 40 * HOUR);
    office.clock.advance(28 * HOUR);
    for (const minutes of [8 * 60, 100, 20, 5, 0]) {
      office.clock.advance(-minutes * 60_000);
      await office.mail('b@dest.test');
      office.clock.advance(minutes * 60_000);
    }
    const lane = async () => (await office.run('queue.lane', { lane: 'mx.dest.test' })).ages;
    assert.deepEqual(await lane(), {
      waiting: 7,
      under_1m: 1,
      under_10m: 1,
      under_1h: 1,
      under_6h: 1,
      under_24h: 1,
      older: 2,
      oldest_at: '2026-01-31T09:30:00.000Z',
    });
    office.clock.advance(HOUR);
    await office.happen(scheduled, { kind: 'canceled' });
    const lanes = await office.run('queue.lanes', {});
    assert.equal(lanes.oldest_at, '2026-01-31T10:30:00.000Z');
    await office.run('queue.cancel', { lane: 'mx.dest.test' });
    const none = await office.run('queue.lanes', {});
    assert.equal(none.oldest_at, null);
  });

  it('flushes one domain: due now, rung for, audited, and nothing else touched', async () => {
    const now = office.clock.now();
    const [here, there] = [await office.mail('a@dest.test'), await office.mail('b@other.test')];
    for (const id of [here, there]) await office.defer(id, now + HOUR);
    office.hints.length = 0;
    office.clock.advance(1000);
    assert.deepEqual(await office.run('queue.flush', { domain: 'Dest.test' }), { flushed: 1 });
    assert.deepEqual(office.tried, ['dest.test'], 'what keeps its lane back ends, too');
    const { data } = await office.run('queue.list', {});
    assert.deepEqual(
      data.map(({ message_id: id, next_attempt_at: at }) => [id, at]),
      [
        [here, '2026-01-31T09:30:01.000Z'],
        [there, '2026-01-31T10:30:00.000Z'],
      ],
    );
    assert.deepEqual(
      office.hints.map(({ domain, dueAt }) => [domain, dueAt]),
      [['dest.test', now + 1000]],
    );
    const flushes = (await office.audit()).filter(({ endpoint }) => endpoint === 'queue.flush');
    assert.deepEqual(
      flushes.map(({ result, after_json: after }) => [result, after]),
      [['ok', '{"flushed":1}']],
    );
  });

  it('flushes all domains of a lane, in pages', async () => {
    const now = office.clock.now();
    office.lane = (domain) => (domain.endsWith('.big.test') ? 'mx.big.test' : `mx.${domain}`);
    const id = await office.mail('a@dest.test');
    await office.defer(id, now + HOUR);
    const [template] = await office.deps.db.reader<DeliveryRow>('deliveries');
    assert.ok(template !== undefined);
    const rows = Array.from({ length: 1100 }, (_, i): DeliveryRow => ({
      ...template,
      id: `dlv_${String(i).padStart(26, '0')}`,
      domain: i < 600 ? 'one.big.test' : `d${String(i % 9)}.big.test`,
      class: i % 2,
      due_at: now + HOUR + (i % 3),
    }));
    const kept: DeliveryRow[] = [
      { ...template, id: 'dlv_scheduled', domain: 'one.big.test', status: 'scheduled' },
      { ...template, id: 'dlv_claimed', domain: 'one.big.test', status: 'sent', claim_epoch: 1 },
      { ...template, id: 'dlv_other', domain: 'a.other.test' },
    ];
    await office.deps.db.commit.transact((tx) => insertRows(tx, [{ deliveries: [...rows, ...kept] }]));
    office.clock.advance(1000);
    const groups = office.deps.db.commit.stats.groups;
    assert.deepEqual(await office.run('queue.flush', { lane: 'mx.big.test' }), {
      flushed: 1100,
      domains_unknown: 0,
    });
    assert.ok(office.deps.db.commit.stats.groups - groups <= 5, 'small domains share a commit');
    assert.deepEqual([...office.tried].sort(), [...new Set(rows.map(({ domain }) => domain))].sort());
    const after = await office.deps.db.reader<DeliveryRow>('deliveries');
    assert.equal(after.filter(({ due_at: at }) => at === now + 1000).length, 1100);
    for (const before of kept)
      assert.deepEqual(
        after.find((row) => row.id === before.id),
        before,
      );
    const audit = (await office.audit()).filter(({ endpoint }) => endpoint === 'queue.flush');
    assert.deepEqual(
      audit.map(({ object_id: object, after_json: done }) => [object, done]),
      [['mx.big.test', '{"flushed":1100}']],
    );
  });

  it('flushes no lane that is not there, and counts domains whose lane is not known', async () => {
    office.lane = () => '~unresolved';
    await office.defer(await office.mail('a@dest.test'), office.clock.now() + HOUR);
    await assert.rejects(office.run('queue.flush', { lane: 'mx.mistyped.test' }), { code: 'not_found', field: 'lane' });
    await assert.rejects(office.run('queue.flush', { lane: 'mx.a.test', all: true }), { code: 'invalid_field' });
    await office.run('queue.hold', { lane: 'mx.idle.test' });
    office.lanes = [{ ...idleLane, name: 'mx.idle.test' }];
    const idle = await office.run('queue.flush', { lane: 'mx.idle.test' });
    assert.deepEqual([idle.flushed, idle.domains_unknown], [0, 1]);
    assert.equal((await office.run('queue.flush', { lane: '~unresolved' })).flushed, 1);
  });

  it('flushes of a lane with a source the mail of its pool only', async () => {
    const sources = [source('one', 'default'), source('two', 'bulk')];
    office.deps.config = { ...office.config, delivery: { ...office.config.delivery, sources } };
    const [stays, goes] = [await office.mail('a@dest.test'), await office.mail('b@dest.test')];
    for (const id of [stays, goes]) await office.defer(id, office.clock.now() + HOUR);
    await office.deps.db.commit.transact(async (tx) => {
      await tx.run(`UPDATE streams SET pool = 'bulk' WHERE slug = 'broadcast'`);
      await tx.run(`UPDATE messages SET stream = 'broadcast' WHERE id = ?`, [goes]);
    });
    assert.equal((await office.run('queue.flush', { lane: 'mx.dest.test/two' })).flushed, 1);
    assert.equal((await office.run('queue.flush', { lane: 'mx.dest.test/one' })).flushed, 1);
  });

  it('cancels all domains of a lane, but not what is being sent', async () => {
    const now = office.clock.now();
    office.lane = (domain) => (domain.endsWith('.big.test') ? 'mx.big.test' : `mx.${domain}`);
    const [due, later, claimed, other] = [
      await office.mail('a@one.big.test'),
      await office.mail('b@two.big.test'),
      await office.mail('c@two.big.test'),
      await office.mail('d@other.test'),
    ];
    await office.defer(later, now + HOUR);
    await office.happen(claimed, { kind: 'claimed', epoch: 1, leaseUntil: now + HOUR });
    assert.deepEqual(await office.run('queue.cancel', { lane: 'mx.big.test' }), { canceled: 2, domains_unknown: 0 });
    const rows = await office.deps.db.reader<DeliveryRow>('deliveries');
    const statusOf = (id: string) => rows.find(({ message_id: message }) => message === id)?.status;
    assert.deepEqual([due, later, claimed, other].map(statusOf), ['canceled', 'canceled', 'sent', 'queued']);
    const audit = (await office.audit()).filter(({ endpoint }) => endpoint === 'queue.cancel');
    assert.deepEqual(
      audit.map(({ object_id: object, after_json: after }) => [object, after]),
      [['mx.big.test', '{"canceled":2}']],
    );
    assert.deepEqual(await office.run('queue.cancel', { lane: 'mx.big.test' }), { canceled: 0, domains_unknown: 0 });
    await assert.rejects(office.run('queue.cancel', { lane: 'mx.mistyped.test' }), { code: 'not_found' });
  });

  it('cancels the mail of a stream, an account, a domain or a message, and of no other', async () => {
    const kinds = ['own', 'of another stream', 'of another account', 'of another domain'] as const;
    const other = 'acc_00000000000000000000000002';
    for (const [named, expected] of [
      ['stream', ['of another account', 'of another stream']],
      ['account', ['of another account']],
      ['domain', ['of another domain']],
      ['message', ['of another account', 'of another domain', 'of another stream']],
    ] as const) {
      const ids = new Map<string, string>();
      for (const kind of kinds)
        ids.set(await office.mail(kind === 'of another domain' ? 'b@other.test' : 'a@dest.test'), kind);
      const idOf = (wanted: string): string => [...ids].find(([, kind]) => kind === wanted)?.[0] ?? '';
      await office.deps.db.commit.transact(async (tx) => {
        await tx.run(`UPDATE messages SET stream = 'broadcast' WHERE id = ?`, [idOf('of another stream')]);
        for (const [table, column] of [
          ['messages', 'id'],
          ['deliveries', 'message_id'],
        ])
          await tx.run(`UPDATE ${table} SET account_id = ? WHERE ${column} = ?`, [other, idOf('of another account')]);
      });
      const own = {
        ...{ stream: { account: 'default', stream: 'transactional' }, account: { account: 'default' } },
        ...{ domain: { domain: 'dest.test' }, message: { message_id: idOf('own') } },
      };
      await office.run('queue.cancel', own[named]);
      const rows = await office.deps.db.reader<DeliveryRow>('deliveries').whereIn('message_id', [...ids.keys()]);
      const left = rows.flatMap(({ status, message_id: id }) => (status === 'queued' ? ids.get(id) : []));
      assert.deepEqual(left.sort(), expected, named);
    }
  });

  /** Mails that differ by domain, stream, key and tag, by their names. */
  const differing = async (): Promise<Map<string, string>> => {
    const ids = new Map<string, string>();
    for (const [name, to, stream, tag] of [
      ['usual', 'a@dest.test', 'transactional', []],
      ['other domain', 'a@other.test', 'transactional', []],
      ['news', 'a@dest.test', 'broadcast', []],
      ['tagged', 'a@dest.test', 'transactional', ['order', 'eu']],
      ['news elsewhere', 'a@other.test', 'broadcast', ['eu']],
    ] as const)
      ids.set(await office.mail(to, { stream, tags: [...tag] }), name);
    await office.ask('createKey', { body: { name: 'Shop', scopes: ['send'] } });
    const [keyed] = [...ids].flatMap(([id, name]) => (name === 'tagged' ? [id] : []));
    await office.deps.db.commit.transact(async (tx) => {
      await tx.run('UPDATE messages SET key_id = ? WHERE id = ?', ['key_1', keyed ?? '']);
      await tx.run("UPDATE api_keys SET id = 'key_1'");
    });
    return ids;
  };

  const combinations: readonly [named: ArgsOf<'queue.cancel'>, matched: readonly string[]][] = [
    [{ domain: 'dest.test', stream: 'broadcast' }, ['news']],
    [{ domain: 'dest.test', account: 'default', tag: 'eu' }, ['tagged']],
    [{ tag: 'eu' }, ['news elsewhere', 'tagged']],
    [{ stream: 'broadcast' }, ['news', 'news elsewhere']],
    [{ key_id: 'key_1' }, ['tagged']],
    [{ key_id: 'key_1', domain: 'other.test' }, []],
    [{ lane: 'mx.other.test', stream: 'transactional' }, ['other domain']],
    [{ account: 'default', stream: 'transactional' }, ['other domain', 'tagged', 'usual']],
    [{ all: true }, ['news', 'news elsewhere', 'other domain', 'tagged', 'usual']],
  ];
  for (const [named, matched] of combinations)
    it(`chooses by ${JSON.stringify(named)} the same mail to list, count, flush, hold and cancel`, async () => {
      const ids = await differing();
      const namesOf = (rows: readonly { message_id: string }[]) =>
        rows.map(({ message_id: id }) => ids.get(id) ?? id).sort();
      const { data } = await office.run('queue.list', named.all === true ? {} : named);
      assert.deepEqual(namesOf(data), matched);
      const dry = { body: { ...named, dry_run: true } };
      const would = (await office.perform(operatorCaller(), 'queue.cancel', dry)) as {
        object: string;
        waiting: number;
      };
      assert.deepEqual([would.object, would.waiting], ['dry_run', matched.length]);
      const { tag, lane, ...part } = named;
      if (tag === undefined && lane === undefined) {
        const { id } = await office.run('queue.hold', { ...part, new: true });
        const facts = await office.deps.db
          .reader('messages as m')
          .join('deliveries as d', 'd.message_id', 'm.id')
          .select<(MessageRow & { domain: string })[]>('m.*', 'd.domain');
        const held: { message_id: string }[] = [];
        for (const row of facts) {
          const hold = await office.deps.holds.of({
            ...{ accountId: row.account_id, stream: row.stream, fromDomain: row.from_domain, domain: row.domain },
            ...{ messageId: row.id, keyId: row.key_id, batchId: row.batch_id, createdAt: row.created_at },
          });
          if (hold?.by === id) held.push({ message_id: row.id });
        }
        assert.deepEqual(namesOf(held), matched);
        assert.equal((await office.run('queue.release', part)).data.length, 1);
      }
      const later = office.clock.now() + HOUR;
      for (const id of ids.keys()) await office.defer(id, later);
      assert.equal((await office.run('queue.flush', named)).flushed, matched.length);
      assert.equal((await office.run('queue.cancel', named)).canceled, matched.length);
      const canceled = await office.deps.db.reader<DeliveryRow>('deliveries').where({ status: 'canceled' });
      assert.deepEqual(namesOf(canceled), matched);
    });

  it('only tells what it would do, and writes nothing', async () => {
    await office.mail('a@dest.test');
    const before = await office.audit();
    const tell = async (name: string, body: object): Promise<string> =>
      ((await office.perform(operatorCaller(), name, { body: { ...body, dry_run: true } })) as { would: string }).would;
    assert.equal(
      await tell('queue.hold', { domain: 'dest.test', account: 'default', new: true, for_ms: HOUR }),
      `hold the domain dest.test (account default): 1 waiting delivery, and what is accepted later, until 2026-01-31T10:30:00.000Z`,
    );
    assert.equal(await tell('queue.cancel', { all: true }), 'cancel 1 waiting delivery of the whole queue');
    assert.deepEqual(await office.audit(), before);
    assert.equal((await office.run('queue.list', {})).data.length, 1);
    assert.deepEqual((await office.run('queue.holds', {})).data, []);
    await assert.rejects(tell('queue.list', {}), { code: 'unknown_field' });
  });

  it('counts what waits by sender and destination', async () => {
    await differing();
    const counted = async (by: 'account' | 'key' | 'stream' | 'domain' | 'tag', more: object = {}) =>
      (await office.run('queue.senders', { by, ...more })).data.map(({ name, account, waiting }) => [
        name,
        account,
        waiting,
      ]);
    assert.deepEqual(await counted('account'), [['default', 'default', 5]]);
    assert.deepEqual(await counted('domain'), [
      ['dest.test', null, 3],
      ['other.test', null, 2],
    ]);
    assert.deepEqual(await counted('tag'), [
      ['eu', 'default', 2],
      ['order', 'default', 1],
    ]);
    assert.deepEqual(await counted('stream', { domain: 'other.test' }), [
      ['broadcast', 'default', 1],
      ['transactional', 'default', 1],
    ]);
    assert.deepEqual(await counted('key', { status: ['queued'] }), [
      [null, 'default', 4],
      ['Shop', 'default', 1],
    ]);
    assert.deepEqual(
      await office.run('queue.senders', { by: 'domain', limit: 1 }).then(({ has_more: more }) => more),
      true,
    );
  });

  it('cancels of a lane with a source the mail of its pool only', async () => {
    const sources = [source('one', 'default'), source('two', 'bulk')];
    office.deps.config = { ...office.config, delivery: { ...office.config.delivery, sources } };
    const [single, bulk, fallback] = [
      await office.mail('a@dest.test'),
      await office.mail('b@dest.test'),
      await office.mail('c@dest.test'),
    ];
    await office.deps.db.commit.transact(async (tx) => {
      await tx.run(`UPDATE streams SET pool = 'bulk' WHERE slug = 'broadcast'`);
      await tx.run(`UPDATE messages SET stream = 'broadcast' WHERE id = ?`, [bulk]);
      await tx.run(`UPDATE messages SET stream = 'removed' WHERE id = ?`, [fallback]);
    });
    assert.equal((await office.run('queue.cancel', { lane: 'mx.dest.test/two' })).canceled, 1);
    const rows = await office.deps.db.reader<DeliveryRow>('deliveries').whereNot({ status: 'canceled' });
    assert.deepEqual(new Set(rows.map(({ message_id: id }) => id)), new Set([single, fallback]));
    assert.equal((await office.run('queue.cancel', { lane: 'mx.dest.test/one' })).canceled, 2);
  });

  it('flushes one message', async () => {
    const [one, other] = [await office.mail('a@dest.test'), await office.mail('b@dest.test')];
    for (const id of [one, other]) await office.defer(id, office.clock.now() + HOUR);
    assert.deepEqual(await office.run('queue.flush', { message_id: one }), { flushed: 1 });
    assert.deepEqual(await office.run('queue.flush', { message_id: one }), { flushed: 0 });
    assert.equal((await office.audit()).filter(({ endpoint }) => endpoint === 'queue.flush').length, 2);
  });

  it('flushes everything in pages, but not what is scheduled, claimed or done', async () => {
    const now = office.clock.now();
    const id = await office.mail('a@dest.test');
    const [template] = await office.deps.db.reader<DeliveryRow>('deliveries');
    assert.ok(template !== undefined);
    const copies = Array.from({ length: 1203 }, (_, i): DeliveryRow => ({
      ...template,
      id: `dlv_${String(i).padStart(26, '0')}`,
      domain: `d${String(i % 7)}.test`,
      class: i % 2,
      status: 'deferred',
      due_at: now + HOUR + (i % 3),
    }));
    const kept: DeliveryRow[] = [
      { ...template, id: 'dlv_scheduled', status: 'scheduled', due_at: now + HOUR },
      { ...template, id: 'dlv_claimed', status: 'sent', due_at: now + HOUR, claim_epoch: 1 },
      { ...template, id: 'dlv_done', status: 'delivered', due_at: null },
    ];
    await office.deps.db.commit.transact((tx) => insertRows(tx, [{ deliveries: [...copies, ...kept] }]));
    office.hints.length = 0;
    office.clock.advance(1000);
    assert.deepEqual(await office.run('queue.flush', { all: true }), { flushed: 1203 });
    const rows = (await office.deps.db.reader('deliveries').whereNot({ message_id: '' })) as DeliveryRow[];
    assert.equal(rows.filter(({ status, due_at: at }) => status === 'deferred' && at === now + 1000).length, 1203);
    for (const before of kept)
      assert.deepEqual(
        rows.find((row) => row.id === before.id),
        before,
      );
    assert.equal(rows.find((row) => row.message_id === id && row.status === 'queued')?.due_at, now);
    assert.equal(new Set(office.hints.map(({ domain, class: order }) => `${domain} ${String(order)}`)).size, 14);
    assert.deepEqual(await office.run('queue.flush', { all: true }), { flushed: 0 });
    const flushes = (await office.audit()).filter(({ endpoint }) => endpoint === 'queue.flush');
    assert.deepEqual(
      flushes.map(({ after_json: after }) => after),
      ['{"flushed":1203}', '{"flushed":0}'],
      'the row of the first page has the number of all pages in the end',
    );
  });

  it('keeps a row for a lane while mail waits for it, though the engine does not know it', async () => {
    await office.mail('a@dest.test');
    office.waits = [
      { reason: 'receiver_refuses_us', message: 'It refuses us.', since: 0, until: null, by: 'receiver', stops: true },
    ];
    office.held = { by: 'hld_1', why: 'there is a hold on the lane mx.dest.test', since: 0, until: null };
    const { data } = await office.run('queue.lanes', {});
    assert.deepEqual(
      data.map(({ name, waiting, waiting_in_all: all, cause }) => [name, waiting, all, cause]),
      [['mx.dest.test', 0, 1, 'not tried since the start']],
    );
    assert.deepEqual(
      data[0]?.waits.map(({ reason, message, by }) => [reason, message, by]),
      [['held', 'It is held: there is a hold on the lane mx.dest.test.', 'operator']],
    );
    assert.equal((await office.run('queue.lane', { lane: 'mx.dest.test' })).lane.waiting_in_all, 1);
  });

  it('keeps a row for a lane with a limit or a hold, though the engine does not know it', async () => {
    office.lanes = [{ ...idleLane, name: 'mx.known.test', slots: 1 }];
    await office.run('queue.limit', { lane: 'mx.known.test', connections: 5 });
    await office.run('queue.limit', { lane: 'mx.limited.test', connections: 2, per_minute: 30, note: 'ticket 99' });
    await office.run('queue.hold', { lane: 'mx.held.test' });
    const { data } = await office.run('queue.lanes', {});
    assert.deepEqual(
      data.map(({ name, limit, per_minute: rate, limits, waits }) => [
        name,
        limit,
        rate,
        limits.map(({ what, to, by, cause }) => [what, to, by, cause]),
        waits.map(({ message }) => message),
      ]),
      [
        ['mx.known.test', 1, null, [], []],
        [
          'mx.limited.test',
          2,
          30,
          [
            ['connections', 2, 'operator', 'set by the operator: ticket 99'],
            ['mails_per_minute', 30, 'operator', 'set by the operator: ticket 99'],
          ],
          [],
        ],
        ['mx.held.test', 0, null, [], ['It is held: there is a hold on the lane mx.held.test.']],
      ],
    );
    assert.equal((await office.run('queue.lane', { lane: 'mx.limited.test' })).lane.limit, 2);
    assert.equal((await office.run('queue.flush', { lane: 'mx.held.test' })).flushed, 0);
    await office.run('queue.release', { lane: 'mx.held.test' });
    await assert.rejects(office.run('queue.lane', { lane: 'mx.held.test' }), { code: 'not_found' });
  });

  it('does not end a limit that was to be prolonged without its numbers', async () => {
    await office.run('queue.limit', { lane: 'mx.dest.test', per_minute: 2 });
    await assert.rejects(office.run('queue.limit', { lane: 'mx.dest.test', for_ms: 6 * HOUR }), {
      code: 'missing_field',
    });
    assert.equal((await office.run('queue.holds', {})).data.length, 1);
  });

  for (const [reason, lane, known] of [
    ['the engine has', 'mx1.known.test', true],
    ['lanes of several sources share', 'mx2.known.test', true],
    ['only waiting mail names', 'mx.waiting.test', true],
    ['nobody knows', 'mx.mistyped.test', false],
  ] as const)
    it(`holds and limits a lane that ${reason}, and says whether there is one now`, async () => {
      await office.mail('a@waiting.test');
      office.lanes = [
        { ...idleLane, name: 'mx1.known.test' },
        { ...idleLane, name: 'mx2.known.test/one', source: 'one' },
      ];
      const held = await office.run('queue.hold', { lane });
      const limited = await office.run('queue.limit', { lane, connections: 1 });
      assert.deepEqual([held.lane_known, limited.data[0]?.lane_known], [known, known]);
      assert.deepEqual(
        (await office.run('queue.holds', {})).data.map(({ target }) => target),
        [lane, lane],
      );
      assert.equal((await office.run('queue.hold', { domain: 'waiting.test' })).lane_known, null);
    });

  it('says of a lane that is held, though none of its mail is marked yet', async () => {
    office.waits = [{ reason: 'queued', message: 'It waits.', since: 0, until: null, by: 'us', stops: false }];
    await office.mail('b@dest.test');
    await office.run('queue.hold', { lane: 'mx.dest.test' });
    const { data } = await office.run('queue.lanes', {});
    assert.equal(data[0]?.waits[0]?.message, 'It is held: there is a hold on the lane mx.dest.test.');
  });

  it('says of a second hold of the same part that there is one', async () => {
    const first = await office.run('queue.hold', { domain: 'dest.test' });
    await office.run('queue.hold', { domain: 'other.test' });
    const second = await office.run('queue.hold', { domain: 'dest.test', for_ms: HOUR });
    assert.deepEqual([first.others, second.others], [[], [first.id]]);
  });
});
