/**
 * Whether the database answers, asked before an act of the command line begins. A write to a PostgreSQL that is away waits 15 seconds for
 * it to come back, which is right for mail and too long for a person; a question before it ends sooner, and nothing was begun.
 */
import { Problem } from '../../base/problem.ts';
import type { Clock } from '../../base/clock.ts';
import type { Database } from '../../storage/database.ts';

/** A failover that takes no longer than this is not noticed. */
const PATIENCE_MS = 5000;
const PAUSE_MS = 250;

/** Resolves when the database answers. Throws `Problem` if it does not within five seconds. A file of SQLite is not asked. */
export async function awaitDatabase({ db, clock }: { db: Database; clock: Clock }): Promise<void> {
  if (db.engine === 'sqlite') return;
  const until = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    const fault = await faultOf(db, clock, Math.max(0, until - clock.monotonic()));
    if (fault === null) return;
    if (clock.monotonic() >= until)
      throw new Problem('service_unavailable', `the database does not answer, and nothing was done: ${fault}`);
    await clock.sleep(PAUSE_MS);
  }
}

/** Asks the database; returns why it does not answer, or null if it does. If the network is cut, a question has no answer at all. */
async function faultOf(db: Database, clock: Clock, patienceMs: number): Promise<string | null> {
  const answer = db.prepared.all('SELECT 1 AS one').then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  return await new Promise((resolve) => {
    const timer = clock.after(patienceMs, () => resolve(`no answer within ${String(PATIENCE_MS / 1000)} seconds`));
    void answer.then((fault) => {
      timer.cancel();
      resolve(fault);
    });
  });
}
