/** How late it was when something was last noted here: by an earlier run, where it is asked before this one has noted anything. */
import type { Connection } from '../../storage/connection.ts';

/** So many are looked at: some of the last may be of a time when the clock was wrong. */
const LAST_EVENTS = 1000;

/** The latest time among the last events, in milliseconds; null where there are none. */
export async function latestEventTime(db: Pick<Connection, 'all'>): Promise<number | null> {
  const [last] = await db.all<{ at: number | null }>(
    'SELECT MAX(at) AS at FROM (SELECT at FROM events ORDER BY sequence DESC LIMIT ?)',
    [LAST_EVENTS],
  );
  return last?.at ?? null;
}
