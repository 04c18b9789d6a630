/** The request log: every use of a key; the actions of people; for administrators those on the server, and uses of unknown keys. */
import { Readable } from 'node:stream';
import { textOf } from '../../api/list-stream.ts';
import { Problem } from '../../base/problem.ts';
import type { AuditEntry, AuditEntryDetails } from '../../client/types.ts';
import { changesOf, curlOf, doorText, isHold, objectLink, undoOf, whoText } from '../audit-words.ts';
import { definedMembers } from '../forms.ts';
import { formOf } from './exports.ts';
import { filtersOf, keysOf, type Filter, type Filters } from '../filters.ts';
import { chipsOf, linkTo, pageOf, pagerOf } from '../links.ts';
import { rangeOf, type Range } from '../range.ts';
import { kindClass, wordsOf } from '../words.ts';
import { get, nullAt, view, type Page, type Shown, type Visit } from '../page.ts';

/** The two lists. A day of requests is the usual range; a longer one of actions, which are fewer. */
const requests = {
  by: 'key',
  place: '/developer/log',
  title: 'Request log',
  usual: '24h',
  results: ['', 'ok', 'refused', 'failed', 'idempotency_mismatch'],
  any: 'of this account',
  of: [['unknown', 'of unknown keys']],
} as const;
const actions = {
  by: 'person',
  place: '/developer/actions',
  title: 'Actions',
  usual: '30d',
  results: ['', 'ok', 'refused', 'failed'],
  any: 'all',
  of: [
    ['account', 'of this account'],
    ['server', 'of the server'],
  ],
} as const;
type List = typeof requests | typeof actions;

export const requestLogPages: readonly Page[] = [requests, actions].flatMap((list) => [
  get(list.place, (visit) => show(visit, list)),
  get(`${list.place}/export`, (visit) => exported(visit, list)),
  get(`${list.place}/:id`, details),
]);

const own: Readonly<Record<List['by'], readonly Filter[]>> = {
  key: [
    {
      name: 'endpoint',
      label: 'Endpoint',
      isFirst: true,
      type: 'search',
      placeholder: 'Endpoint, such as /v1/messages/{id}',
    },
    { name: 'status', label: 'Status', most: 3 },
  ],
  person: [
    { name: 'actor', label: 'Who', isFirst: true, placeholder: 'ana@example.net' },
    { name: 'object_id', label: 'Object', isFirst: true, placeholder: 'id, address or name' },
  ],
};

/** `keys` are the choices of the form. */
const filtersFor = (
  { query, isAdmin }: Visit,
  { by, place, of, any }: List,
  more: { range?: Range; keys?: Filter['choices'] } = {},
): Filters =>
  filtersOf(
    place,
    query,
    [
      ...own[by],
      ...(by === 'key' ? [{ name: 'key_id', label: 'Key', choices: more.keys ?? [] }] : []),
      ...(isAdmin ? [{ name: 'of', label: 'Shown', any, choices: of }] : []),
      { name: 'result', isFirst: true },
      { name: 'ip', label: 'IP address' },
      { name: 'request_id', label: 'Request id', placeholder: 'req_…' },
      ...['operation', 'object_type'].map((name) => ({ name })),
    ],
    { ...(more.range === undefined ? {} : { range: more.range }) },
  );

/** Reads a page: of the account; for administrators also what concerns none, which are acts on the server, or uses of unknown keys. */
async function listOf(visit: Visit, list: List, part: Readonly<Record<string, string | null>>) {
  const { query, isAdmin } = visit;
  const of = isAdmin ? query.get('of') : 'account';
  const { since, until } = rangeOf(visit, list.usual);
  const { status, actor = '', of: _, ...exact } = filtersFor(visit, list).given;
  const given = Object.fromEntries(Object.entries(part).filter(([, value]) => value !== null));
  return await visit.ask('audit.list', {
    body: {
      ...(exact as object),
      ...given,
      ...definedMembers({
        by: list.by,
        limit: Number(part['limit']),
        status: status === undefined ? undefined : Number(status),
        // People are looked for by their addresses, which the log has with a prefix.
        actor: actor === '' ? undefined : actor.replace(/^(?=[^:]+@)/, 'member:'),
        since: since === null ? undefined : Date.parse(since),
        until: until === null ? undefined : Date.parse(until),
        account: of === 'unknown' || of === 'server' ? undefined : visit.account.id,
        strangers: of === 'unknown',
        server: list === actions && of !== 'account',
      }),
    },
  });
}

