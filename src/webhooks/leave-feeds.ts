/**
 * Ends the calling of endpoints at this node, because another one calls them from now on or the program stops. Written are how far each has
 * come, and a row for each call on the wire: the node that goes on makes those again that have not ended by then, and nothing else.
 */
import type { Clock } from '../base/clock.ts';
import type { Database } from '../storage/database.ts';
import { leaveCalls, type OpenCall } from './call-store.ts';
import type { CallJob, Feed } from './feed.ts';

interface LeaveDeps {
  db: Pick<Database, 'commit'>;
  clock: Pick<Clock, 'now'>;
}

/** No call is on the wire for longer (net/safe-fetch.ts). */
export const ON_THE_WIRE_MS = 30_000;

/** Calls on the wire are due again after `dueMs`. One that ends meanwhile has its end written after this; then its row goes, or waits for its retry. */
export async function leaveFeeds(deps: LeaveDeps, feeds: readonly Feed[], dueMs: number): Promise<void> {
  for (const feed of feeds) {
    feed.isHandedOver = true;
    feed.active = false;
    feed.rewind();
  }
  const written = write(deps, feeds, dueMs);
  const gate = written.catch(() => undefined);
  for (const feed of feeds) feed.gate = gate;
  await written;
}

async function write({ db, clock }: LeaveDeps, feeds: readonly Feed[], dueMs: number): Promise<void> {
  await Promise.allSettled(feeds.flatMap(({ endings }) => [...endings]));
  const jobs = feeds.flatMap((feed) => feed.onTheWire());
  const cursors = feeds.flatMap((feed) => {
    const settled = feed.settledUpTo(new Set(feed.onTheWire().map(({ event }) => event.sequence)));
    return settled > feed.durable ? [{ id: feed.id, settled }] : [];
  });
  if (jobs.length === 0 && cursors.length === 0) return;
  const now = clock.now();
  const rows = await leaveCalls(db.commit, { calls: jobs.map(openCallOf), cursors, dueAt: now + dueMs, now });
  const kept = new Set(rows.map(keyOf));
  for (const job of jobs) job.feed.noteRow(job, kept.has(keyOf(openCallOf(job))));
}

const openCallOf = ({ feed, event, cause, attempts }: CallJob): OpenCall => ({
  webhook_id: feed.id,
  sequence: event.sequence,
  cause,
  attempts,
});

const keyOf = ({ webhook_id, sequence, cause, attempts }: OpenCall): string =>
  [webhook_id, sequence, cause, attempts].join(' ');
