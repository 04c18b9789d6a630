/**
 * The life of a database: mail comes in day after day, what is too old goes each night, and after a while as much goes as comes.
 * Prints for each day how large the file is, and its contents. Nothing waits for a clock: a day takes as long as its rows.
 */
import path from 'node:path';
import { systemClock, type Clock } from '../../src/base/clock.ts';
import { openKeyring } from '../../src/base/keyring.ts';
import { takeStep } from '../../src/housekeeping/housekeeping.ts';
import { oldRowRules } from '../../src/housekeeping/old-rows.ts';
import { retentionRules } from '../../src/housekeeping/retention.ts';
import { openDatabase, type Database } from '../../src/storage/database.ts';
import { seedData } from '../seed/seed-data.ts';

export interface Life {
  days: number;
  messagesADay: number;
  /** In days; events as long as messages. */
  keep: { content: number; messages: number };
  told?: (day: Day) => void;
  /** The end of the story; now, where nothing else is said. */
  clock?: Clock;
}

export interface Day {
  day: number;
  /** Of the file once its log (WAL) is in it. */
  bytes: number;
  freeBytes: number;
  messages: number;
  contents: number;
  events: number;
}

const DAY_MS = 86_400_000;
const AT_ONCE = 500;

/** Lives in a new folder, and tells of each day. */
export async function live(
  folder: string,
  { days, messagesADay, keep, told, clock = systemClock }: Life,
): Promise<Day[]> {
  const db = await openDatabase({ url: `sqlite:${path.join(folder, 'posthorn.db')}` });
  const lived: Day[] = [];
  try {
    await seedData(
      { db, clock, keyring: openKeyring(folder) },
      {
        messages: days * messagesADay,
        events: 5,
        days,
        seed: 1,
        async dayEnds(at) {
          await keepHouse(db, { ...systemClock, now: () => at }, keep);
          const day = await look(db, lived.length + 1);
          lived.push(day);
          told?.(day);
        },
      },
    );
  } finally {
    await db.close();
  }
  return lived;
}

async function keepHouse(db: Database, clock: Clock, keep: Life['keep']): Promise<void> {
  const messages = keep.messages * DAY_MS;
  const own = { content: keep.content * DAY_MS, requestDetails: keep.content * DAY_MS };
  const retention = { ...own, messages, events: messages, audit: messages, reports: messages };
  const rules = [
    ...retentionRules({ db, clock, retention }),
    ...oldRowRules({ db, clock, trust: { isTrusted: () => true }, retention, usedUp: () => undefined }),
  ];
  for (const rule of rules) while ((await takeStep(rule, AT_ONCE, db.commit)).more);
}

async function look(db: Database, day: number): Promise<Day> {
  const one = async (sql: string): Promise<number> =>
    Object.values((await db.prepared.all<Record<string, number>>(sql))[0] ?? {})[0] ?? 0;
  const page = await one('PRAGMA page_size');
  return {
    day,
    bytes: (await one('PRAGMA page_count')) * page,
    freeBytes: (await one('PRAGMA freelist_count')) * page,
    messages: await one('SELECT COUNT(*) FROM messages'),
    contents: await one('SELECT COUNT(*) FROM contents'),
    events: await one('SELECT COUNT(*) FROM events'),
  };
}
