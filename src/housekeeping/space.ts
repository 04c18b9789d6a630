/**
 * The database's file: pages that deleting has left free are given back to the disk a few at a time, down to a share that
 * the next mail will use anyway; and the query planner's figures are kept fresh.
 */
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { freshenFigures } from '../storage/planner-figures.ts';
import { AIM_MS, type Rule, type SizedRule } from './housekeeping.ts';
import { timed } from './timed.ts';

const HOURLY_MS = 60 * 60_000;
/** Of all pages; and 8 MiB at least. */
const FREE_SHARE = 0.05;
const LEAST_FREE_PAGES = 2048;
/**
 * Most pages move within 0.1 ms. One that leads to some hundred others takes 2 to 10: for each of them stands elsewhere in the file
 * who leads to it. Such pages lie in groups, so a step looks at the clock after every few.
 */
const PAGES_AT_ONCE = 2;

export function spaceRules({
  db,
  clock,
}: {
  db: Pick<Database, 'commit' | 'prepared'>;
  clock: Clock;
}): (Rule | SizedRule)[] {
  return [
    {
      name: 'free pages',
      everyMs: HOURLY_MS,
      async sizedStep(most) {
        const spare = await sparePages(db.prepared);
        if (spare < most) return { rows: 0, ms: 0 };
        const step = await timed({ clock, commit: db.commit }, (commit) =>
          commit.transact(async (tx) => {
            const from = clock.monotonic();
            let pages = 0;
            while (pages < most && clock.monotonic() - from < AIM_MS) {
              // Each row that is read is a page that goes: all of them have to be asked for.
              await tx.all(`PRAGMA incremental_vacuum(${String(PAGES_AT_ONCE)})`);
              pages += PAGES_AT_ONCE;
            }
            return pages;
          }),
        );
        return { ...step, more: true };
      },
      silent: true,
    },
    {
      name: 'planner figures',
      everyMs: HOURLY_MS,
      stepRows: Infinity,
      async step() {
        // What is stale only the writer knows: it is who has asked for the tables.
        const writer = { all: <Row>(sql: string) => db.commit.transact((tx) => tx.all<Row>(sql)) };
        await freshenFigures(writer, (work) => db.commit.transact(work));
        return 0;
      },
    },
  ];
}

async function sparePages(fast: Database['prepared']): Promise<number> {
  const [pages] = await fast.all<{ page_count: number }>('PRAGMA page_count');
  const [free] = await fast.all<{ freelist_count: number }>('PRAGMA freelist_count');
  return (free?.freelist_count ?? 0) - Math.max(LEAST_FREE_PAGES, (pages?.page_count ?? 0) * FREE_SHARE);
}
