/** Messages: the list with its search, and one message with its history. */
import { createHash } from 'node:crypto';
import { Problem } from '../../base/problem.ts';
import { addressKey } from '../../mail/address.ts';
import { deliveryStatuses } from '../../storage/tables.ts';
import { chipsOf, linkTo, pageOf, pagerOf } from '../links.ts';
import { rangeOf } from '../range.ts';
import { streamChoices } from '../choices.ts';
import { exportsOf } from './exports.ts';
import { adminPost, get, move, nullAt, post, view, type Page, type Shown, type Visit } from '../page.ts';
import { isForIds, readSearch } from '../search-text.ts';
import { sortingOf } from '../sort.ts';
import { timelineOf, type History } from '../timeline.ts';
import { numberText, wordsOf } from '../words.ts';
import { MINUTE_MS } from '../../base/time.ts';
import type {
  AuditEntry,
  Content,
  MessageDetails,
  Operations,
  ReportContent,
  Suppression,
} from '../../client/types.ts';
import { withoutHints } from '../mail-html.ts';

const WHERE = '/messages';
/** Most characters of a text or source that are shown; the rest can be downloaded. */
export const SHOWN_CHARACTERS = 100_000;
/** The API gives this many of the last attempts and events. */
const SHOWN_ATTEMPTS = 20;
/** HTML of a mail is not trusted: it is shown without scripts, network and forms, in an opaque origin. */
export const PREVIEW_CSP =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

export function messagePages(): Page[] {
  return [
    get(WHERE, list),
    get(`${WHERE}/:id`, details),
    get(`${WHERE}/:id/html`, html),
    get(`${WHERE}/:id/request`, request),
    get(`${WHERE}/:id/source`, async (visit) => mailFile(await bytesOf(visit, 'getMessageRaw'), idOf(visit))),
    get(`${WHERE}/:id/reports/:report_id`, async (visit) =>
      mailFile(await bytesOf(visit, 'getMessageReport'), visit.params['report_id'] ?? 'report'),
    ),
    get(`${WHERE}/:id/reports/:report_id/read`, readReport),
    get(`${WHERE}/:id/reports/:report_id/html`, reportHtml),
    adminPost(`${WHERE}/:id/reports/:report_id/confirm`, async (visit) => {
      await visit.ask('inbound.confirm', { body: { id: visit.params['report_id'] ?? '' } });
      return move(`${WHERE}/${idOf(visit)}`, 'The report is confirmed.');
    }),
    post(`${WHERE}/:id/cancel`, async (visit) => {
      await visit.ask('cancelMessage', { params: visit.params });
      return move(`${WHERE}/${idOf(visit)}`, 'Canceled for all recipients that it had not been sent to.');
    }),
    post(`${WHERE}/:id/resend`, resend),
    post(`${WHERE}/:id/erase`, async (visit) => {
      await visit.ask('deleteMessageContent', { params: visit.params });
      return move(`${WHERE}/${idOf(visit)}`, 'The content is erased.');
    }),
  ];
}

const idOf = ({ params }: Visit): string => params['id'] ?? '';

const filters = ['status', 'stream', 'domain', 'template_id', 'opened', 'clicked', 'test'] as const;

