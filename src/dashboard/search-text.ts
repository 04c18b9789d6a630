/** Reads what is typed into a search for messages, and asks with one meaning of it after the other until one finds some. */
import { parse } from 'tldts';
import { deliveryStatuses } from '../storage/tables.ts';
import type { Visit } from './page.ts';

/** The filters of the API's list, and the same in words for a page that found nothing. */
export interface Search {
  query: Readonly<Record<string, string>>;
  says: string;
  /** Further meanings of the text, to be tried in turn if nothing is found. */
  others: readonly Meaning[];
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
  [
    new RegExp(`^status:\\s*((?:${deliveryStatuses.join('|')})(?:,(?:${deliveryStatuses.join('|')}))*)$`),
    (status) => ({ status }),
    'the status %',
  ],
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
export const isForIds = ({ query }: Pick<Search, 'query'>): boolean =>
  ['event_id', 'request_id', 'request_id_start', 'id_start', 'batch_id', 'rfc_message_id'].some(
    (name) => name in query,
  );

/** Names of domains that are kept for examples and tests (RFC 2606), which no list of suffixes has. */
const ownSuffixes: ReadonlySet<string> = new Set(['test', 'example', 'invalid', 'localhost']);

/** Returns whether a text with dots is the name of a domain, and not of a person, such as `lena.fischer`. */
function isDomain(text: string): boolean {
  if (!/^(?:[a-z0-9-]{1,63}\.)+[a-z0-9-]{2,63}$/i.test(text)) return false;
  const { isIcann, publicSuffix } = parse(text, { allowPrivateDomains: false });
  return isIcann === true || ownSuffixes.has(publicSuffix ?? '');
}

const quoted = (text: string): string => `“${text}”`;

/** Returns an empty query for an empty text. */
export function readSearch(text: string): Search {
  if (isDomain(text))
    return {
      query: { to_domain: text.toLowerCase() },
      says: `recipients at the domain ${quoted(text)}`,
      others: [wordOf(text), partOf(text)],
    };
  for (const [pattern, queryOf, says] of readings) {
    const value = pattern.exec(text)?.[1];
    if (value === undefined) continue;
    const query = queryOf(value);
    return { query, says: says.replace('%', () => quoted(value)), others: 'q' in query ? othersOf(value) : [] };
  }
  return { query: {}, says: 'all messages', others: [] };
}

const wordOf = (text: string): Meaning => ({
  query: { q: text },
  says: `addresses of recipients and words of subjects that begin with ${quoted(text)}`,
});
const partOf = (text: string): Meaning => ({
  query: { to_part: text },
  says: `addresses of recipients with ${quoted(text)} in them`,
});

/** A word may be a number with its sign, as people write that of an order, or stand within an address. */
function othersOf(word: string): Meaning[] {
  const bare = word.replace(/^#/, '');
  if (bare.length < 2) return [];
  return [...(bare === word ? [wordOf(`#${word}`)] : [wordOf(bare)]), partOf(bare)];
}

type Meaning = Omit<Search, 'others'>;

/** Returns the first list that is not empty, or that of the first meaning, and its meaning's place. `from`: only this one, for a further page. */
export async function firstFound(
  visit: Pick<Visit, 'ask'>,
  { others, ...first }: Search,
  more: Readonly<Record<string, string | null>>,
  from: number | null = null,
) {
  const meanings: readonly Meaning[] = [first, ...others];
  const ask = async (place: number) => {
    const meaning = meanings[place] ?? first;
    return { list: await visit.ask('listMessages', { query: { ...meaning.query, ...more } }), meaning, place };
  };
  if (from !== null) return await ask(from);
  const usual = await ask(0);
  for (const place of others.keys()) {
    if (usual.list.data.length > 0 || usual.list.next_cursor !== null) break;
    const other = await ask(place + 1);
    if (other.list.data.length > 0) return other;
  }
  return usual;
}
