/** Corrects past attempts by the operator's own bounce rules. */
import type { BounceRule } from '../../config/bounce-rule.ts';
import { createJudge, isByOwnRule, type Refusal } from '../../messages/delivery/classify.ts';
import { isSuppressing, type Verdict } from '../../messages/delivery/delivery.ts';
import type { Connection } from '../../storage/connection.ts';
import type { AttemptRow } from '../../storage/tables.ts';
import { unsuppress } from './unsuppress.ts';

export type PastAttempt = Pick<
  AttemptRow,
  | 'id'
  | 'delivery_id'
  | 'message_id'
  | 'timings_json'
  | 'outcome'
  | 'smtp_code'
  | 'enhanced_code'
  | 'smtp_reply'
  | 'mx'
  | 'class'
  | 'reason'
> & { row_id: number };

export interface AttemptCorrection {
  row: PastAttempt;
  verdict: Verdict;
  /** True if its old verdict may have put the address on the list, and the new one would not. */
  frees: boolean;
}

type Phase = Refusal['phase'];

/** The phases of a transfer, the most frequent refusals first. */
const TRANSFER: readonly Phase[] = ['rcpt', 'dot', 'data', 'mail'];
/** The phases before a transfer. */
const OPENING: readonly Phase[] = ['auth', 'tls', 'ehlo', 'banner', 'connect'];

/**
 * Returns the phases in which the refusal may have been given; the row names none. A part of the session that took time was reached,
 * and of several commands that were sent at once, each may have been the one. A 5xx before a transfer only defers the mail.
 */
function phasesOf({ outcome, smtp_code: code, timings_json: timings }: PastAttempt): readonly Phase[] {
  const { mail = 0, rcpt = 0, data = 0, dot = 0, ...opening } = JSON.parse(timings) as Record<string, number>;
  if (dot > 0) return ['dot'];
  if (mail + rcpt + data > 0) return TRANSFER.filter((phase) => phase !== 'dot');
  if (outcome === 'refused') return TRANSFER;
  const isOpening = (code ?? 0) >= 500 || Object.values(opening).some((ms) => ms > 0);
  return isOpening ? OPENING : [...TRANSFER, ...OPENING];
}

/**
 * Returns a function that corrects an attempt if an own rule decides otherwise than was decided then. Attempts without a reply are
 * left alone, since no rule is asked about them.
 */
export function attemptCorrector(rules: readonly BounceRule[]): (row: PastAttempt) => AttemptCorrection[] {
  const judge = createJudge(rules);
  const named = new Set(rules.flatMap(({ phases = [] }) => phases));
  return (row) => {
    const { smtp_code: code, enhanced_code: enhanced, smtp_reply: text, mx } = row;
    if (row.class === null || code === null) return [];
    // Rules that name no phase fit in the first as in any other.
    const phases = phasesOf(row).filter((phase, at) => at === 0 || named.has(phase));
    for (const phase of phases) {
      const judged = judge({ phase, code, enhanced, text: text ?? '', mx });
      if (!isByOwnRule(judged)) continue;
      // Before a transfer each refusal is soft: another host, or a later try, may take the mail.
      const verdict = { class: OPENING.includes(phase) ? 'soft' : judged.class, reason: judged.reason };
      if (verdict.class === row.class && verdict.reason === row.reason) return [];
      const before = { class: row.class, reason: row.reason } as Verdict;
      return [{ row, verdict, frees: isSuppressing(before) && !isSuppressing(verdict) }];
    }
    return [];
  };
}

/** Returns how many entries left the suppression list. */
export async function writeAttempt(tx: Connection, { row, verdict, frees }: AttemptCorrection): Promise<number> {
  await tx.run('UPDATE attempts SET class = ?, reason = ? WHERE rowid = ? AND id = ?', [
    verdict.class,
    verdict.reason,
    row.row_id,
    row.id,
  ]);
  return frees ? unsuppress(tx, row) : 0;
}
