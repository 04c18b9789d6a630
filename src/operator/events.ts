/** The operation behind `events tail`: pages of the event log by position. */
import { z } from 'zod';
import { idFloor } from '../base/id.ts';
import type { EventRecord } from '../client/types.ts';
import { allEventTypes, eventRecord, type EventSource } from '../events/event.ts';
import { eventsAfter, eventsBefore, lastSequence } from '../events/event-log.ts';
import { accountArgument, accountNamed } from './team/accounts.ts';
import type { StoreDeps } from './deps.ts';
import { storeRoute } from './server-route.ts';

export const eventOperations = {
  /**
   * Returns the events after a position, and in `position` the `after` of the next page. Without a position: the newest `limit` events, or with `since` (milliseconds since the
   * epoch) those from then on. Without types: the six types that are on by default.
   */
  'events.after': storeRoute({
    body: z.strictObject({
      after: z.int().min(0).optional(),
      since: z.int().min(0).optional(),
      types: z.array(z.enum(allEventTypes)).max(allEventTypes.length).optional(),
      limit: z.int().min(1).max(1000).optional(),
      account: accountArgument,
    }),
    async run({ db }, { after, since, types: wanted = [], limit = 100, account }) {
      const { id: accountId } = await accountNamed({ db }, account);
      const filter = { accountId, types: wanted, ...(since === undefined ? {} : { occurredAfter: since }) };
      if (after === undefined && since === undefined) return await newest(db, filter, limit);
      const from = after ?? (await sequenceBefore(db, since ?? 0));
      const page = await eventsAfter(db.reader, filter, from, limit);
      return { data: page.events.map(toEventRecord), position: page.position, has_more: page.hasMore };
    },
  }),
};

/** Returns the whole record: the operator sees opens and clicks as well. */
export const toEventRecord = (source: EventSource): EventRecord =>
  eventRecord(source, { engagement: true }) as unknown as EventRecord;

async function newest(db: StoreDeps['db'], filter: Parameters<typeof eventsBefore>[1], limit: number) {
  // The position is read first: the next page then shows the events that come in between.
  const position = await lastSequence(db.reader);
  const { events } = await eventsBefore(db.reader, filter, position + 1, limit);
  return { data: events.map(toEventRecord), position, has_more: false };
}

/** Events of one commit have their ids and their times some milliseconds apart. */
const ID_DRIFT_MS = 60_000;

/** Returns the position before all events since then. Ids sort by time, so it is found without reading older events. */
async function sequenceBefore(db: StoreDeps['db'], since: number): Promise<number> {
  const floor = idFloor('evt', since - ID_DRIFT_MS);
  const row = (await db.reader('events').select('sequence').where('id', '>=', floor).orderBy('id').first()) as
    { sequence: number } | undefined;
  return row === undefined ? await lastSequence(db.reader) : Math.max(0, row.sequence - 1);
}
