/** The request log: every use of a key; the actions of people; for administrators those on the server, and uses of unknown keys. */
import { Readable } from 'node:stream';
import { textOf } from '../../api/list-stream.ts';
import { Problem } from '../../base/problem.ts';
import type { AuditEntry, AuditEntryDetails } from '../../client/types.ts';
import { changesOf, curlOf, doorText, isHold, objectLink, undoOf, whoText } from '../audit-words.ts';
import { keyChoices } from '../choices.ts';
import { definedMembers } from '../forms.ts';
import { exportsOf, formOf } from './exports.ts';
import { chipsOf, linkTo, pageOf, pagerOf, type Cursors } from '../links.ts';
import { rangeOf } from '../range.ts';
import { get, nullAt, view, type Page, type Shown, type Visit } from '../page.ts';

const filters = [
  ...['key_id', 'actor', 'method', 'endpoint', 'status', 'result', 'ip', 'request_id'],
  ...['operation', 'object_type', 'object_id'],
];

/** The two lists. A day of requests is the usual range; a longer one of actions, which are fewer. */
const requests = {
  by: 'key',
  place: '/developer/log',
  title: 'Request log',
  usual: '24h',
  of: [['unknown', 'of unknown keys']],
} as const;
const actions = {
  by: 'person',
  place: '/developer/actions',
  title: 'Actions',
  usual: '30d',
  of: [
    ['account', 'of this account'],
    ['server', 'of the server'],
  ],
} as const;
type List = typeof requests | typeof actions;
type Listed = Cursors & { data: AuditEntry[]; not_kept?: number | undefined };

export const requestLogPages: readonly Page[] = [requests, actions].flatMap((list) => [
  get(list.place, (visit) => show(visit, list)),
  get(`${list.place}/export`, (visit) => exported(visit, list)),
  get(`${list.place}/:id`, details),
]);

/** Returns whether the page also has what concerns no account. */
const asksServer = ({ query, isAdmin }: Visit, { by }: List): boolean =>
  isAdmin && query.get('of') !== 'account' && (by === 'person' || query.get('of') === 'unknown');

/** Returns the filters as the API has them: people are looked for by their addresses, which the log has with a prefix. */
function filtersOf(query: URLSearchParams): Record<string, string> {
  const named = Object.fromEntries(filters.map((name) => [name, query.get(name) ?? '']));
  if (/^[^:]+@/.test(named['actor'] ?? '')) named['actor'] = `member:${named['actor'] ?? ''}`;
  return named;
}

/** Returns the parameters of the API's list for what the page shows of the account. */
function askedFor(visit: Visit, { by, usual }: List): Record<string, string | null> {
  const { since, until } = rangeOf(visit, usual);
  return { ...filtersOf(visit.query), by, since, until };
}

/** Reads a page: of the account from the API; what concerns no account from the operator's operation, for administrators alone. */
async function listOf(visit: Visit, list: List, part: Readonly<Record<string, string | null>>): Promise<Listed> {
  const asked = { ...askedFor(visit, list), ...part };
  if (!asksServer(visit, list)) return await visit.ask('listAuditEntries', { query: asked });
  const given = Object.entries(asked).filter(([name, value]) => name !== 'by' && (value ?? '') !== '');
  const { status, limit, since, until, ...texts } = Object.fromEntries(given);
  const numberOf = (text: string | null | undefined, read: (text: string) => number = Number): number | undefined =>
    text == null ? undefined : read(text);
  const numbers = { status: numberOf(status), limit: numberOf(limit) };
  const times = { since: numberOf(since, Date.parse), until: numberOf(until, Date.parse) };
  const ofAccount = visit.query.get('of') === 'server' ? {} : { account: visit.account.id };
  const parts = list === requests ? { strangers: true } : { server: true, ...ofAccount };
  const args = { ...texts, ...definedMembers({ ...numbers, ...times }), ...parts };
  const { data, has_more: hasMore, not_kept } = await visit.ask('audit.list', { body: args });
  const [first, last] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  const [isBack, isOn] = [part['before'] != null, part['after'] != null];
  return {
    data,
    not_kept,
    next_cursor: isBack || hasMore ? last : null,
    previous_cursor: isOn || (isBack && hasMore) ? first : null,
  };
}

async function show(visit: Visit, list: List): Promise<Shown> {
  const { query } = visit;
  const { place } = list;
  const isLog = list === requests;
  const range = rangeOf(visit, list.usual);
  const entries = await listOf(visit, list, pageOf(query));
  const held = await holdsInForce(visit, entries.data);
  return view('request-log', list.title, {
    isLog,
    chips: visit.isAdmin ? chipsOf(place, query, 'of', list.of) : [],
    isUnknown: isLog && query.get('of') === 'unknown',
    notKept: entries.not_kept,
    place,
    rows: entries.data.map((entry) => rowOf(visit, entry, { place, held })),
    query: Object.fromEntries(query),
    results: ['ok', 'refused', 'failed', 'idempotency_mismatch'].map((name) => ({
      name,
      on: query.get('result') === name,
    })),
    range,
    keys: isLog ? await keyChoices(visit) : [],
    pager: pagerOf(place, query, entries, range.since),
    export: asksServer(visit, list)
      ? {
          csv: linkTo(`${place}/export`, query, { format: 'csv' }),
          ndjson: linkTo(`${place}/export`, query, { format: 'ndjson' }),
        }
      : exportsOf('audit', askedFor(visit, list)),
    isFiltered: filters.some((name) => (query.get(name) ?? '') !== ''),
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

/** Sends all entries of a list that has what concerns the server, however many: they are read while they are sent. */
async function exported(visit: Visit, list: List): Promise<Shown> {
  if (!asksServer(visit, list)) throw new Problem('not_found', 'Export this list from its page.');
  const { format, type } = formOf(visit);
  const pageAfter = (after: string | null) => listOf(visit, list, { limit: '100', after });
  // Read before the answer begins: afterwards a refused filter could not be reported.
  const first = await pageAfter(null);
  async function* pages(): AsyncGenerator<AuditEntry[]> {
    for (let page = first; ; page = await pageAfter(page.next_cursor)) {
      yield page.data;
      if (page.next_cursor === null) return;
    }
  }
  const body = Readable.from(textOf('audit', type, pages()));
  return {
    kind: 'file',
    body,
    type: `${type}; charset=utf-8`,
    name: `${list === requests ? 'requests' : 'actions'}.${format}`,
  };
}
