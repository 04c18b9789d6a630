/**
 * Applies the operator's present bounce rules to past attempts. If a rule decides differently, the attempt gets the new class and
 * reason, and an address that was suppressed for it leaves the list. Events stay as they were sent, and no address is added to the
 * list.
 */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { idFloor } from '../base/id.ts';
import { readBounceRules } from '../config/bounce-rules.ts';
import { ConfigError } from '../config/load.ts';
import { createJudge, type Judge, type Judgement } from '../messages/delivery/classify.ts';
import { isSuppressing, type Verdict } from '../messages/delivery/delivery.ts';
import type { AttemptRow } from '../storage/tables.ts';
import type { Act } from '../operations/act.ts';
import { onStore, type StoreDeps } from './operation.ts';
import { DAY_MS } from '../base/time.ts';

export interface Reclassified {
  object: 'reclassification';
  /** Attempts whose class or reason changed. */
  attempts: number;
  /** Entries that left the suppression list. */
  unsuppressed: number;
  dry_run: boolean;
}

/** Rows in one step: few enough for a short read and a short commit. */
const STEP = 2_000;

type PastAttempt = Pick<
  AttemptRow,
  'id' | 'delivery_id' | 'message_id' | 'smtp_code' | 'enhanced_code' | 'smtp_reply' | 'mx' | 'class' | 'reason'
>;
type Read = PastAttempt & { row_id: number };

export const reclassifyOperations = {
  'bounces.reclassify': onStore({
    act: {
      says: 'labelled past bounces by the present rules',
      type: 'bounces',
      keeps: ['attempts', 'unsuppressed', 'dry_run'],
    },
    args: z.strictObject({
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
  const judge = ownJudge(deps);
  const floor = idFloor('att', deps.clock.now() - past);
  const result: Reclassified = { object: 'reclassification', attempts: 0, unsuppressed: 0, dry_run: dryRun };
  // Attempts are written in the order of time, so the newest are at the end.
  const [newest] = await deps.db.prepared.all<{ row_id: number | null }>('SELECT MAX(rowid) AS row_id FROM attempts');
  for (let top = newest?.row_id ?? 0; top > 0; top -= STEP) {
    const rows = await deps.db.prepared.all<Read>(
      `SELECT rowid AS row_id, id, delivery_id, message_id, smtp_code, enhanced_code, smtp_reply, mx, class, reason
         FROM attempts WHERE rowid <= ? AND rowid > ?`,
      [top, top - STEP],
    );
    const corrected = rows.filter(({ id }) => id >= floor).flatMap((row) => correctionOf(judge, row));
    result.attempts += corrected.length;
    if (!dryRun && corrected.length > 0) result.unsuppressed += await write(deps, corrected);
    if (rows.length > 0 && rows.every(({ id }) => id < floor)) break;
  }
  act.on({ after: result });
  return result;
}

function ownJudge({ config }: Pick<StoreDeps, 'config'>): Judge {
  try {
    const rules = readBounceRules(config.delivery.bounceRules);
    if (rules.length === 0)
      throw new Problem('invalid_state', 'there are no rules in delivery.bounceRules to correct by');
    return createJudge(rules);
  } catch (error) {
    if (error instanceof ConfigError) throw new Problem('invalid_state', error.message);
    throw error;
  }
}

interface Correction {
  row: Read;
  judged: Judgement;
  /** True if its old verdict may have put the address on the list, and the new one would not. */
  frees: boolean;
}

/** Uses only the operator's own rules. The phase of the session is no longer known, so RCPT is assumed. */
function correctionOf(judge: Judge, row: Read): Correction[] {
  if (row.class === null || row.smtp_code === null) return [];
  const { smtp_code: code, enhanced_code: enhanced, smtp_reply: text, mx } = row;
  const judged = judge({ phase: 'rcpt', code, enhanced, text: text ?? '', mx });
  if (!judged.rule.startsWith('own:') || (judged.class === row.class && judged.reason === row.reason)) return [];
  const before = { class: row.class, reason: row.reason } as Verdict;
  return [{ row, judged, frees: isSuppressing(before) && !judged.suppress }];
}

/** Returns how many entries, made by the bounces of these messages, left the list. */
async function write({ db }: Pick<StoreDeps, 'db'>, corrections: readonly Correction[]): Promise<number> {
  return await db.commit.transact(async (tx) => {
    let freed = 0;
    for (const { row, judged, frees } of corrections) {
      await tx.run('UPDATE attempts SET class = ?, reason = ? WHERE rowid = ? AND id = ?', [
        judged.class,
        judged.reason,
        row.row_id,
        row.id,
      ]);
      if (!frees) continue;
      const gone = await tx.all(
        `DELETE FROM suppressions WHERE reason = 'hard_bounce' AND source_message_id = ?
           AND (account_id, address_key) = (SELECT account_id, address_key FROM deliveries WHERE id = ?) RETURNING id`,
        [row.message_id, row.delivery_id],
      );
      freed += gone.length;
    }
    return freed;
  });
}
