/** The request log: every use of a key, and a second list with the actions of members. Exported as CSV or NDJSON. */
import { Readable } from 'node:stream';
import { csvLine } from '../../base/csv.ts';
import type { AuditEntry } from '../../client/types.ts';
import { linkTo, pageOf, pagerOf, type Cursors } from '../links.ts';
import { rangeOf } from '../range.ts';
import { keyChoices } from '../choices.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';

const columns = [
  'at',
  'actor',
  'key_id',
  'ip',
  'method',
  'endpoint',
  'status',
  'error_code',
  'ms',
  'request_id',
  'idempotency_replayed',
  'user_agent',
] as const;
const filters = ['key_id', 'actor', 'method', 'endpoint', 'status', 'result', 'ip', 'request_id'] as const;

export function requestLogPages(): Page[] {
  return [
    get('/developer/log', (visit) => show(visit, 'key')),
    get('/developer/actions', (visit) => show(visit, 'person')),
    get('/developer/log/export', (visit) => exported(visit, 'key')),
    get('/developer/actions/export', (visit) => exported(visit, 'person')),
  ];
}

const placeOf = (by: 'key' | 'person'): string => (by === 'key' ? '/developer/log' : '/developer/actions');

function wanted(visit: Visit, by: 'key' | 'person'): Record<string, string | null> {
  const named = Object.fromEntries(filters.map((name) => [name, visit.query.get(name)]));
  const { since, until } = rangeOf(visit, usualRange(by));
  return { ...named, by, since, until };
}

/** The usual range: a day of requests; a longer one of actions, which are fewer. */
const usualRange = (by: 'key' | 'person'): '24h' | '30d' => (by === 'key' ? '24h' : '30d');

async function show(visit: Visit, by: 'key' | 'person'): Promise<Shown> {
  const { query } = visit;
  const place = placeOf(by);
  const range = rangeOf(visit, usualRange(by));
  const isAdmin = visit.member.is_admin === 1;
  const entries =
    by === 'person' && isAdmin && query.get('of') === 'server'
      ? await serverActs(visit)
      : await visit.ask('listAuditEntries', { query: { ...wanted(visit, by), ...pageOf(query) } });
  return view('request-log', by === 'key' ? 'Request log' : 'Actions', {
    tab: by === 'key' ? 'log' : 'actions',
    isLog: by === 'key',
    serverActs: isAdmin && query.get('of') !== 'server' ? `${place}?of=server` : null,
    place,
    rows: entries.data.map((entry) => ({
      ...entry,
      isRefused: entry.status >= 400,
      mails: mailsOf(entry),
      byKey: entry.key_id === null ? null : linkTo(place, query, { key_id: entry.key_id }),
      byIp: entry.ip === null ? null : linkTo(place, query, { ip: entry.ip }),
    })),
    query: Object.fromEntries(query),
    results: ['ok', 'refused', 'failed', 'idempotency_mismatch'].map((name) => ({
      name,
      on: query.get('result') === name,
    })),
    range,
    keys: by === 'key' ? await keyChoices(visit) : [],
    pager: pagerOf(place, query, entries, range.since),
    csv: linkTo(`${place}/export`, query, { format: 'csv' }),
    ndjson: linkTo(`${place}/export`, query, { format: 'ndjson' }),
    isFiltered: filters.some((name) => (query.get(name) ?? '') !== ''),
  });
}

/** Acts that concern no account, for administrators; the newest. */
async function serverActs(visit: Visit): Promise<Cursors & { data: AuditEntry[] }> {
  const { data } = await visit.operate('audit.list', { server: true });
  return { data: data as unknown as AuditEntry[], next_cursor: null, previous_cursor: null };
}

/** Returns a link to the messages of a request; null for a repeated request, which sent nothing. */
const mailsOf = ({
  endpoint,
  method,
  status,
  idempotency_replayed: isReplay,
  request_id: id,
}: AuditEntry): string | null =>
  method !== 'GET' && sendsMail.has(endpoint) && status < 300 && !isReplay
    ? linkTo('/messages', new URLSearchParams({ q: id }))
    : null;

const sendsMail: ReadonlySet<string> = new Set(['/v1/messages', '/v1/messages/{id}/resend', 'DATA']);

/** Sends all entries, however many: they are read while they are sent. */
async function exported(visit: Visit, by: 'key' | 'person'): Promise<Shown> {
  const isCsv = visit.query.get('format') !== 'ndjson';
  const pageAfter = (after: string | null) =>
    visit.ask('listAuditEntries', { query: { ...wanted(visit, by), limit: '100', after } });
  const lineOf = (entry: AuditEntry): string =>
    isCsv ? csvLine(columns.map((name) => String(entry[name] ?? ''))) : JSON.stringify(entry);
  // Read before the answer begins: afterwards a refused filter could not be reported.
  let page = await pageAfter(null);
  async function* lines(): AsyncGenerator<string> {
    if (isCsv) yield `${columns.join(',')}\n`;
    for (;;) {
      yield page.data.map((entry) => `${lineOf(entry)}\n`).join('');
      if (page.next_cursor === null) return;
      page = await pageAfter(page.next_cursor);
    }
  }
  const body = Readable.from(lines());
  return isCsv
    ? { kind: 'file', body, type: 'text/csv; charset=utf-8', name: 'requests.csv' }
    : { kind: 'file', body, type: 'application/x-ndjson; charset=utf-8', name: 'requests.ndjson' };
}
