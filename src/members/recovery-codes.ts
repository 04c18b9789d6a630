/**
 * Recovery codes: ten for each second factor, each valid once instead of a code of the app. They have 80 random bits, so a
 * plain hash is enough; they are shown once, when they are made.
 */
import { randomBytes } from 'node:crypto';
import { sha256Hex } from '../base/secret.ts';
import type { Connection } from '../storage/connection.ts';
import { insertRows } from '../storage/rows.ts';
import type { RecoveryCodeRow } from '../storage/tables.ts';
import { base32 } from './totp.ts';
import type { StoreDeps } from '../storage/database.ts';

const HOW_MANY = 10;
const CODE_BYTES = 10;
/** Characters of the input that are read; a code has 16 letters. */
const LONGEST_TYPED = 64;

/** Makes ten codes as they are shown: `ABCD-EFGH-IJKL-MNOP`. */
export const makeRecoveryCodes = (): string[] =>
  Array.from({ length: HOW_MANY }, () => base32(randomBytes(CODE_BYTES)).replaceAll(/(.{4})(?=.)/g, '$1-'));

/** Hashes a code without spaces and dashes, in capitals; 0, 1 and 8, which base32 lacks, are read as the letters that look like them. */
const hashOf = (typed: string): string =>
  sha256Hex(
    typed
      .slice(0, LONGEST_TYPED)
      .toUpperCase()
      .replaceAll(/[^A-Z0-9]/g, '')
      .replaceAll('0', 'O')
      .replaceAll('1', 'I')
      .replaceAll('8', 'B'),
  );

export async function replaceRecoveryCodes(
  tx: Connection,
  memberId: string,
  codes: readonly string[],
  now: number,
): Promise<void> {
  await tx.run('DELETE FROM recovery_codes WHERE member_id = ?', [memberId]);
  const rows = codes.map((code): RecoveryCodeRow => ({
    code_hash: hashOf(code),
    member_id: memberId,
    created_at: now,
    used_at: null,
  }));
  if (rows.length > 0) await insertRows(tx, [{ recovery_codes: rows }]);
}

/** Uses a code up and returns the number left; null if the member has no such code or it was used before. */
export function spendRecoveryCode({ db, clock }: StoreDeps, memberId: string, typed: string): Promise<number | null> {
  return db.commit.transact(async (tx) => {
    const spent = await tx.all(
      'UPDATE recovery_codes SET used_at = ? WHERE code_hash = ? AND member_id = ? AND used_at IS NULL RETURNING code_hash',
      [clock.now(), hashOf(typed), memberId],
    );
    if (spent.length === 0) return null;
    const left = await tx.all('SELECT 1 FROM recovery_codes WHERE member_id = ? AND used_at IS NULL', [memberId]);
    return left.length;
  });
}

/** Returns how many of a member's codes are unused, and when they were made; null without any. */
export async function recoveryCodesOf(
  { db }: Pick<StoreDeps, 'db'>,
  memberId: string,
): Promise<{ left: number; madeAt: number } | null> {
  const rows = await db.prepared.all<RecoveryCodeRow>('SELECT * FROM recovery_codes WHERE member_id = ?', [memberId]);
  const [first] = rows;
  if (first === undefined) return null;
  return { left: rows.filter(({ used_at }) => used_at === null).length, madeAt: first.created_at };
}
