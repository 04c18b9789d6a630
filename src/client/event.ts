/** Events with their kinds told apart: `switch (event.type)` knows which member of `data` says what happened. */
import type { EventRecord } from './types.ts';

type Data = EventRecord['data'];

/** Members that only some kinds have: they are named after the kind. */
export type EventType = { [Name in keyof Data]-?: undefined extends Data[Name] ? Name : never }[keyof Data];

/** An event of one kind. */
export type EventOf<Type extends EventType> = Omit<EventRecord, 'type' | 'data'> & {
  type: Type;
  data: Omit<Data, EventType> & { [Name in Type]: Exclude<Data[Name], undefined> };
};

/** What happened to a message; the same record from the event stream and in webhooks. Put up with kinds that you do not know. */
export type MailEvent = { [Type in EventType]: EventOf<Type> }[EventType];