async function list(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const q = (query.get('q') ?? '').trim().slice(0, 1000);
  if (/^msg_[0-9a-z]{26}$/.test(q)) return move(`${WHERE}/${q}`);
  const found = readSearch(q);
  const { query: search, says } = found;
  const isFiltered = q !== '' || filters.some((name) => (query.get(name) ?? '') !== '');
  const range = rangeOf(visit, '30d');
  const order = sortingOf({ path: WHERE, query }, ['created_at'], { usual: '-created_at' });
  const sort = order.descending ? null : 'created_at';
  const since = isForIds(found) ? null : range.since;
  const given = Object.fromEntries(filters.map((name) => [name, query.get(name)]));
  const times = { created_after: since, created_before: range.until };
  const asked = { ...search, ...given, ...pageOf(query), ...times, sort };
  const count = (status: string | null) =>
    visit.ask('getMessageCount', { query: { ...search, ...given, status, ...times } });
  const status = query.get('status') ?? '';
  const [[messages, everyState, own, fault], streams] = await Promise.all([
    // A count looks at the newest messages. Of one state it looks only at those, so that it is exact for far more of them.
    Promise.all([visit.ask('listMessages', { query: asked }), count(null), status === '' ? null : count(status)])
      .then((both): Found => [...both, null])
      .catch((error: unknown): Found => {
        // The typed text stays in its field, with the problem above it.
        if (q === '' || !(error instanceof Problem) || error.code !== 'invalid_parameter') throw error;
        return [noMessages, noTotals, null, error];
      }),
    streamChoices(visit),
  ]);
  const [first] = messages.data;
  if ('event_id' in search && first !== undefined) return move(`${WHERE}/${first.id}`);
  return view('messages', 'Messages', {
    q,
    fault,
    rows: messages.data,
    chips: chipsOf(
      WHERE,
      query,
      'status',
      deliveryStatuses.map((status) => [status, status] as const),
    ).map((chip) => ({ ...chip, howMany: chipCount(chip.on && own !== null ? own : everyState, chip.label) })),
    isLeast: everyState.has_more,
    howMany: totalText(own ?? everyState),
    query: Object.fromEntries(query),
    range,
    streams,
    headings: order.headings,
    pager: pagerOf(WHERE, query, messages, since),
    isOldestFirst: !order.descending,
    isFiltered,
    says,
    without: linkTo(WHERE, query, { status: null, stream: null, test: null }),
    isNarrowed: filters.some((name) => (query.get(name) ?? '') !== ''),
    export: exportsOf('messages', asked),
    allTime: range.value === 'all' ? null : linkTo(WHERE, query, { range: 'all' }),
  });
}

type List = Operations['listMessages']['answer'];
type Totals = Operations['getMessageCount']['answer'];
type Found = [List, Totals, Totals | null, Problem | null];

const noMessages: List = { object: 'list', data: [], has_more: false, next_cursor: null, previous_cursor: null };
const noTotals: Totals = { object: 'message_count', count: 0, by_status: {}, has_more: false };

const chipCount = ({ by_status: counts, has_more: isMore }: Totals, status: string): string => {
  const count = counts[status] ?? 0;
  return count === 0 ? '' : `${numberText(count)}${isMore ? '+' : ''}`;
};

/** Returns how many messages the list has; '' if none was found among those that were counted, and there are more. */
function totalText({ count, has_more: isMore }: Totals): string {
  const text = `${numberText(count)} ${count === 1 ? 'message' : 'messages'}`;
  if (!isMore) return text;
  return count === 0 ? '' : `at least ${text}`;
}

