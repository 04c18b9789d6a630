/** The search over everything: the palette's answers, and a page of its own without a script. */
import { nullAt, get, view, type Page, type Shown, type Visit } from '../page.ts';
import { linkTo } from '../links.ts';
import { addressText } from '../words.ts';
import { firstFound, isForIds, readSearch } from '../search-text.ts';
import { pausingOf, placesOf } from '../places.ts';
import { DAY_MS } from '../../base/time.ts';

interface Found {
  kind: string;
  text: string;
  href: string;
}

const MOST_MESSAGES = 6;
const MOST_OTHERS = 5;
/** The most domains and templates that are looked through. */
const MOST_READ = '100';
const LONGEST = 200;
const DAYS_BACK_MS = 30 * DAY_MS;

export const searchPages: readonly Page[] = [get('/search', show)];

async function show(visit: Visit): Promise<Shown> {
  const q = (visit.query.get('q') ?? '').trim().slice(0, LONGEST);
  const found = q === '' ? [] : await findAll(visit, q);
  return view('search', 'Search', { q, found, hasNone: found.every(({ kind }) => kind === 'search') });
}

async function findAll(visit: Visit, q: string): Promise<Found[]> {
  const word = q.toLowerCase();
  const [messages, calls, received, domains, templates] = await Promise.all([
    messagesOf(visit, q),
    callsOf(visit, q),
    receivedOf(visit, q),
    visit.ask('listDomains', { query: { status: 'any', limit: MOST_READ } }),
    visit.ask('listTemplates', { query: { limit: MOST_READ } }),
  ]);
  const has = (text: string): boolean => text.toLowerCase().includes(word);
  const places = placesOf(visit).filter(({ text }) => has(text));
  const pausing = visit.isAdmin ? pausingOf(q) : [];
  const named = [
    ...domains.data
      .filter(({ name }) => has(name))
      .slice(0, MOST_OTHERS)
      .map(({ id, name }) => ({ kind: 'domain', text: name, href: `/domains/${id}` })),
    ...templates.data
      .filter(({ id, name }) => has(name) || id.startsWith(word))
      .slice(0, MOST_OTHERS)
      .map(({ id, name }) => ({ kind: 'template', text: name, href: `/templates/${id}` })),
  ];
  const all = {
    kind: 'search',
    text: `Search all messages for “${q}”`,
    href: linkTo('/messages', { q }),
  };
  return [...places.slice(0, MOST_OTHERS), ...calls, ...received, ...named, ...messages, ...pausing, all];
}

/** Returns the call to the API with this request id; a refused one has no message that would lead to it. */
async function callsOf(visit: Visit, q: string): Promise<Found[]> {
  const { query } = readSearch(q);
  const id = query['request_id'];
  if (id === undefined) return [];
  const { data } = await visit.ask('listAuditEntries', { query: { request_id: id, by: 'key', limit: '1' } });
  return data.map(({ id: entry, method, path, endpoint, status }) => ({
    kind: 'call',
    text: `${id}: ${method} ${path ?? endpoint}, ${String(status)}`,
    href: `/developer/log/${entry}`,
  }));
}

async function receivedOf(visit: Visit, id: string): Promise<Found[]> {
  if (!/^rcv_[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(id)) return [];
  const mail = await nullAt('not_found', () => visit.ask('getReceived', { params: { id } }));
  return mail === null ? [] : [{ kind: 'received', text: mail.subject || id, href: `/messages/received/${id}` }];
}

/** Returns the newest messages that the text finds, of the last 30 days if it is not an id. */
async function messagesOf(visit: Visit, q: string): Promise<Found[]> {
  const search = readSearch(q);
  const since = isForIds(search) ? null : new Date(visit.now - DAYS_BACK_MS).toISOString();
  const more = { created_after: since, limit: String(MOST_MESSAGES) };
  // A text that the list does not take, such as a part of an id with a wrong letter, finds nothing.
  const found = await nullAt('invalid_parameter', () => firstFound(visit, search, more));
  return (found?.list.data ?? []).map(({ id, to, subject, status }) => ({
    kind: status,
    text: `${addressText(to)}: ${subject}`,
    href: `/messages/${id}`,
  }));
}
