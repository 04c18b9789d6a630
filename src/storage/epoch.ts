/** The epoch: the number of this run of the program. It grows by one at each start, so that claims of earlier runs can be recognised. */
import type { Committer } from './commit.ts';

/** Begins a new epoch and returns its number. */
export function beginEpoch(commit: Committer): Promise<number> {
  return commit.transact(async (tx) => {
    const [row] = await tx.all<{ value: string }>(
      `INSERT INTO settings (name, value) VALUES ('epoch', '1')
       ON CONFLICT (name) DO UPDATE SET value = CAST(settings.value AS INTEGER) + 1 RETURNING value`,
    );
    if (row === undefined) throw new Error('the epoch was not written');
    return Number(row.value);
  });
}
