/** The latest time in the event log, to compare the clock with after a restart. */
import type { Connection } from '../../storage/connection.ts';

/** Events that are compared: some of the last may have been written while the clock was wrong. */
const LAST_EVENTS = 1000;

/** Returns the latest time among the last events in ms since the epoch; null without events. */
export async function latestEventTime(db: Pick<Connection, 'all'>): Promise<number | null> {
  const [last] = await db.all<{ at: number | null }>(
    'SELECT MAX(at) AS at FROM (SELECT at FROM events ORDER BY sequence DESC LIMIT ?) AS last',
    [LAST_EVENTS],
  );
  return last?.at ?? null;
}
