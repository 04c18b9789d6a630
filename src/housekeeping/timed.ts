/** Measures how long a piece of work holds the writer: from its turn inside the transaction to its end, without the fsync that all share. */
import type { Clock } from '../base/clock.ts';
import type { Committer } from '../storage/commit.ts';

export type Transactor = Pick<Committer, 'transact'>;

export interface Timed {
  /** Rows that were removed. */
  rows: number;
  /** Milliseconds for which the writer was held. */
  ms: number;
}

/** Runs work that writes through the given transactor. */
export async function timed(
  { clock, commit }: { clock: Clock; commit: Transactor },
  work: (commit: Transactor) => Promise<number>,
): Promise<Timed> {
  let ms = 0;
  const rows = await work({
    transact: (run) =>
      commit.transact(async (tx) => {
        const from = clock.monotonic();
        try {
          return await run(tx);
        } finally {
          ms += clock.monotonic() - from;
        }
      }),
  });
  return { rows, ms };
}
