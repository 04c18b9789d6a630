/** Events by type: `switch (event.type)` knows which member of `data` has the details. */
import type { EventRecord } from './types.ts';

type Data = EventRecord['data'];

/** The types of events: the members of `data` that only some events have. */
export type EventType = { [Name in keyof Data]-?: undefined extends Data[Name] ? Name : never }[keyof Data];

/** An event of one type. */
export type EventOf<Type extends EventType> = Omit<EventRecord, 'type' | 'data'> & {
  type: Type;
  data: Omit<Data, EventType> & { [Name in Type]: Exclude<Data[Name], undefined> };
};

/** An event of a message; the same record in the event stream and in webhooks. Ignore types that you do not know. */
export type MailEvent = { [Type in EventType]: EventOf<Type> }[EventType];
