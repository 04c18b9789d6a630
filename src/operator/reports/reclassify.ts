/**
 * Applies the operator's present bounce rules to past attempts and bounce mails. If a rule decides differently, the attempt or the
 * report gets the new class and reason, and an address that was suppressed for it leaves the list. Events stay as they were sent,
 * and no address is added to the list.
 */
import { z } from 'zod';
import { Problem } from '../../base/problem.ts';
import { idFloor } from '../../base/id.ts';
import type { BounceRule } from '../../config/bounce-rule.ts';
import { readBounceRules } from '../../config/data-file.ts';
import { ConfigError } from '../../config/load.ts';
import type { Act } from '../../operations/act.ts';
import type { Connection } from '../../storage/connection.ts';
import type { StoreDeps } from '../deps.ts';
import { storeRoute } from '../server-route.ts';
import { attemptCorrector, writeAttempt, type PastAttempt } from './reclassify-attempts.ts';
import { correctedReport, writeReport, type PastReport } from './reclassify-reports.ts';
import { DAY_MS } from '../../base/time.ts';

export interface Reclassified {
  object: 'reclassification';
  /** Attempts whose class or reason changed. */
  attempts: number;
  /** Bounce mails whose class or reason changed. */
  reports: number;
  /** Bounce mails that could not be read again: they stay as they are. */
  reports_unread: number;
  /** Entries that left the suppression list. */
  unsuppressed: number;
  dry_run: boolean;
}

/** Attempts in one step: few enough for a short read and a short commit. */
const ATTEMPTS = 2_000;
/** Bounce mails in one step: they have up to 512 KiB each. */
const REPORTS = 20;

export const reclassifyOperations = {
  'bounces.reclassify': storeRoute({
    act: {
      says: 'labelled past bounces by the present rules',
      type: 'bounces',
      keeps: ['attempts', 'reports', 'reports_unread', 'unsuppressed', 'dry_run'],
    },
    body: z.strictObject({
      /** How far back, in ms. */
      past: z
        .int()
        .min(1000)
        .max(366 * DAY_MS),
      dry_run: z.boolean().default(false),
    }),
    run: reclassify,
  }),
};

async function reclassify(
  deps: StoreDeps,
  { past, dry_run: dryRun = false }: { past: number; dry_run?: boolean | undefined },
  act: Act,
): Promise<Reclassified> {
  const rules = ownRules(deps);
  const result: Reclassified = {
    object: 'reclassification',
    attempts: 0,
    reports: 0,
    reports_unread: 0,
    unsuppressed: 0,
    dry_run: dryRun,
  };
  const now = deps.clock.now();
  await correctAttempts(deps, { rules, from: now - past }, result);
  await correctReports(deps, { rules, from: now - past, until: now }, result);
  act.on({ after: result });
  return result;
}

function ownRules({ config }: Pick<StoreDeps, 'config'>): readonly BounceRule[] {
  try {
    const rules = readBounceRules(config.delivery.bounceRules);
    if (rules.length === 0)
      throw new Problem('invalid_state', 'there are no rules in delivery.bounceRules to correct by');
    return rules;
  } catch (error) {
    if (error instanceof ConfigError) throw new Problem('invalid_state', error.message);
    throw error;
  }
}

async function correctAttempts(
  deps: Pick<StoreDeps, 'db'>,
  { rules, from }: { rules: readonly BounceRule[]; from: number },
  result: Reclassified,
): Promise<void> {
  const correctionOf = attemptCorrector(rules);
  const floor = idFloor('att', from);
  // Attempts are written in the order of time, so the newest are at the end.
  const [newest] = await deps.db.prepared.all<{ row_id: number | null }>('SELECT MAX(rowid) AS row_id FROM attempts');
  for (let top = newest?.row_id ?? 0; top > 0; top -= ATTEMPTS) {
    const rows = await deps.db.prepared.all<PastAttempt>(
      `SELECT rowid AS row_id, id, delivery_id, message_id, timings_json, outcome, smtp_code, enhanced_code, smtp_reply, mx, class, reason
         FROM attempts WHERE rowid <= ? AND rowid > ?`,
      [top, top - ATTEMPTS],
    );
    const corrected = rows.filter(({ id }) => id >= floor).flatMap(correctionOf);
    result.attempts += corrected.length;
    await write(deps, corrected, writeAttempt, result);
    if (rows.length > 0 && rows.every(({ id }) => id < floor)) break;
  }
}

/** Reads the mails again, since a row has only a part of what the rules look at. */
async function correctReports(
  deps: Pick<StoreDeps, 'db' | 'openReportParser'>,
  { rules, from, until }: { rules: readonly BounceRule[]; from: number; until: number },
  result: Reclassified,
): Promise<void> {
  const parser = await deps.openReportParser(null, rules);
  try {
    let after = idFloor('rep', from);
    for (;;) {
      const rows = await deps.db.prepared.all<PastReport>(
        `SELECT r.id, r.message_id, r.delivery_id, r.state, r.detail_json, r.raw, d.address_key
           FROM reports r JOIN deliveries d ON d.id = r.delivery_id
           WHERE r.kind = 'bounce' AND r.id > ? AND r.id < ? ORDER BY r.id LIMIT ?`,
        [after, idFloor('rep', until + 1), REPORTS],
      );
      const corrected = [];
      for (const row of rows) {
        const { record, fault } = await parser.parse(row.raw);
        if (fault === null) corrected.push(...correctedReport(row, record));
        else result.reports_unread += 1;
      }
      result.reports += corrected.length;
      await write(deps, corrected, writeReport, result);
      const last = rows.at(-1);
      if (last === undefined || rows.length < REPORTS) return;
      after = last.id;
    }
  } finally {
    await parser.close();
  }
}

/** Writes corrections in one transaction, and counts the entries that left the suppression list. */
async function write<Correction>(
  { db }: Pick<StoreDeps, 'db'>,
  corrections: readonly Correction[],
  one: (tx: Connection, correction: Correction) => Promise<number>,
  result: Reclassified,
): Promise<void> {
  if (result.dry_run || corrections.length === 0) return;
  result.unsuppressed += await db.commit.transact(async (tx) => {
    let freed = 0;
    for (const correction of corrections) freed += await one(tx, correction);
    return freed;
  });
}
