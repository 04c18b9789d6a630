/** A node whose clock is wrong leaves those whose clocks are right, and does not join them. */
import assert from 'node:assert/strict';
import { systemClock } from '../../../src/base/clock.ts';
import { openDatabase } from '../../../src/storage/database.ts';
import type { NodeRecord } from '../../../src/storage/nodes.ts';
import {
  addressOf,
  connectTo,
  createPostgresConnection,
  type PostgresConnection,
} from '../../../src/storage/postgres/connection.ts';
import { NodeMessages } from '../../../src/storage/postgres/node-messages.ts';
import { clockInTheWay, joinNodes, lookAtClocks, offBeyond, wrongBeside } from '../../../src/storage/postgres/node.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { makeDatabase, postgresPrograms, startedCluster, urlOf } from '../../support/harness/postgres.ts';

type Other = Pick<NodeRecord, 'facts' | 'isCommand' | 'quietMs'>;
const RIGHT: Other = { facts: '{}', isCommand: false, quietMs: 0 };
const off = (clockOffMs: number): Other => ({ ...RIGHT, facts: JSON.stringify({ clockOffMs }) });

/** A look at a clock that is so far ahead, with an answer that took twice `withinMs`. */
const look = (aheadMs: number, withinMs = 1) => ({ aheadMs, withinMs });

describe('storage/postgres/clock-watch', () => {
  for (const [what, aheadMs, others, expected] of [
    ['a clock that is ahead is wrong', 5000, [RIGHT], 5000],
    ['a clock that is behind is wrong', -2002, [RIGHT], -2002],
    ['it is wrong if one of several others is right', 5000, [off(5000), off(-300)], 5000],
    ['two seconds are right', 2001, [RIGHT], 0],
    ['alone there is nobody to leave', 5000, [], 0],
    ['if all others say the same, the database may be wrong', 5000, [off(5000)], 0],
    ['all others may be wrong', 5000, [off(-9000), off(2500)], 0],
    ['a command is no node to leave', 5000, [{ ...RIGHT, isCommand: true }], 0],
    ['nor is a node that is dead', 5000, [{ ...RIGHT, quietMs: 60_000 }], 0],
  ] as const)
    it(what, () => {
      assert.equal(wrongBeside(look(aheadMs), others), expected);
    });

  it('proves nothing by slow answers', () => {
    assert.equal(wrongBeside(look(5000, 3000), [RIGHT]), 0);
    assert.equal(offBeyond(250, look(5000, 4000)), 5000);
    assert.equal(offBeyond(250, look(5000, 4800)), 0);
  });

  it('takes the way off an answer, wherever on it the database looked at its clock', async () => {
    for (const [before, after] of [
      [0, 4000],
      [4000, 0],
      [2000, 2000],
    ] as const) {
      const clock = new FakeClock();
      const { look: seen } = await lookAtClocks(clock, () => {
        clock.advance(before);
        const rows = [{ now_ms: clock.now() }];
        clock.advance(after);
        return Promise.resolve(rows);
      });
      assert.equal(offBeyond(0, seen), 0);
    }
  });
});

describe('storage/postgres: a node with a wrong clock', () => {
  let url: string;
  let connection: PostgresConnection;

  before(async function () {
    if (postgresPrograms() === null) return this.skip('PostgreSQL is not installed (apt-get install postgresql)');
    url = urlOf((await startedCluster()).folder, await makeDatabase());
    await (await openDatabase({ url })).close();
  });
  beforeEach(() => {
    connection = createPostgresConnection(() => connectTo(addressOf({ url }), { setUp: [] }), { reconnects: true });
  });
  afterEach(() => connection.close());

  const ahead = (ms: number) => ({
    now: () => systemClock.now() + ms,
    monotonic: systemClock.monotonic,
  });

  /** A node that gives signs of life when its clock is moved on. */
  async function join(name: string, aheadMs: number) {
    const clock = new FakeClock(Date.now() + aheadMs);
    const told = { differs: new Array<number>(), wrong: new Array<number>() };
    const node = await joinNodes(
      {
        connection,
        clock,
        messages: new NodeMessages(connection, clock),
        takenOver: () => assert.fail('it must not end'),
        clockDiffers: (ms) => told.differs.push(ms),
        clockWrong: (ms) => told.wrong.push(ms),
      },
      { name, version: '1', facts: '{"roles":["delivery"]}' },
    );
    const beat = async (): Promise<void> => {
      clock.jump(Date.now() + aheadMs - clock.now() - 2000);
      clock.advance(2000);
      // A sign of life is up to four statements on this connection, one after the other.
      for (let n = 0; n < 6; n++) await connection.all('SELECT 1');
    };
    return { node, told, beat };
  }

  it('leaves once, a right one stays, and it cannot join again until its clock is right', async () => {
    const wrong = await join('wrong', 60_000);
    for (let n = 0; n < 5; n++) await wrong.beat();
    assert.deepEqual([wrong.told.differs.length, wrong.told.wrong], [1, []], 'alone it is warned of');
    const right = await join('right', 0);
    for (let n = 0; n < 6; n++) {
      await wrong.beat();
      await right.beat();
    }
    assert.equal(wrong.told.wrong.length, 1);
    assert.ok(Math.abs((wrong.told.wrong[0] ?? 0) - 60_000) < 10_000, String(wrong.told.wrong));
    assert.deepEqual([right.told.differs, right.told.wrong], [[], []]);
    await wrong.node.leave();
    const off = await clockInTheWay(connection, ahead(60_000));
    assert.ok(Math.abs(off - 60_000) < 10_000, String(off));
    assert.equal(await clockInTheWay(connection, ahead(0)), 0);
    await right.node.leave();
    assert.equal(await clockInTheWay(connection, ahead(60_000)), 0, 'alone it may start');
  });

  it('stays with the others where the clock of the database is the odd one', async () => {
    const nodes = [await join('one', -60_000), await join('two', -60_000)];
    for (let n = 0; n < 6; n++) for (const { beat } of nodes) await beat();
    assert.deepEqual(
      nodes.map(({ told }) => [told.differs.length, told.wrong]),
      [
        [1, []],
        [1, []],
      ],
    );
    assert.equal(await clockInTheWay(connection, ahead(-60_000)), 0);
    for (const { node } of nodes) await node.leave();
  });
});
