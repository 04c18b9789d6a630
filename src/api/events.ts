/** `GET /v1/events`: list, long poll, server-sent events, NDJSON or CSV, by Accept. Cursors are positions, good under any filter. */
import { Readable } from 'node:stream';
import { z } from 'zod';
import { createGate, type Gate } from '../scheduling/gate.ts';
import { isId } from '../base/id.ts';
import { Problem } from '../base/problem.ts';
import { mapInSlices } from '../base/slices.ts';
import { allEventTypes, eventRecord, type EventSource } from '../events/event.ts';
import {
  eventsAfter,
  eventsBefore,
  lastSequence,
  sequenceOf,
  type EventFilter,
  type EventPage,
} from '../events/event-log.ts';
import type { Follower } from '../events/tail.ts';
import type { Caller } from '../keys/caller.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { tagSchema } from '../messages/request/send-schema.ts';
import type { ApiContext } from './context.ts';
import { lineTypes, type LineType, noBefore } from './list-stream.ts';
import { preferredType } from './negotiate.ts';
import { DEFAULT_LIMIT, linkToNext, listOf, pageParameters, refuseBothCursors } from './page.ts';
import { addressParameter, booleanParameter, integerParameter, listParameter, timeParameter } from './query.ts';
import { batchId, Event, messageId, sampleEvent } from './records.ts';
import { type Call, exampleOf, type Reply, route, type Route } from './route.ts';
import { reachOf, testFilter } from './test-mode.ts';

const PATH = '/v1/events';
/** The position before the first event, and the one after the last. */
const START = 'start';
const END = 'end';
const COMMENT_MS = 15_000;
/** How long a new stream waits for the shared reader to reach its position before it reads the log itself. */
const FIRST_MS = 2000;
const PAGE = 500;
/** Pages of the log that are read at once, besides those of followers: the other reads need the database too. */
const READS = 2;

const EventsQuery = z.strictObject({
  ...pageParameters(1000),
  after: z
    .string()
    .max(300)
    .optional()
    .describe('Cursor or event id: the events after it; `start` for all there are. Not together with `before`.'),
  before: z
    .string()
    .max(300)
    .optional()
    .describe('Cursor or event id: the events before it; `end` for the newest ones. Not together with `after`.'),
  type: listParameter(allEventTypes)
    .optional()
    .describe(
      'Kinds, separated by commas or one by one. Without it: sent, delivered, opened, clicked, bounced, complained.',
    ),
  message_id: messageId().optional().describe('Events of this message.'),
  recipient: addressParameter().optional().describe('Events of this address.'),
  batch_id: batchId().optional().describe('Events of this bulk send.'),
  tag: tagSchema.optional().describe('Events of messages with this tag.'),
  occurred_after: timeParameter().optional().describe('From this time on.'),
  occurred_before: timeParameter().optional().describe('Before this time.'),
  test: booleanParameter().optional().describe('`true` for simulated mail, `false` for real mail.'),
  wait: integerParameter(0, 30).optional().describe('Seconds to wait for an event when there is none yet.'),
});

type EventsContext = Pick<ApiContext, 'db' | 'clock' | 'tail' | 'cursors' | 'streams'>;
type EventsCall = Call<object, z.output<typeof EventsQuery>, undefined>;

export function eventRoute(deps: EventsContext): Route {
  const gate = createGate({ most: READS, waiting: Infinity });
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listEvents',
      description:
        'Events in the order in which they became visible. `next_cursor` is always there, also in an empty page: ask again with `after` set to it. `Accept: text/event-stream` keeps the answer open and sends events as they happen; `Accept: application/x-ndjson` sends all up to now, one a line, and `text/csv` as a table. A key has 20 open streams at most, an account 100.',
      scope: ['event:read'],
      query: EventsQuery,
      responses: {
        200: {
          description: 'A page of events, or a stream of them.',
          schema: listOf(Event),
          types: ['text/event-stream', ...lineTypes],
          examples: exampleOf('One event', {
            object: 'list',
            data: [sampleEvent('delivered', { engagement: false })],
            has_more: false,
            next_cursor: 'MS4xODQ0NjcuYjJ4',
            previous_cursor: 'MS4xODQ0NjcuYjJ4',
          }),
        },
      },
      problems: ['too_many_streams'],
      lasts: true,
    },
    (call) => read({ deps, gate }, call),
  );
}

