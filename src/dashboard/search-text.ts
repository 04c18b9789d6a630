/** Reads what is typed into a search for messages. Pure. */

/** The filters of the API's list, and the same in words for a page that found nothing. */
export interface Search {
  query: Readonly<Record<string, string>>;
  says: string;
}

type Reading = readonly [pattern: RegExp, query: (value: string) => Record<string, string>, says: string];

const ID = '[0-7][0-9a-hjkmnp-tv-z]';

/** The first pattern that fits counts. `%` stands for what was typed. */
const readings: readonly Reading[] = [
  [new RegExp(`^(bat_${ID}{25})$`), (id) => ({ batch_id: id }), 'messages of the bulk send %'],
  [new RegExp(`^(evt_${ID}{25})$`), (id) => ({ event_id: id }), 'the message of the event %'],
  [new RegExp(`^(req_${ID}{25})$`), (id) => ({ request_id: id }), 'messages of the request %'],
  [new RegExp(`^(req_${ID}{7,24})$`), (id) => ({ request_id_start: id }), 'ids of requests that begin with %'],
  [new RegExp(`^(msg_${ID}{0,25})$`), (id) => ({ id_start: id }), 'ids of messages that begin with %'],
  [/^(<.*@.*>)$/, (id) => ({ rfc_message_id: id }), 'the Message-ID %'],
  [/^batch:\s*(.+)$/, (id) => ({ batch_id: id }), 'messages of the bulk send %'],
  [/^(?:domain:|@)\s*(\S+)$/, (domain) => ({ to_domain: domain }), 'recipients at the domain %'],
  [/^tag:\s*(.+)$/, (tag) => ({ tag }), 'the tag %'],
  [/^from:\s*(.+)$/, (from) => ({ from }), 'the sender %'],
  [/^to:\s*(\S+@\S+\.\S+)$/, (to) => ({ to }), 'the recipient %'],
  [/^to:\s*(\S+)$/, (to) => ({ to_start: to }), 'addresses of recipients that begin with %'],
  [/^subject:\s*(.+)$/, (subject) => ({ subject }), 'words of subjects that begin with %'],
  [/^([\w.-]{1,64}:\S.*)$/, (text) => metadataIn(text), 'the metadata %'],
  [/^(\S+@\S+\.[a-z-]{2,})$/i, (to) => ({ to }), 'the recipient %'],
  [/^(\S+@\S*)$/, (to) => ({ to_start: to }), 'addresses of recipients that begin with %'],
  [/^(\S+)$/, (q) => ({ q }), 'addresses of recipients and words of subjects that begin with %'],
  [/^(.+)$/s, (subject) => ({ subject }), 'words of subjects that begin with %'],
];

function metadataIn(text: string): Record<string, string> {
  const at = text.indexOf(':');
  return { [`metadata[${text.slice(0, at)}]`]: text.slice(at + 1).trim() };
}

/** Returns whether the search is for ids, which are found whatever their time. */
export const isForIds = ({ query }: Search): boolean =>
  ['event_id', 'request_id', 'request_id_start', 'id_start', 'batch_id', 'rfc_message_id'].some(
    (name) => name in query,
  );

/** Returns an empty query for an empty text. */
export function readSearch(text: string): Search {
  for (const [pattern, queryOf, says] of readings) {
    const value = pattern.exec(text)?.[1];
    if (value !== undefined) return { query: queryOf(value), says: says.replace('%', () => `“${value}”`) };
  }
  return { query: {}, says: 'all messages' };
}
