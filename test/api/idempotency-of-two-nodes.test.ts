/** The same Idempotency-Key at two servers of one database, at the same moment: the work is done once, and both give the same answer. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import { route, type Reply, type Route } from '../../src/api/route.ts';
import { Problem } from '../../src/base/problem.ts';
import { createIdempotencyStore } from '../../src/storage/idempotency-store.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';
import { startHarness, type Harness } from './harness.ts';

const KEY_HEADER = { 'idempotency-key': '8e03978e-40d5-43e8-bc93-6894a57f9324' };

describe('api: one Idempotency-Key at two nodes', () => {
  let temp: TempDatabase;
  let nodes: Harness[];
  let written: string[];
  beforeEach(async () => {
    temp = await openTempDatabase();
    nodes = [];
    written = [];
  });
  afterEach(async () => {
    await Promise.all(nodes.map((node) => node.stop()));
    await temp.close();
  });

  /** Starts two nodes whose handlers wait until both have looked the key up and found nothing. */
  async function startTwo(
    work: (node: number, keep: (reply: Reply) => Promise<void>) => Promise<Reply>,
  ): Promise<void> {
    let arrived = 0;
    let open: () => void = () => undefined;
    const both = new Promise<void>((resolve) => (open = resolve));
    for (const node of [1, 2]) {
      const declared: Route = route(
        {
          method: 'POST',
          path: '/v1/things',
          operationId: 'createTemplate',
          description: 'Any.',
          tag: 'any',
          scope: ['template'],
          body: z.undefined(),
          bodyByHandler: true,
          responses: { 201: { description: 'Any.', schema: z.unknown() } },
        },
        async (call) => {
          if (++arrived === 2) open();
          await both;
          return await work(node, async (reply) => {
            const row = call.idempotencyRow(reply);
            await temp.db.commit.insert({ idempotency: row === null ? [] : [row] });
            written.push(`node ${String(node)}`);
          });
        },
      );
      const store = createIdempotencyStore({ db: temp.db, clock: new FakeClock() });
      nodes.push(await startHarness({ routes: [declared], deps: { idempotency: { store, onMismatch: 'replay' } } }));
    }
  }

  const sendBoth = (bodies: readonly object[]) =>
    Promise.all(
      nodes.map((node, at) => node.send('POST', '/v1/things', { body: bodies[at] ?? {}, headers: KEY_HEADER })),
    );

  it('rolls the second work back and answers as the first', async () => {
    await startTwo(async (node, keep) => {
      const reply = { status: 201, body: { by: node } };
      await keep(reply);
      return reply;
    });
    const both = await sendBoth([{ a: 1 }, { a: 1 }]);
    assert.equal(written.length, 1);
    assert.equal(temp.db.commit.stats.failedUnits, 0);
    const first = written[0] === 'node 1' ? both[0] : both[1];
    assert.deepEqual(
      both.map(({ status, text }) => [status, text]),
      [1, 2].map(() => [201, first?.text]),
    );
    const replayed = both.map(({ headers }) => headers['idempotency-replayed'] ?? null).sort();
    assert.deepEqual(replayed, ['true', null].sort());
    const lines = nodes.flatMap(({ audits }) => audits.map(({ idempotency_replayed: isReplay }) => isReplay));
    assert.deepEqual(lines.sort(), [0, 1]);
    assert.deepEqual(
      nodes.flatMap(({ logged }) => logged),
      [],
    );
  });

  it('says that the key had another body', async () => {
    await startTwo(async (node, keep) => {
      const reply = { status: 201, body: { by: node } };
      await keep(reply);
      return reply;
    });
    const both = await sendBoth([{ a: 1 }, { a: 2 }]);
    assert.deepEqual(both[0]?.text, both[1]?.text);
    assert.deepEqual(both.map(({ headers }) => headers['idempotency-mismatch'] ?? null).sort(), ['true', null].sort());
  });

  it('answers a refusal that the work of the first has caused as the first was answered', async () => {
    let isThere: () => void = () => undefined;
    const there = new Promise<void>((resolve) => (isThere = resolve));
    await startTwo(async (node, keep) => {
      if (node === 2) {
        await there;
        throw new Problem('already_exists', 'There is one already.');
      }
      const reply = { status: 201, body: { by: node } };
      await keep(reply);
      isThere();
      return reply;
    });
    const both = await sendBoth([{}, {}]);
    assert.deepEqual(
      both.map(({ status, text }) => [status, text]),
      [1, 2].map(() => [201, '{"by":1}']),
    );
  });

  it('passes on any other error', async () => {
    await startTwo(async (node, keep) => {
      if (node === 2) throw new Error('broken');
      const reply = { status: 201, body: { by: node } };
      await keep(reply);
      return reply;
    });
    const both = await sendBoth([{}, {}]);
    assert.deepEqual(
      both.map(({ status }) => status),
      [201, 500],
    );
  });
});