interface Reading {
  deps: EventsContext;
  gate: Gate;
  call: EventsCall;
  filter: EventFilter;
  engagement: boolean;
  /** The list's name for cursors: the account's log, whatever the filter. */
  list: string;
}

async function read(shared: Pick<Reading, 'deps' | 'gate'>, call: EventsCall): Promise<Reply> {
  const { query, caller } = call;
  refuseBothCursors(query);
  const reading: Reading = {
    ...shared,
    call,
    filter: filterOf(caller, query),
    engagement: scopeAllows(caller.scopes, 'event:engagement'),
    list: `${PATH} ${caller.accountId}`,
  };
  const form = preferredType(call.header('accept'), forms);
  if (form !== 'application/json' && query.before !== undefined) throw noBefore();
  switch (form) {
    case 'text/event-stream':
      return serverSentEvents(reading);
    case 'text/csv':
    case 'application/x-ndjson':
      return whole(reading, form);
    case 'application/json':
      return page(reading);
  }
}

/** A stream is sent only to a client that asks for its media type by name. */
const forms = ['application/json', 'text/event-stream', ...lineTypes] as const;

function filterOf(caller: Caller, query: z.output<typeof EventsQuery>): EventFilter {
  return {
    accountId: caller.accountId,
    types: query.type,
    messageId: query.message_id,
    recipient: query.recipient,
    batchId: query.batch_id,
    tag: query.tag,
    occurredAfter: query.occurred_after,
    occurredBefore: query.occurred_before,
    test: testFilter(caller, query.test),
    ofTestMail: reachOf(caller).onlyTest,
  };
}

/** Returns the position of a cursor or an event id. Throws `invalid_cursor`. */
async function positionOf({ deps, call, list }: Reading, cursor: string, field: string): Promise<number> {
  if (cursor === START) return 0;
  // Nothing that comes later is before the end, and all of it is after.
  if (cursor === END) return (await lastSequence(deps.db.reader)) + (field === 'before' ? 1 : 0);
  if (isId('evt', cursor)) {
    const sequence = await sequenceOf(deps.db.reader, call.caller.accountId, cursor);
    if (sequence === null) throw new Problem('invalid_cursor', 'There is no such event.', { field });
    return sequence;
  }
  return Number(deps.cursors.read(list, cursor, field));
}

async function page(reading: Reading): Promise<Reply> {
  const { deps, call, list } = reading;
  const { query } = call;
  const limit = query.limit ?? DEFAULT_LIMIT;
  const found =
    query.before === undefined ? await pageAfter(reading, limit) : await pageBefore(reading, query.before, limit);
  const next = deps.cursors.write(list, String(found.position));
  const body = {
    object: 'list',
    data: await mapInSlices(found.events, (event) => eventRecord(event, reading)),
    has_more: found.hasMore,
    next_cursor: next,
    previous_cursor: found.start === null ? null : deps.cursors.write(list, String(found.start)),
  };
  return { status: 200, body, headers: linkToNext(PATH, call.search, next) };
}

async function pageBefore(reading: Reading, cursor: string, limit: number): Promise<EventPage> {
  const before = await positionOf(reading, cursor, 'before');
  return inTurn(reading, () => eventsBefore(reading.deps.db.reader, reading.filter, before, limit));
}

const inTurn = ({ gate, filter }: Reading, page: () => Promise<EventPage>): Promise<EventPage> =>
  gate.run(filter.accountId, page);

