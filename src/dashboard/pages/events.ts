/** Events, the newest first, with filters and a live tail, which is the API's own event stream. */
import { Readable } from 'node:stream';
import type { EventRecord, Operations } from '../../client/types.ts';
import { allEventTypes, eventTypes } from '../../events/event.ts';
import { linkTo, type Pager } from '../links.ts';
import { rangeOf } from '../range.ts';
import { exportsOf } from './exports.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { detailOf } from '../timeline.ts';
import { kindClass } from '../words.ts';

const WHERE = '/events';
const ROWS = 50;
const filters = ['type', 'recipient', 'message_id', 'batch_id', 'tag', 'test'] as const;

type EventPage = Operations['listEvents']['answer'];

export const eventPages: readonly Page[] = [get(WHERE, list), get(`${WHERE}/tail`, tail)];

const filtersOf = (query: URLSearchParams): Record<string, string | null> =>
  Object.fromEntries(filters.map((name) => [name, query.get(name)]));

async function list(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const [after, before] = [query.get('after'), query.get('before')];
  const isFiltered = filters.some((name) => (query.get(name) ?? '') !== '');
  const range = rangeOf(visit, '30d');
  const position = after === null ? { before: before ?? 'end' } : { after };
  const asked = {
    ...filtersOf(query),
    ...position,
    limit: String(ROWS),
    occurred_after: range.since,
    occurred_before: range.until,
  };
  const events = await visit.ask('listEvents', { query: asked });
  const isNewest = after === null && before === null && range.until === null;
  const types = query.get('type') ?? '';
  return view('events', 'Events', {
    rows: events.data.map(rowOf).reverse(),
    pager: pagerOfEvents(query, events, range.since),
    query: Object.fromEntries(query),
    types: allEventTypes.map((name) => ({ name, on: name === types })),
    range,
    isFiltered,
    export: exportsOf('events', asked),
    allTime: range.value === 'all' ? null : linkTo(WHERE, query, { range: 'all' }),
    // Only the newest page is followed live.
    tail: isNewest
      ? linkTo(`${WHERE}/tail`, query, { range: null, from: null, tz: null, after: events.next_cursor })
      : null,
    // The live tail shows them with their colours.
    tailTypes: JSON.stringify(
      Object.fromEntries((types === '' ? eventTypes : types.split(',')).map((type) => [type, kindClass(type)])),
    ),
  });
}

function rowOf(event: EventRecord): object {
  const detail = detailOf(event);
  const said = detail['smtp_reply'] ?? detail['reason'] ?? detail['url'] ?? detail['mx'] ?? '';
  // A mail that answers none of ours has no other page.
  const id = event.data.message_id;
  const href = id.startsWith('rcv_') ? `/messages/received/${id}` : `/messages/${id}`;
  return { ...event, said, href, isMachine: detail['is_bot'] === true, json: JSON.stringify(event, null, 2) };
}

/** Swaps the cursors: this page shows the newest first, and the API's `next` is newer. */
function pagerOfEvents(query: URLSearchParams, events: EventPage, since: string | null): Pager {
  const forwards = query.get('after') !== null;
  const hasOlder = events.previous_cursor !== null && (forwards || events.has_more);
  const hasNewer = forwards ? events.has_more : query.get('before') !== null;
  return {
    next: hasOlder ? linkTo(WHERE, query, { before: events.previous_cursor, since }) : null,
    previous: hasNewer ? linkTo(WHERE, query, { after: events.next_cursor, since }) : null,
  };
}

async function tail(visit: Visit): Promise<Shown> {
  const last = visit.header('last-event-id');
  const headers = last === undefined ? {} : { 'last-event-id': last };
  const query = { ...filtersOf(visit.query), after: visit.query.get('after') };
  const asked = { query, accept: 'text/event-stream', headers };
  const body = await visit.ask('listEvents', asked);
  return {
    kind: 'stream',
    body: Buffer.isBuffer(body) ? Readable.from([body]) : body,
    type: `${asked.accept}; charset=utf-8`,
  };
}