async function show(visit: Visit, list: List): Promise<Shown> {
  const { query } = visit;
  const { place } = list;
  const isLog = list === requests;
  const range = rangeOf(visit, list.usual);
  const [entries, keys] = await Promise.all([listOf(visit, list, pageOf(query)), isLog ? keysOf(visit) : []]);
  const held = await holdsInForce(visit, entries.data);
  return view('request-log', list.title, {
    isLog,
    ...filtersFor(visit, list, { range, keys }),
    chips: chipsOf(
      place,
      query,
      'result',
      list.results.map((name) => [name, name === '' ? 'all' : wordsOf(name)] as const),
    ).map((chip) => ({ ...chip, kind: kindClass(chip.label) })),
    isUnknown: isLog && query.get('of') === 'unknown',
    notKept: entries.not_kept,
    place,
    rows: entries.data.map((entry) => rowOf(visit, entry, { place, held })),
    pager: pagerOf(place, query, entries, range.since),
    export: {
      csv: linkTo(`${place}/export`, query, { format: 'csv' }),
      ndjson: linkTo(`${place}/export`, query, { format: 'ndjson' }),
    },
  });
}

/** Returns the ids of the holds and limits in force; none if no entry is of one. */
async function holdsInForce(visit: Visit, entries: readonly AuditEntry[]): Promise<ReadonlySet<string>> {
  if (!visit.isAdmin || !entries.some(({ operation }) => isHold(operation))) return new Set();
  return new Set((await visit.ask('queue.holds')).data.map(({ id }) => id));
}

function rowOf(visit: Visit, entry: AuditEntry, { place, held }: { place: string; held: ReadonlySet<string> }): object {
  const { query } = visit;
  return {
    ...entry,
    who: whoText(entry),
    door: doorText(entry),
    asked: entry.path ?? entry.endpoint,
    isRefused: entry.status >= 400,
    page: `${place}/${entry.id}`,
    link: objectLink(entry, visit.isAdmin),
    undo: undoOf(entry, visit, held),
    byKey: entry.key_id === null ? null : linkTo(place, query, { key_id: entry.key_id }),
    byIp: entry.ip === null ? null : linkTo(place, query, { ip: entry.ip }),
  };
}

/** The most messages of a request that its page lists. */
const MOST_MESSAGES = 20;

async function details(visit: Visit): Promise<Shown> {
  const { config } = visit.server;
  const entry = await entryOf(visit);
  const isOfAccount = entry.account_id === visit.account.id;
  // A repeated request sent nothing.
  const isSending = isOfAccount && entry.method !== 'GET' && entry.status < 300 && !entry.idempotency_replayed;
  const { data: messages } = isSending
    ? await visit.ask('listMessages', { query: { request_id: entry.request_id, limit: String(MOST_MESSAGES) } })
    : { data: [] };
  const isCall = /^[A-Z]+$/.test(entry.method) && !['CLI', 'DASHBOARD', 'SYSTEM', 'SMTP'].includes(entry.method);
  const isLog = entry.key_id !== null || entry.actor === 'api';
  return view('request', isLog ? 'Request' : 'Action', {
    isLog,
    ...rowOf(visit, entry, { place: (isLog ? requests : actions).place, held: await holdsInForce(visit, [entry]) }),
    entry,
    messages,
    moreMessages: messages.length === MOST_MESSAGES ? linkTo('/messages', { q: entry.request_id }) : null,
    changes: changesOf(entry),
    hasBefore: entry.before !== null,
    hasAfter: entry.after !== null,
    bodyText: entry.body === null ? null : JSON.stringify(entry.body, null, 2),
    keepsBodies: config.requestLog.bodies,
    isCall,
    curl: isCall && isLog ? curlOf(entry, config.http.publicUrl) : null,
  });
}

/** Administrators may also open entries that concern no account. */
async function entryOf(visit: Visit): Promise<AuditEntryDetails & { account_id: string | null }> {
  const { params, account } = visit;
  if (!/^aud_[0-9a-z]{26}$/.test(params['id'] ?? '')) throw noEntry();
  const own = await nullAt('not_found', () => visit.ask('getAuditEntry', { params }));
  if (own !== null) return { ...own, account_id: account.id };
  const other = visit.isAdmin ? await visit.ask('audit.show', { body: { id: params['id'] ?? '' } }) : null;
  if (other?.account_id !== null) throw noEntry();
  return other;
}

const noEntry = (): Problem => new Problem('not_found', 'There is no such entry.');

/** Sends all entries of a list, however many: they are read while they are sent. */
async function exported(visit: Visit, list: List): Promise<Shown> {
  const { format, type } = formOf(visit);
  const pageAfter = (after: string | null) => listOf(visit, list, { limit: '100', after });
  // Read before the answer begins: afterwards a refused filter could not be reported.
  const first = await pageAfter(null);
  async function* pages(): AsyncGenerator<readonly AuditEntry[]> {
    for (let page = first; ; page = await pageAfter(page.next_cursor)) {
      yield page.data;
      if (page.next_cursor === null) return;
    }
  }
  const body = Readable.from(textOf('audit', type, pages()));
  const day = new Date(visit.now).toISOString().slice(0, 10);
  const name = `${list === requests ? 'requests' : 'actions'}-${day}.${format}`;
  return { kind: 'file', body, type: `${type}; charset=utf-8`, name };
}
