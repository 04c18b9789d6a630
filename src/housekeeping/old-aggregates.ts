/** Removes aggregate reports (DMARC and TLS) 400 days after they arrived, by the time in their id, whatever period they claim to be about. */
import type { Clock } from '../base/clock.ts';
import { idFloor } from '../base/id.ts';
import type { Database } from '../storage/database.ts';
import type { Rule } from './housekeeping.ts';

const STEP = 200;
const KEPT_MS = 400 * 86_400_000;

export function oldAggregates({ db, clock }: { db: Pick<Database, 'commit'>; clock: Clock }): Rule {
  return {
    name: 'old aggregate reports',
    everyMs: 24 * 60 * 60_000,
    stepRows: STEP,
    step: () =>
      db.commit.transact(async (tx) => {
        const before = idFloor('rep', clock.now() - KEPT_MS);
        const gone: number[] = [];
        for (const table of ['dmarc_rows', 'tls_report_rows']) {
          const rows = await tx.all(
            `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE id < ? ORDER BY id LIMIT ?) RETURNING id`,
            [before, STEP],
          );
          gone.push(rows.length);
        }
        const known = await tx.all(
          'DELETE FROM aggregate_reports WHERE rowid IN (SELECT rowid FROM aggregate_reports WHERE report_id < ? ORDER BY report_id LIMIT ?) RETURNING report_id',
          [before, STEP],
        );
        gone.push(known.length);
        return Math.max(...gone);
      }),
  };
}
