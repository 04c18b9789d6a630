/** Events, the newest first, with filters; the newest page follows what happens. */
import type { EventRecord, Operations } from '../../client/types.ts';
import { allEventTypes } from '../../events/event.ts';
import { filtersOf } from '../filters.ts';
import { linkTo, type Pager } from '../links.ts';
import { rangeOf } from '../range.ts';
import { exportsOf } from './exports.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { detailOf } from '../timeline.ts';

const WHERE = '/events';
const ROWS = 50;

type EventPage = Operations['listEvents']['answer'];

export const eventPages: readonly Page[] = [get(WHERE, list)];

async function list(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const [after, before] = [query.get('after'), query.get('before')];
  const range = rangeOf(visit, '30d');
  const { filters, given, isFiltered } = filtersOf(
    WHERE,
    query,
    [
      {
        name: 'type',
        label: 'Type',
        isFirst: true,
        any: 'default six types',
        choices: allEventTypes.map((name) => [name, name]),
      },
      { name: 'recipient', label: 'Recipient', isFirst: true, most: 320 },
      { name: 'message_id', label: 'Message', placeholder: 'msg_…' },
      { name: 'tag', label: 'Tag' },
      { name: 'batch_id' },
      { name: 'test' },
    ],
    { range, button: 'Filter' },
  );
  const position = after === null ? { before: before ?? 'end' } : { after };
  const asked = {
    ...given,
    ...position,
    limit: String(ROWS),
    occurred_after: range.since,
    occurred_before: range.until,
  };
  const events = await visit.ask('listEvents', { query: asked });
  const isNewest = after === null && before === null && range.until === null;
  return view('events', 'Events', {
    rows: events.data.map(rowOf).reverse(),
    pager: pagerOfEvents(query, events, range.since),
    filters,
    isFiltered,
    export: exportsOf('events', asked),
    // Only the newest page is followed live.
    live: isNewest ? linkTo(WHERE, query) : null,
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
