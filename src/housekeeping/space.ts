/**
 * The database's file: pages that deleting has left free are given back to the disk a few at a time, down to a share that
 * the next mail will use anyway; and the query planner's figures are kept fresh.
 */
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { freshenFigures } from '../storage/planner-figures.ts';
import type { Rule, SizedRule } from './housekeeping.ts';
import { timed } from './timed.ts';

const HOURLY_MS = 60 * 60_000;
/** Of all pages; and 8 MiB at least. */
const FREE_SHARE = 0.05;
const LEAST_FREE_PAGES = 2048;
/** Each page that moves from the end of the file may have to come from the disk, with those that lead to it: the writer waits for that. */
const MOST_PAGES = 20;

export function spaceRules({
  db,
  clock,
}: {
  db: Pick<Database, 'commit' | 'fast'>;
  clock: Clock;
}): (Rule | SizedRule)[] {
  return [
    {
      name: 'free pages',
      everyMs: HOURLY_MS,
      mostRows: MOST_PAGES,
      async sizedStep(most) {
        const spare = await sparePages(db.fast);
        if (spare < most) return { rows: 0, ms: 0 };
        return timed({ clock, commit: db.commit }, (commit) =>
          commit.transact(async (tx) => {
            // Each row that is read is a page that goes: all of them have to be asked for.
            await tx.all(`PRAGMA incremental_vacuum(${String(most)})`);
            return most;
          }),
        );
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

async function sparePages(fast: Database['fast']): Promise<number> {
  const [pages] = await fast.all<{ page_count: number }>('PRAGMA page_count');
  const [free] = await fast.all<{ freelist_count: number }>('PRAGMA freelist_count');
  return (free?.freelist_count ?? 0) - Math.max(LEAST_FREE_PAGES, (pages?.page_count ?? 0) * FREE_SHARE);
}