/** Waits for an event if there is none yet and the caller wants to. */
async function pageAfter(reading: Reading, limit: number): Promise<EventPage> {
  const { deps, call, filter } = reading;
  const after = call.query.after === undefined ? 0 : await positionOf(reading, call.query.after, 'after');
  const wait = call.query.wait ?? 0;
  if (wait === 0) return inTurn(reading, () => eventsAfter(deps.db.reader, filter, after, limit));
  const deadline = deps.clock.monotonic() + wait * 1000;
  const follower = attend(reading);
  try {
    for (let found = await follower.look(filter, after, limit); ; found = await follower.hear(filter, after, limit)) {
      const left = deadline - deps.clock.monotonic();
      if (found.events.length > 0 || found.hasMore || left <= 0 || follower.over()) return found;
      await follower.next(left);
    }
  } finally {
    follower.leave();
  }
}

function attend({ deps, call, filter }: Reading): Follower {
  const follower = deps.tail.follow(filter.accountId);
  call.whenOver(() => {
    follower.end();
  });
  return follower;
}

async function whole(reading: Reading, type: LineType): Promise<Reply> {
  const { deps, call, filter } = reading;
  return deps.streams.answer(call, { list: 'events', type }, async () => {
    const start = call.query.after === undefined ? 0 : await positionOf(reading, call.query.after, 'after');
    return pagesUntil(await lastSequence(deps.db.reader), start);
  });

  async function* pagesUntil(end: number, start: number): AsyncGenerator<object[]> {
    for (let position = start; ;) {
      const found = await inTurn(reading, () => eventsAfter(deps.db.reader, filter, position, PAGE));
      const due = found.events.filter(({ sequence }) => sequence <= end);
      yield due.map((event) => eventRecord(event, reading));
      if (!found.hasMore || due.length < found.events.length) return;
      position = found.position;
    }
  }
}

async function serverSentEvents(reading: Reading): Promise<Reply> {
  const { deps, call } = reading;
  deps.streams.take(call);
  const last = call.header('last-event-id') ?? '';
  // An empty one is that of a client that has got no event so far.
  const from = last === '' ? call.query.after : last;
  // As for NDJSON: a wrong cursor must be refused before the stream begins.
  const start =
    from === undefined
      ? await lastSequence(deps.db.reader)
      : await positionOf(reading, from, last === '' ? 'after' : 'Last-Event-ID');
  return {
    status: 200,
    stream: Readable.from(follow(reading, start, from === undefined)),
    type: 'text/event-stream; charset=utf-8',
  };
}

async function* follow(reading: Reading, start: number, isNew: boolean): AsyncGenerator<string> {
  const { filter, list, deps } = reading;
  const { cursors, clock } = deps;
  const follower = attend(reading);
  let position = start;
  let silentSince = 0;
  const said = (text: string): string => {
    silentSince = clock.monotonic();
    return text;
  };
  // The id moves on with events that the client does not want: when it comes back, those after it are new.
  const comment = (text: string): string => said(`: ${text}\nid: ${cursors.write(list, String(position))}\n\n`);
  try {
    yield comment('welcome');
    // A client that resumes may be behind what memory holds, and gets what the log has now: some of it may have been erased.
    let isNotified = isNew && (await follower.next(FIRST_MS));
    while (!follower.over()) {
      const found = await (isNotified ? follower.hear(filter, position, PAGE) : follower.look(filter, position, PAGE));
      position = found.position;
      if (found.events.length > 0) yield said(found.events.map((event) => message(reading, event)).join(''));
      if (found.hasMore) continue;
      // It also wakes for events of others, after which nothing may have been written.
      isNotified = await follower.next(Math.max(0, silentSince + COMMENT_MS - clock.monotonic()));
      if (!follower.over() && clock.monotonic() - silentSince >= COMMENT_MS) yield comment('still here');
    }
  } finally {
    follower.leave();
  }
}

/** Events are serialized once for all followers of an account. */
const written = new WeakMap<EventSource, Map<string, string>>();

function message(reading: Reading, event: EventSource): string {
  const key = `${reading.list} ${String(reading.engagement)}`;
  const before = written.get(event);
  const known = before?.get(key);
  if (known !== undefined) return known;
  const id = reading.deps.cursors.write(reading.list, String(event.sequence));
  const text = `id: ${id}\nevent: ${event.type}\ndata: ${JSON.stringify(eventRecord(event, reading))}\n\n`;
  written.set(event, (before ?? new Map<string, string>()).set(key, text));
  return text;
}
