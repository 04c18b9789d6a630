/**
 * Keeps the answers to requests that may be repeated. Most rows are inserted by the transaction that does the work (messages/accept/accept.ts), so
 * this file is mainly the look-up: one statement for all requests that come at once.
 */
import { hash } from 'node:crypto';
import { createBatchLoader } from '../base/batch-loader.ts';
import type { Clock } from '../base/clock.ts';
import { DAY_MS } from '../base/time.ts';
import type { Work } from './commit.ts';
import type { Database } from './database.ts';
import { statement } from './sql.ts';
import type { IdempotencyRow } from './tables.ts';

/** Time that a key is kept after its first request. */
export const KEEP_MS = DAY_MS;

/** The API key is not a part, so that it may be replaced between a try and its retry. No part can contain a newline. */
export function recordKey(accountId: string, mode: string, method: string, path: string, key: string): string {
  return hash('sha256', [accountId, mode, method, path, key].join('\n'), 'hex');
}

/**
 * Returns whether a transaction was rolled back since its idempotency key is there: another node has done the same work, and its answer can be read.
 * Requests with one key at the same node wait for each other.
 */
export function isKeyTaken(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, constraint } = error as { code?: unknown; constraint?: unknown };
  return (
    (code === '23505' && constraint === 'idempotency_pkey') ||
    error.message.includes('UNIQUE constraint failed: idempotency.key')
  );
}

const drop = statement(({ among }) => `DELETE FROM idempotency WHERE expires_at <= ? AND key ${among('text')}`);
const find = statement(({ among }) => `SELECT * FROM idempotency WHERE key ${among('text')}`);

const dropExpired: Work<{ key: string; now: number }, undefined> = {
  name: 'idempotency-drop',
  isIntake: true,
  async run(tx, inputs) {
    const now = Math.min(...inputs.map((input) => input.now));
    const keys = JSON.stringify(inputs.map(({ key }) => key));
    await tx.run(drop, [now, keys]);
    return inputs.map(() => undefined);
  },
};

export function createIdempotencyStore({ db, clock }: { db: Pick<Database, 'commit' | 'prepared'>; clock: Clock }) {
  const loader = createBatchLoader<IdempotencyRow>(async (keys) => {
    const found = await db.prepared.all<IdempotencyRow>(find, [JSON.stringify(keys)]);
    return new Map(found.map((row) => [row.key, row]));
  });
  let isClockTrusted = (): boolean => true;

  return {
    /** Has no key expire while this returns false: a clock that is set ahead would have a repeated request send a second mail. */
    expireWhile(isTrusted: () => boolean): void {
      isClockTrusted = isTrusted;
    },
    /** Returns the row of this key, or null. An expired one is removed first, so that the key can be inserted again. */
    async find(key: string): Promise<IdempotencyRow | null> {
      const row = (await loader.load(key)) ?? null;
      const now = clock.now();
      if (row === null || row.expires_at > now || !isClockTrusted()) return row;
      await db.commit.submit(dropExpired, { key, now });
      return null;
    },
    /** Inserts an answer that no other transaction carries. Rejects if the key exists (`isKeyTaken`). */
    insert: (row: IdempotencyRow): Promise<void> => db.commit.insert({ idempotency: [row] }, 512 + row.body.length),
  };
}

export type IdempotencyStore = ReturnType<typeof createIdempotencyStore>;