async function details(visit: Visit): Promise<Shown> {
  const { params, query } = visit;
  const message = await visit.ask('getMessage', { params });
  const [history, content] = await Promise.all([
    historyOf(visit, message),
    visit.may('message:content') ? visit.ask('getMessageContent', { params }) : null,
  ]);
  const { waits } = history;
  const timeline = timelineOf(history);
  const part = query.get('part') ?? (content === null ? 'html' : firstPart(content));
  const blocking = blockingOf(message, history.suppressions);
  const keys = new Set(blocking.map(({ email }) => addressKey(email)));
  const isAdmin = visit.isAdmin;
  const canCancel = message.recipients.some(({ status }) => canMove.has(status));
  const live = {
    message,
    timeline,
    hasEarlier: message.attempts.length >= SHOWN_ATTEMPTS || message.events.length >= SHOWN_ATTEMPTS,
    canCancel,
    blocked: blocking.map(({ email, reason }) => `${email} is suppressed (${wordsOf(reason)}).`).join(' '),
    isComplaint: blocking.some(({ reason }) => reason === 'complaint'),
    hasOthers: message.recipients.some(({ email }) => !keys.has(addressKey(email))),
    isAdmin,
    canTry: isAdmin && !message.test && waits.some(({ reason }) => !untried.has(reason)),
    canWatch: isAdmin && !message.test && canCancel,
    hasContent: content !== null && content.stored !== 'nothing',
  };
  const version = versionOf(live, waits.length === 0 ? 0 : Math.floor(visit.now / MINUTE_MS));
  const data = {
    ...live,
    every: message.recipients.some(({ status }) => moving.has(status)) ? '2s' : canCancel ? '5s' : '30s',
    poll: `${WHERE}/${idOf(visit)}?seen=${version}`,
    metadata: Object.entries(message.metadata).map(([name, value]) => ({ name, value })),
    content,
    isSubmitted: content?.stored === 'mail',
    part,
    text: part === 'text' ? content?.text?.slice(0, SHOWN_CHARACTERS) : null,
    source: part === 'source' && content !== null ? await sourceText(visit) : null,
    headers: part === 'headers' && content !== null ? headOf(await sourceText(visit)) : null,
    hasSeveral: message.recipients.length > 1,
    here: `${WHERE}/${idOf(visit)}`,
  };
  // A poll that finds nothing new changes nothing on the page, so that a selection and the reader's place stay.
  const isSeen = visit.header('x-poll') !== undefined && query.get('seen') === version;
  return view('message', message.subject, data, isSeen ? 204 : 200);
}

/** Names what a page shows: two pages with the same name show the same. */
const versionOf = (shown: object, minute: number): string =>
  createHash('sha256')
    .update(JSON.stringify([shown, minute]))
    .digest('base64url')
    .slice(0, 16);

/** Reads everything that the time line tells. */
async function historyOf(visit: Visit, message: MessageDetails): Promise<History> {
  const { params, now } = visit;
  const [why, suppressions, reports, calls, request] = await Promise.all([
    visit.ask('explainMessage', { params }),
    suppressionsOf(visit, message),
    visit.ask('listMessageReports', { params }),
    visit.ask('listMessageWebhookDeliveries', { params }),
    requestOf(visit, message),
  ]);
  const webhooks = calls.data.length === 0 ? [] : (await visit.ask('listWebhooks', { query: { limit: '100' } })).data;
  return {
    message,
    reports: reports.data,
    suppressions,
    calls: calls.data,
    endpoints: new Map(webhooks.map(({ id, url }) => [id, url])),
    request,
    waits: why.recipients.filter(({ reason }) => reason !== 'finished'),
    here: `${WHERE}/${idOf(visit)}`,
    now,
  };
}

/** Returns the entry of the request in the audit log, or null if it is no longer kept. */
async function requestOf(visit: Visit, { request_id: id }: MessageDetails): Promise<AuditEntry | null> {
  if (id === null) return null;
  const { data } = await visit.ask('listAuditEntries', { query: { request_id: id, limit: '1' } });
  return data[0] ?? null;
}

/** Reasons for which another try now makes no sense. */
const untried: ReadonlySet<string> = new Set(['finished', 'being_sent', 'scheduled', 'held']);
const moving: ReadonlySet<string> = new Set(['queued', 'sent']);
const canMove: ReadonlySet<string> = new Set(['scheduled', 'queued', 'sent', 'deferred']);

/** Returns the part that is shown first: the source for a submitted mail that cannot be parsed, which has neither HTML nor text. */
function firstPart({ html, text, stored }: Content): string {
  if (html !== null) return 'html';
  return text === null && stored === 'mail' ? 'source' : 'text';
}

/** Leads to the page of the request of the message. */
async function request(visit: Visit): Promise<Shown> {
  const message = await visit.ask('getMessage', { params: visit.params });
  const { request_id: id } = message;
  if (id === null) throw new Problem('not_found', 'This message has no request.');
  const entry = await requestOf(visit, message);
  if (entry === null) throw new Problem('not_found', 'The request log does not have this request any more.');
  return move(`/developer/log/${entry.id}`);
}

