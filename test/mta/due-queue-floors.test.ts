/** The due queue beside a model: whatever happens in whatever order, no mail that is due is overlooked, though a pass reads only a part of its group. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import pg from 'pg';
import type { DueHint } from '../../src/messages/delivery/due-hint.ts';
import { DueQueue, type Job } from '../../src/mta/due-queue.ts';
import type { Connection, Value } from '../../src/storage/connection.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { textFor } from '../../src/storage/sql.ts';
import { ACCOUNT, NOW, deliveryRow } from '../support/harness/mail-rows.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const DOMAINS = ['a.test', 'b.test'];
const LEASE_MS = 60_000;
/** Reading that failed is tried again after this time. */
const RETRY_MS = 1_000;
/** A group with so many jobs in memory is not read on. */
const ENOUGH = 32;
/** More rows than a group is given at a time. */
const MANY = 100;

/** The database, its due queue, and what their workers hold. */
class World {
  readonly clock = new FakeClock(NOW);
  readonly queue: DueQueue;
  /** Jobs that were offered and are not done yet. */
  readonly held = new Map<string, Job>();
  /** Positions and ends of the reads, in the order in which they were made. */
  readonly reads: { dueAt: number; until: number }[] = [];
  readonly faults: string[] = [];
  /** Domains that another node has. */
  private readonly foreign = new Set<string>();
  /** Runs after the next reads have seen their rows, before the queue has them. */
  readonly whileReading: (() => Promise<void>)[] = [];
  /** Hints of rows that are committed, which come later. */
  private readonly late: DueHint[] = [];
  private readonly restUntil = new Map<string, number>();
  private readonly temp: TempDatabase;
  private lastRead: { sql: Parameters<Connection['all']>[0]; values: readonly Value[] } | null = null;
  private failing = 0;
  private underWay = 0;

  constructor(temp: TempDatabase) {
    this.temp = temp;
    const { prepared } = temp.db;
    const observed: Connection = {
      ...prepared,
      all: async <Row>(sql: Parameters<Connection['all']>[0], values?: readonly Value[]): Promise<Row[]> => {
        this.underWay++;
        try {
          this.noteRead(sql, values);
          if (this.failing-- > 0) throw new Error('no disk');
          const rows = await prepared.all<Row>(sql, values);
          await this.whileReading.shift()?.();
          return rows;
        } finally {
          this.underWay--;
        }
      },
    };
    this.queue = new DueQueue({
      db: { prepared: observed, maintenance: observed },
      clock: this.clock,
      mostGroups: 4_000,
      isOurs: (domain) => !this.foreign.has(domain),
      tell: (hints) => this.queue.hint(hints),
      offer: (job) => {
        if (this.held.has(job.id)) this.faults.push(`${job.id} was offered twice`);
        this.held.set(job.id, job);
      },
      makeRoom: () => Promise.resolve(),
      failed: () => undefined,
    });
  }

  private noteRead(sql: Parameters<Connection['all']>[0], values: readonly Value[] = []): void {
    const [groups] = values;
    if (typeof groups !== 'string' || !groups.startsWith('[[')) return;
    this.lastRead = { sql, values };
    for (const [, , , , dueAt, , until] of JSON.parse(groups) as number[][])
      this.reads.push({ dueAt: dueAt ?? NaN, until: until ?? NaN });
  }

