/**
 * `npm run seed -- --messages 100000 --data <folder>`: fills a data folder with a month of mail, for looking at pages and for
 * measuring. Prints a key that may do everything.
 */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../../src/base/clock.ts';
import { openKeyring } from '../../src/base/keyring.ts';
import { balance } from '../../src/messages/store/books.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { lockFolder } from '../../src/storage/folder-lock.ts';
import { seedData } from './seed-data.ts';

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '10000' },
    events: { type: 'string', default: '5' },
    days: { type: 'string', default: '30' },
    seed: { type: 'string', default: '1' },
    data: { type: 'string' },
    books: { type: 'boolean', default: false },
  },
});

/** A number between these, or the end of the program. */
function number(name: 'messages' | 'events' | 'days' | 'seed', least: number, most: number): number {
  const value = Number(values[name]);
  if (Number.isFinite(value) && value >= least && value <= most) return value;
  console.error(`--${name} takes a number from ${String(least)} to ${String(most)}`);
  process.exit(64);
}

const messages = Math.floor(number('messages', 1, 20_000_000));
const events = number('events', 2.1, 50);
const days = Math.floor(number('days', 1, 400));
const seed = Math.floor(number('seed', 0, 2 ** 32 - 1));
if (values.data === undefined) {
  console.error('--data names the folder to fill; it should be a new one');
  process.exit(64);
}
const folder = path.resolve(values.data);
mkdirSync(folder, { recursive: true, mode: 0o750 });
const lock = await lockFolder(folder);
if (lock === null) {
  console.error(`a server runs on ${folder}: stop it first`);
  process.exit(75);
}
const db = await openDatabase({ url: `sqlite:${path.join(folder, 'posthorn.db')}` });
// Rows of a million messages go to all places of the indexes: with the small cache and the frequent checkpoints of a server, each
// page would be written again and again. Both end with this connection.
await db.commit.transact(async (tx) => {
  await tx.run('PRAGMA cache_size = -1048576');
  await tx.run('PRAGMA wal_autocheckpoint = 200000');
});
const begun = performance.now();
const seconds = (): string => ((performance.now() - begun) / 1000).toFixed(1);
try {
  const done = await seedData(
    { db, clock: systemClock, keyring: openKeyring(folder) },
    {
      messages,
      events,
      days,
      seed,
      progress: (count) => {
        if (count % 50_000 === 0) console.error(`${String(count)} messages after ${seconds()} s`);
      },
    },
  );
  console.error(`${String(done.messages)} messages and ${String(done.events)} events in ${seconds()} s`);
  if (values.books) console.error(JSON.stringify(await balance(db.reader)));
  console.log(JSON.stringify({ data: folder, key: done.key, messages: done.messages, events: done.events }));
} finally {
  await db.close();
  await lock.release();
}
