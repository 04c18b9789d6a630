/** The operation behind `events tail`: pages of the event log by position. */
import { z } from 'zod';
import { idFloor } from '../base/id.ts';
import { allEventTypes, eventRecord, type EventSource } from '../events/event.ts';
import { eventsAfter, eventsBefore, lastSequence } from '../events/event-log.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onStore, type StoreDeps } from './operation.ts';

/** The API's event record, as far as it is the same for all types. */
export interface EventRecord {
  object: 'event';
  id: string;
  type: string;
  timestamp: string;
  sequence: number;
  test: boolean;
  data: { message_id: string; recipient: string; status: string } & Readonly<Record<string, unknown>>;
}

export interface EventsRecord {
  data: EventRecord[];
  /** Where to go on: the `after` of the next question. */
  position: number;
  has_more: boolean;
}

export const eventOperations = {
  /**
   * What comes after a position. Without one: the newest `limit` events; with `since` (milliseconds since the epoch) and
   * no position: those from then on. No types: the six that everybody gets.
   */
  'events.after': onStore({
    act: null,
    args: z.strictObject({
      after: z.int().min(0).optional(),
      since: z.int().min(0).optional(),
      types: z.array(z.enum(allEventTypes)).max(allEventTypes.length).optional(),
      limit: z.int().min(1).max(1000).optional(),
      account: accountArgument,
    }),
    async run({ db }, { after, since, types: wanted = [], limit = 100, account }): Promise<EventsRecord> {
      const { id: accountId } = await accountNamed({ db }, account);
      const filter = { accountId, types: wanted, ...(since === undefined ? {} : { occurredAfter: since }) };
      if (after === undefined && since === undefined) return await newest(db, filter, limit);
      const from = after ?? (await sequenceBefore(db, since ?? 0));
      const page = await eventsAfter(db.reader, filter, from, limit);
      return { data: page.events.map(toEventRecord), position: page.position, has_more: page.hasMore };
    },
  }),
};

/** The operator sees everything, engagement included. */
export function toEventRecord(source: EventSource): EventRecord {
  return eventRecord(source, { engagement: true }) as unknown as EventRecord;
}

async function newest(
  db: StoreDeps['db'],
  filter: Parameters<typeof eventsBefore>[1],
  limit: number,
): Promise<EventsRecord> {
  // The position is read first: what comes in between is then shown by the next question instead of being missed.
  const position = await lastSequence(db.reader);
  const { events } = await eventsBefore(db.reader, filter, position + 1, limit);
  return { data: events.map(toEventRecord), position, has_more: false };
}

/** Events of one commit have their ids and their times some milliseconds apart. */
const ID_DRIFT_MS = 60_000;

/** The position before everything that happened since: ids sort by time, so it is found without reading what is older. */
async function sequenceBefore(db: StoreDeps['db'], since: number): Promise<number> {
  const floor = idFloor('evt', since - ID_DRIFT_MS);
  const row = (await db.reader('events').select('sequence').where('id', '>=', floor).orderBy('id').first()) as
    { sequence: number } | undefined;
  return row === undefined ? await lastSequence(db.reader) : Math.max(0, row.sequence - 1);
}
