/**
 * Whatever statements and answers get lost, a unit that was answered is written once and is on the standby, and one that failed is written
 * at most once.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createCommitter } from '../../../src/storage/commit.ts';
import type { Value } from '../../../src/storage/connection.ts';
import type { PostgresConnection } from '../../../src/storage/postgres/connection.ts';
import { MarkerNumbers, type Node } from '../../../src/storage/postgres/node.ts';
import { textFor } from '../../../src/storage/sql.ts';
import { createWriter } from '../../../src/storage/postgres/writer.ts';
import type { Clock } from '../../../src/base/clock.ts';

/**
 * The fate of a statement: it is lost before or after the server performs it, or, for a COMMIT, the wait for the standby is cancelled. A
 * COMMIT whose answer is lost has not reached the standby either.
 */
type Fate = 'fine' | 'lost' | 'answer lost' | 'wait cancelled';

const lost = (): Error => Object.assign(new Error('Connection terminated'), { code: 'ECONNRESET' });
const failure = (code: string, constraint: string): Error =>
  Object.assign(new Error(`${code} ${constraint}`), { code, constraint });

/** A server with the table of markers and a list of what was written, behind a connection that loses things. */
function serverWith(fates: readonly Fate[]) {
  const markers = new Set<number>();
  const written: number[] = [];
  /** How many of them are on the standby. */
  let replicated = 0;
  let notices: string[] = [];
  let open: { marker: number | null; rows: number[]; isAborted: boolean } | null = null;
  let statements = 0;

  function perform(sql: string, values: readonly Value[]): string {
    if (sql.startsWith('BEGIN')) {
      open = { marker: null, rows: [], isAborted: false };
      return 'BEGIN';
    }
    const tx = open;
    if (sql === 'ROLLBACK' || tx === null) {
      open = null;
      return 'ROLLBACK';
    }
    if (sql === 'COMMIT') {
      open = null;
      if (tx.isAborted || tx.marker === null) return 'ROLLBACK';
      markers.add(tx.marker);
      written.push(...tx.rows);
      return 'COMMIT';
    }
    if (tx.isAborted) throw failure('25P02', '');
    if (sql.startsWith('INSERT INTO commits')) {
      tx.marker = Number(values[1]);
      if (!markers.has(tx.marker)) return 'INSERT';
      tx.isAborted = true;
      throw failure('23505', 'commits_pkey');
    }
    if (sql === 'refused') {
      tx.isAborted = true;
      throw failure('23514', 'a rule');
    }
    tx.rows.push(Number(values[0]));
    return 'INSERT';
  }

  function send(sql: string, values: readonly Value[]): string {
    const fate = fates[statements++] ?? 'fine';
    if (fate === 'lost') {
      open = null;
      throw lost();
    }
    const tag = perform(sql, values);
    if (fate === 'answer lost') {
      open = null;
      throw lost();
    }
    const isCancelled = fate === 'wait cancelled' && tag === 'COMMIT';
    notices = isCancelled ? ['01000'] : [];
    if (tag === 'COMMIT' && !isCancelled) replicated = written.length;
    return tag;
  }

  const connection: PostgresConnection = {
    engine: 'postgres',
    all: async (sql, values = []) => (send(textFor('postgres', sql), values), []),
    run: async (sql, values = []) => void send(textFor('postgres', sql), values),
    tagOf: async (sql) => ({ tag: send(sql, []), notices }),
    ready: () => Promise.resolve(),
    drop: () => undefined,
    close: () => Promise.resolve(),
  };
  return { connection, written, isReplicated: (n: number) => written.slice(0, replicated).includes(n) };
}

function nodeOf(): Node {
  return {
    epoch: 1,
    numbers: new MarkerNumbers(),
    isOver: false,
    end: () => undefined,
  };
}

describe('storage/postgres: groups that run again', () => {
  const fate = fc.oneof(
    { weight: 6, arbitrary: fc.constant<Fate>('fine') },
    { weight: 1, arbitrary: fc.constant<Fate>('lost') },
    { weight: 1, arbitrary: fc.constant<Fate>('answer lost') },
    { weight: 1, arbitrary: fc.constant<Fate>('wait cancelled') },
  );
  const units = fc.array(fc.record({ turns: fc.nat(2), isRefused: fc.boolean() }), { minLength: 1, maxLength: 12 });

  it('write each answered unit once, and no other', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fate, { maxLength: 60 }), units, fc.nat(400), async (fates, wanted, pause) => {
        const { connection, written, isReplicated } = serverWith(fates);
        let now = 0;
        const clock: Pick<Clock, 'monotonic' | 'sleep'> = {
          monotonic: () => now,
          // Pauses of different lengths use the patience of a lost connection up sooner or later.
          sleep: async (ms) => void (now += ms + pause * 20),
        };
        const deps = { connection, clock: clock as Clock, random: () => 0, node: nodeOf() };
        const commit = createCommitter(createWriter(deps, { place: 0, isSerializable: false }));
        const ended = await Promise.allSettled(
          wanted.map(async ({ turns, isRefused }, n) => {
            for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
            await commit.transact((tx) => tx.run(isRefused ? 'refused' : 'INSERT', [n]));
            return isReplicated(n);
          }),
        );
        await commit.close();
        const times = (n: number): number => written.filter((one) => one === n).length;
        for (const [n, end] of ended.entries()) {
          const { status } = end;
          if (status === 'fulfilled') {
            assert.equal(times(n), 1, `unit ${String(n)} was answered`);
            assert.ok(end.value, `unit ${String(n)} was answered before the standby had it`);
          } else assert.ok(times(n) <= 1, `unit ${String(n)} failed and was written more than once`);
          if (wanted[n]?.isRefused === true) assert.equal(status, 'rejected');
        }
      }),
      { numRuns: 500 },
    );
  });
});