  /** Waits until reading has come to rest. */
  async idle(): Promise<void> {
    for (let calm = 0, seen = -1; calm < 3; calm = seen === this.reads.length && this.underWay === 0 ? calm + 1 : 0) {
      seen = this.reads.length;
      await this.temp.db.prepared.all('SELECT 1');
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Adds rows that fall due one after the other; returns the hints for them. */
  async add(domain: string, dueAt: number, count = 1): Promise<DueHint[]> {
    const deliveries = Array.from({ length: count }, (_, n) => deliveryRow({ domain, due_at: dueAt + n * 100 }));
    await this.temp.db.commit.insert({ deliveries });
    return deliveries.map(({ due_at: at }) => ({ domain, class: 0, accountId: ACCOUNT, dueAt: at ?? NaN }));
  }

  keepHints(hints: readonly DueHint[]): void {
    this.late.push(...hints);
  }

  notifyLate(): void {
    this.queue.hint(this.late.splice(0));
  }

  /** Runs the last read again, on PostgreSQL, and returns the pages of indexes and tables that it looked at. */
  async pagesOfLastRead(): Promise<number> {
    const { sql, values } = this.lastRead ?? assert.fail('nothing was read');
    const [row] = await this.temp.db.prepared.all<{ 'QUERY PLAN': string }>(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${textFor('postgres', sql)}`,
      values,
    );
    const [{ Plan: plan }] = JSON.parse(row?.['QUERY PLAN'] ?? '') as [{ Plan: Record<string, number> }];
    return (plan['Shared Hit Blocks'] ?? NaN) + (plan['Shared Read Blocks'] ?? NaN);
  }

  async setDue(id: string, dueAt: number | null): Promise<void> {
    await this.temp.db.commit.transact((tx) => tx.run('UPDATE deliveries SET due_at = ? WHERE id = ?', [dueAt, id]));
  }

  /** A worker claims a job, then its row falls due at another time, or never again. */
  async work(n: number, dueAt: number | null): Promise<void> {
    const job = this.pick(n);
    if (job === undefined) return;
    await this.setDue(job.id, this.clock.now() + LEASE_MS);
    await this.idle();
    await this.setDue(job.id, dueAt);
    this.held.delete(job.id);
    this.queue.done(job, dueAt);
  }

  /** Workers finish all that they hold. */
  async finishAll(): Promise<void> {
    const jobs = [...this.held.values()];
    for (const job of jobs) await this.setDue(job.id, null);
    for (const job of jobs) {
      this.held.delete(job.id);
      this.queue.done(job, null);
    }
  }

  /** A worker gives a job back: its row is as it was. */
  async giveBack(n: number): Promise<void> {
    const job = this.pick(n);
    if (job === undefined) return;
    this.held.delete(job.id);
    const [row] = await this.temp.db.prepared.all<{ due_at: number | null }>(
      'SELECT due_at FROM deliveries WHERE id = ?',
      [job.id],
    );
    this.queue.done(job, row?.due_at ?? null);
  }

  rest(n: number, ms: number): void {
    const job = this.pick(n);
    if (job === undefined) return;
    this.held.delete(job.id);
    const until = this.clock.now() + ms;
    this.restUntil.set(job.domain, Math.max(until, this.restUntil.get(job.domain) ?? 0));
    this.queue.rest(job, until);
  }

  fail(): void {
    this.failing = 1;
  }

  /** Waits until reading that failed has been tried again. */
  async recover(): Promise<void> {
    this.failing = 0;
    await this.idle();
    this.clock.advance(RETRY_MS);
    await this.idle();
  }

  async scan(): Promise<void> {
    this.failing = 0;
    this.restUntil.clear();
    await this.queue.scan();
  }

  /** A domain moves to another node or comes back. Of its mail in memory, lanes give up what waits; what workers have goes on. */
  move(domain: string): void {
    this.failing = 0;
    if (!this.foreign.delete(domain)) {
      this.foreign.add(domain);
      const jobs = [...this.held.values()].filter((job) => job.domain === domain);
      for (const job of jobs.slice(jobs.length / 2)) {
        this.held.delete(job.id);
        this.queue.leave(job);
      }
    }
    // A scan comes after it, as in the program.
    this.restUntil.clear();
    this.queue.domainsMoved().catch((error: unknown) => this.faults.push(String(error)));
  }

  /** Another server, or a change without a hint, moves a row that no worker has. */
  async moveBehindItsBack(n: number, dueAt: number): Promise<void> {
    const rows = await this.temp.db.prepared.all<{ id: string }>(
      'SELECT id FROM deliveries WHERE due_at IS NOT NULL ORDER BY id',
    );
    const { id } = rows[n % Math.max(rows.length, 1)] ?? {};
    if (id !== undefined && !this.held.has(id)) await this.setDue(id, dueAt);
  }

  /** Fails if a row is due that is not in memory, though its destination takes mail and few of its mails are held. */
  async check(what: string): Promise<void> {
    const rows = await this.temp.db.prepared.all<{ id: string; domain: string; due_at: number }>(
      'SELECT id, domain, due_at FROM deliveries WHERE due_at <= ?',
      [this.clock.now()],
    );
    const jobs = [...this.held.values()];
    const wants = (domain: string): boolean =>
      !this.foreign.has(domain) &&
      (this.restUntil.get(domain) ?? 0) <= this.clock.now() &&
      jobs.filter((job) => job.domain === domain).length < ENOUGH;
    const overlooked = rows.filter((row) => !this.held.has(row.id) && wants(row.domain));
    assert.deepEqual(overlooked, [], what);
    assert.deepEqual(this.faults, []);
  }

  async close(): Promise<void> {
    this.queue.stop();
    await this.idle();
    await this.temp.db.commit.transact((tx) => tx.run('DELETE FROM deliveries'));
  }

  private pick(n: number): Job | undefined {
    const jobs = [...this.held.values()];
    return jobs[n % Math.max(jobs.length, 1)];
  }
}

type Step = (world: World) => Promise<void> | void;

const domain = fc.constantFrom(...DOMAINS);
const offset = fc.integer({ min: -20_000, max: 40_000 });
const place = fc.nat(20);

const named = (name: string, step: Step): Step => Object.defineProperty(step, 'name', { value: name });

/** Events in a server that loses no hint. */
const ordinary: fc.Arbitrary<Step>[] = [
  fc
    .tuple(domain, offset)
    .map(([to, ms]) =>
      named(`add ${to} ${String(ms)}`, async (world) => world.queue.hint(await world.add(to, world.clock.now() + ms))),
    ),
  fc
    .tuple(domain, offset)
    .map(([to, ms]) =>
      named(`add many ${to} ${String(ms)}`, async (world) =>
        world.queue.hint(await world.add(to, world.clock.now() + ms, MANY)),
      ),
    ),
  fc.constant(named('finish all', (world) => world.finishAll())),
  fc.constant(named('a read fails', (world) => world.fail())),
  place.map((n) => named(`finish ${String(n)}`, (world) => world.work(n, null))),
  fc
    .tuple(place, offset)
    .map(([n, ms]) => named(`defer ${String(n)} ${String(ms)}`, (world) => world.work(n, world.clock.now() + ms))),
  place.map((n) => named(`give back ${String(n)}`, (world) => world.giveBack(n))),
  fc.integer({ min: 1, max: 20_000 }).map((ms) => named(`advance ${String(ms)}`, (world) => world.clock.advance(ms))),
];

/** Nodes join and end: no hint is lost, and what falls due of a domain that is here is offered here. */
const moving: fc.Arbitrary<Step>[] = [
  domain.map((name) => named(`move ${name}`, (world) => world.move(name))),
  fc
    .tuple(place, fc.integer({ min: 1000, max: 60_000 }))
    .map(([n, ms]) => named(`rest ${String(n)} ${String(ms)}`, (world) => world.rest(n, ms))),
];

/** Faults that a scan corrects. */
const trouble: fc.Arbitrary<Step>[] = [
  fc.tuple(domain, offset).map(([to, ms]) =>
    named(`add ${to} ${String(ms)}, lost hint`, async (world) => {
      await world.add(to, world.clock.now() + ms);
    }),
  ),
  fc
    .tuple(domain, offset)
    .map(([to, ms]) =>
      named(`add ${to} ${String(ms)}, late hint`, async (world) =>
        world.keepHints(await world.add(to, world.clock.now() + ms)),
      ),
    ),
  fc.constant(named('late hints', (world) => world.notifyLate())),
  fc
    .tuple(place, offset)
    .map(([n, ms]) =>
      named(`another writer ${String(n)} ${String(ms)}`, (world) => world.moveBehindItsBack(n, world.clock.now() + ms)),
    ),
  fc
    .tuple(place, fc.integer({ min: 1000, max: 60_000 }))
    .map(([n, ms]) => named(`rest ${String(n)} ${String(ms)}`, (world) => world.rest(n, ms))),
  fc
    .integer({ min: 1000, max: 7_200_000 })
    .map((ms) => named(`clock back ${String(ms)}`, (world) => world.clock.jump(-ms))),
  fc.constant(named('scan', (world) => world.scan())),
];

describe('mta/due-queue: floors', () => {
  let temp: TempDatabase;

  before(async () => {
    temp = await openTempDatabase();
  });
  after(() => temp.close());

  const holds = async (steps: fc.Arbitrary<Step>[], checked: (world: World, at: string) => Promise<void>) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(...steps), { minLength: 1, maxLength: 40 }),
        fc.infiniteStream(fc.boolean()),
        async (all, waits) => {
          const world = new World(temp);
          try {
            await world.scan();
            for (const [at, step] of all.entries()) {
              await step(world);
              if (waits.next().value === true) continue;
              await world.idle();
              await checked(world, `after step ${String(at)}, ${step.name}`);
            }
          } finally {
            await world.close();
          }
        },
      ),
      { numRuns: 150 },
    );
  };

  it('overlook nothing as long as no hint is lost, without any scan', async () => {
    await holds(ordinary, async (world, at) => {
      await world.recover();
      await world.check(at);
    });
  });

  it('overlook nothing while domains move away and back', async () => {
    await holds([...ordinary, ...moving, ...moving, ...moving], async (world, at) => {
      await world.recover();
      await world.check(at);
    });
  });

  it('overlook nothing for longer than a sweep, whatever goes wrong', async () => {
    await holds([...ordinary, ...trouble], async (world, at) => {
      await world.recover();
      await world.scan();
      await world.idle();
      await world.check(at);
    });
  });

  it('take in what is committed before anything else of its group while that is read', async () => {
    const world = new World(temp);
    await world.scan();
    world.whileReading.push(async () => world.queue.hint(await world.add('a.test', world.clock.now() - 60_000)));
    world.queue.hint(await world.add('a.test', world.clock.now()));
    await world.idle();
    assert.equal(world.held.size, 2);
    await world.close();
  });

  it('take in, without a hint, all that a server finds when it starts', async () => {
    const world = new World(temp);
    await world.add('a.test', world.clock.now() - 60_000, MANY);
    await world.add('a.test', world.clock.now() + 5_000);
    await world.add('a.test', world.clock.now() + 10_000);
    await world.scan();
    for (let n = 0; n < 3; n++) {
      await world.idle();
      await world.finishAll();
    }
    for (let n = 0; n < 2; n++) {
      world.clock.advance(5_000);
      await world.idle();
      assert.equal(world.held.size, 1);
      await world.finishAll();
    }
    await world.close();
  });

  it('leave out what was finished before and what was claimed behind', async () => {
    const world = new World(temp);
    await world.scan();
    for (let n = 0; n < 20; n++) {
      world.queue.hint(await world.add('a.test', world.clock.now()));
      await world.idle();
      await world.work(0, null);
      world.clock.advance(10_000);
      await world.idle();
    }
    const now = world.clock.now();
    assert.ok(world.reads.length >= 20);
    assert.ok((world.reads.at(-1)?.dueAt ?? 0) >= now - 15_000, 'what was finished long ago was read again');
    assert.ok(
      world.reads.every(({ until }) => until <= now),
      'what falls due later was read, though a scan had found nothing and a hint would have come',
    );
    await world.close();
  });

  it('walk over none of the entries that an old snapshot keeps', async function () {
    if (!isOnPostgres) return this.skip('looks at the plans of PostgreSQL');
    const world = new World(temp);
    await world.scan();
    const snapshot = new pg.Client({ connectionString: temp.url });
    await snapshot.connect();
    try {
      await snapshot.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM deliveries');
      await world.add('a.test', world.clock.now(), 3_000);
      for (const dueAt of [world.clock.now() + 2 * LEASE_MS, null])
        await temp.db.commit.transact((tx) => tx.run('UPDATE deliveries SET due_at = ?', [dueAt]));
      world.clock.advance(LEASE_MS);
      world.queue.hint(await world.add('a.test', world.clock.now()));
      await world.idle();
      assert.equal(world.held.size, 1);
      const pages = await world.pagesOfLastRead();
      assert.ok(pages < 15, `${String(pages)} pages`);
    } finally {
      await snapshot.end();
    }
    await world.close();
  });

  it('read beyond the present once for each time at which something falls due', async () => {
    const world = new World(temp);
    await world.scan();
    world.queue.hint(await world.add('a.test', world.clock.now() + 5_000));
    world.clock.advance(5_000);
    for (let n = 0; n < 10; n++) {
      world.queue.hint(await world.add('a.test', world.clock.now()));
      await world.idle();
    }
    assert.equal(world.held.size, 11);
    assert.equal(world.reads.filter(({ until }) => until > world.clock.now()).length, 1);
    await world.close();
  });
});
