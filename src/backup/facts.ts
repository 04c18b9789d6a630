/** Reads a copy of the database: whether it is intact, its contents, and its books. */
import type { Knex } from 'knex';
import { balance, type Books } from '../messages/store/books.ts';
import { openStill } from '../storage/database.ts';
import type { Manifest } from './manifest.ts';

export type Facts = Pick<Manifest, 'migrations' | 'epoch' | 'counts'> & { books: Books };

export type Reading =
  | { kind: 'sound'; facts: Facts }
  /** The faults that SQLite reports. */
  | { kind: 'damaged'; faults: string[] };

/** Faults that are reported; more would not help. */
const MOST_FAULTS = 10;

/** Reads the whole file with its indexes; takes about as long as the copy. */
export async function readFacts(file: string): Promise<Reading> {
  const still = openStill(file);
  try {
    const rows = await still.raw<{ integrity_check: string }[]>(`PRAGMA integrity_check(${String(MOST_FAULTS)})`);
    const faults = rows.map((row) => row.integrity_check).filter((line) => line !== 'ok');
    if (faults.length > 0) return { kind: 'damaged', faults };
    return { kind: 'sound', facts: await facts(still) };
  } catch (error) {
    return { kind: 'damaged', faults: [error instanceof Error ? error.message : String(error)] };
  } finally {
    await still.destroy();
  }
}

async function facts(still: Knex): Promise<Facts> {
  const count = async (table: string, waiting = false): Promise<number> => {
    const query = still(table).count({ n: '*' });
    const rows = (await (waiting ? query.whereNotNull('due_at') : query)) as { n: number }[];
    return rows[0]?.n ?? 0;
  };
  const migrations = (await still('migrations').select('name').orderBy('id')) as { name: string }[];
  const [epoch] = (await still('settings').select('value').where({ name: 'epoch' })) as { value: string }[];
  return {
    migrations: migrations.map(({ name }) => name),
    epoch: Number(epoch?.value ?? 0),
    counts: {
      accounts: await count('accounts'),
      messages: await count('messages'),
      recipients: await count('deliveries'),
      waiting: await count('deliveries', true),
      events: await count('events'),
    },
    books: await balance(still),
  };
}