const MOST_LOOKED_UP = 10;

/** Looks up the suppressions of recipients, of all scopes. */
async function suppressionsOf(visit: Visit, message: MessageDetails): Promise<Suppression[]> {
  const asked = message.recipients.slice(0, MOST_LOOKED_UP);
  const found = await Promise.all(asked.map(({ email }) => visit.ask('listSuppressions', { query: { email } })));
  return found.flatMap(({ data }) => data);
}

/** Returns the entries for which a copy of the message would not be sent. */
const blockingOf = ({ stream, test }: MessageDetails, entries: readonly Suppression[]): readonly Suppression[] =>
  test ? [] : entries.filter(({ scope }) => scope === 'account' || scope === `stream:${stream}`);

/** Sends it again; with `lift`, takes its recipients off the suppression list first. */
async function resend(visit: Visit): Promise<Shown> {
  const { params, form } = visit;
  if (form.get('lift') !== null) {
    const message = await visit.ask('getMessage', { params });
    for (const { email, scope } of blockingOf(message, await suppressionsOf(visit, message))) {
      const of = scope === 'account' ? { scope } : { stream: message.stream };
      const query = { ...of, force: form.get('force') === null ? null : 'true', note: `to send ${message.id} again` };
      await visit.ask('deleteSuppression', { params: { email }, query });
    }
  }
  const { id, status } = await visit.ask('resendMessage', { params });
  const isStopped = status === 'suppressed';
  return move(
    `${WHERE}/${id}`,
    isStopped ? 'Nothing was sent: see why below.' : 'Sent again: this is the new message.',
  );
}

/** Returns the head and the beginning of the body, as they are sent. */
async function sourceText(visit: Visit): Promise<string> {
  try {
    return (await bytesOf(visit, 'getMessageRaw')).toString('latin1', 0, SHOWN_CHARACTERS);
  } catch (error) {
    if (error instanceof Problem && error.code === 'invalid_state') return error.message;
    throw error;
  }
}

async function bytesOf(visit: Visit, operation: 'getMessageRaw' | 'getMessageReport'): Promise<Buffer> {
  const body = await visit.ask(operation, { params: visit.params, accept: 'message/rfc822' });
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0);
}

export const htmlFile = (body: string): Shown => ({
  kind: 'file',
  body: withoutHints(body),
  type: 'text/html; charset=utf-8',
  csp: PREVIEW_CSP,
});

export const mailFile = (body: Buffer, name: string): Shown => ({
  kind: 'file',
  body,
  type: 'message/rfc822',
  name: `${name}.eml`,
});

/** Returns the text up to the first empty line. */
const headOf = (source: string): string => source.split(/\r?\n\r?\n/, 1)[0] ?? '';

async function html(visit: Visit): Promise<Shown> {
  const content = await visit.ask('getMessageContent', { params: visit.params });
  return htmlFile(content.html ?? '');
}

/** Shows a mail that came back: as a mail program would, or its source if it cannot be parsed. */
async function readReport(visit: Visit): Promise<Shown> {
  const content = await reportContent(visit);
  return view('report', 'A mail that came back', {
    content,
    text: content?.text?.slice(0, SHOWN_CHARACTERS),
    source:
      content === null ? (await bytesOf(visit, 'getMessageReport')).toString('latin1', 0, SHOWN_CHARACTERS) : null,
    message: `${WHERE}/${idOf(visit)}`,
    here: `${WHERE}/${idOf(visit)}/reports/${visit.params['report_id'] ?? ''}`,
  });
}

async function reportHtml(visit: Visit): Promise<Shown> {
  const content = await reportContent(visit);
  return htmlFile(content?.html ?? '');
}

/** Returns null if the mail cannot be parsed. */
const reportContent = (visit: Visit): Promise<ReportContent | null> =>
  nullAt('invalid_state', () => visit.ask('getMessageReportContent', { params: visit.params }));
