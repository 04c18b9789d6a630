/** Messages: the list with its search, one message with its history, and links to one for a person without a login. */
import { findAccount } from '../../accounts/account-store.ts';
import { contentOf, memberCaller, type Asking } from '../../api/inside.ts';
import { Problem } from '../../base/problem.ts';
import { HOUR_MS } from '../../base/time.ts';
import { pluralize } from '../../base/pluralize.ts';
import { addressKey } from '../../mail/address.ts';
import { deliveryStatuses } from '../../storage/tables.ts';
import { actRows } from '../act.ts';
import { definedMembers, fieldText, openedOf } from '../forms.ts';
import { chipsOf, linkTo, pageOf, pagerOf, placeWithin } from '../links.ts';
import { rangeOf } from '../range.ts';
import { filtersOf, keysOf, streamsOf, type Filter } from '../filters.ts';
import { exportsOf } from './exports.ts';
import {
  adminPost,
  get,
  move,
  nullAt,
  once,
  openGet,
  post,
  view,
  type Guest,
  type Page,
  type Shown,
  type Visit,
} from '../page.ts';
import { resource } from '../resource.ts';
import { firstFound, isForIds, readSearch, type Search } from '../search-text.ts';
import { sortingOf } from '../sort.ts';
import { timelineOf, type History } from '../timeline.ts';
import { reasonChoices, reasonText, verdictOf, type Verdict } from '../verdict.ts';
import { answerText, kindClass, numberText, wordsOf } from '../words.ts';
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
const SHARED_HOURS = 48;
const PURPOSE = 'shared message';
/** Most characters of a text or source that are shown; the rest can be downloaded. */
export const SHOWN_CHARACTERS = 100_000;
/** The API gives this many of the last attempts and events. */
const SHOWN_ATTEMPTS = 20;
/** HTML of a mail is not trusted: it is shown without scripts, network and forms, in an opaque origin. */
export const PREVIEW_CSP =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

export const messagePages: readonly Page[] = [
  get(WHERE, list),
  get(`${WHERE}/news`, news),
  post(`${WHERE}/chosen`, actOnChosen, { scope: 'send' }),
  ...resource({
    path: `${WHERE}/:id`,
    view: 'message',
    title: ({ message }) => message.subject,
    load: messageData,
    acts: {
      [`${WHERE}/:id/resend`]: resend,
      async [`${WHERE}/:id/lift`](visit) {
        const lifted = await liftFor(visit, idOf(visit), visit.form.get('force') !== null);
        return `${pluralize(lifted, 'suppression')} lifted: what is sent from now on goes out.`;
      },
    },
  }),
  get(`${WHERE}/:id/html`, html),
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
  post(`${WHERE}/:id/share`, share, { scope: 'message:content' }),
  openGet('/shared/:token', shared),
];

const idOf = ({ params }: Pick<Visit, 'params'>): string => params['id'] ?? '';

/** Most characters of a typed search that are read. */
const LONGEST_SEARCH = 1000;
const searchIn = (query: URLSearchParams): string => (query.get('q') ?? '').trim().slice(0, LONGEST_SEARCH);

const search: Filter = {
  name: 'q',
  label: 'Search',
  isFirst: true,
  type: 'search',
  most: LONGEST_SEARCH,
  placeholder: 'Address, domain, order number, subject or id',
  about:
    'An address or a part of it, a domain, words of the subject, an id or its beginning, status:…, tag:…, from:…, subject:…, name:value of the metadata',
};
/** Filters that are chips of their own, or that links of other pages set. */
const inAddress: readonly Filter[] = [
  { name: 'status', isFirst: true },
  ...['domain', 'template_id', 'opened', 'clicked'].map((name) => ({ name })),
];
const simulated: Filter = {
  name: 'test',
  label: 'Mail',
  choices: [
    ['false', 'real'],
    ['true', 'simulated'],
  ],
};

async function list(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const q = searchIn(query);
  if (/^msg_[0-9a-z]{26}$/.test(q)) return move(`${WHERE}/${q}`);
  const wanted = readSearch(q);
  const range = rangeOf(visit, '30d');
  const [streams, keys] = await Promise.all([streamsOf(visit), keysOf(visit)]);
  const { filters, given, isFiltered } = filtersOf(
    WHERE,
    query,
    [
      search,
      { name: 'reason', label: 'Why', choices: reasonChoices },
      { name: 'stream', label: 'Stream', choices: streams },
      { name: 'key_id', label: 'Key', choices: keys },
      simulated,
      ...inAddress,
    ],
    { range },
  );
  const order = sortingOf({ path: WHERE, query }, ['created_at'], '-created_at');
  const since = isForIds(wanted) ? null : range.since;
  const { q: _, ...narrowing } = given;
  const isNarrowed = Object.keys(narrowing).length > 0;
  const asked = { ...narrowing, created_after: since, created_before: range.until };
  const { found, fault, ...counts } = await findMessages(
    visit,
    wanted,
    asked,
    order.descending ? null : 'created_at',
  ).catch((error: unknown): Found => {
    // The typed text stays in its field, with the problem above it.
    if (q === '' || !(error instanceof Problem) || error.code !== 'invalid_parameter') throw error;
    return { found: { list: noMessages, meaning: wanted, place: 0 }, all: noTotals, own: null, fault: error };
  });
  const { list: messages, meaning } = found;
  const [first] = messages.data;
  if ('event_id' in meaning.query && first !== undefined) return move(`${WHERE}/${first.id}`);
  const paged = new URLSearchParams([...query].filter(([name]) => name !== 'via'));
  if (found.place > 0) paged.set('via', String(found.place));
  const here = linkTo(WHERE, query);
  const newest = new Date(first === undefined ? visit.now : Date.parse(first.created_at) + 1).toISOString();
  const differs = (name: 'from' | 'stream'): boolean => messages.data.some((one) => one[name] !== first?.[name]);
  return view('messages', 'Messages', {
    fault,
    rows: messages.data.map(withWhy),
    hasFrom: differs('from'),
    hasStream: differs('stream'),
    hasTags: messages.data.some(({ tags }) => tags.length > 0),
    chips: statusChips(query, counts),
    isLeast: counts.all.has_more,
    filters,
    range,
    headings: order.headings,
    pager: pagerOf(WHERE, paged, messages, since),
    isOldestFirst: !order.descending,
    isFiltered,
    says: [meaning, ...wanted.others].map(({ says }) => says).join(', then '),
    without: isNarrowed
      ? linkTo(WHERE, query, Object.fromEntries(Object.keys(narrowing).map((name) => [name, null])))
      : null,
    news:
      order.descending && !query.has('after') && !query.has('before')
        ? linkTo(`${WHERE}/news`, { ...meaning.query, ...narrowing }, { created_after: newest, back: here })
        : null,
    export: exportsOf('messages', { ...meaning.query, ...asked }),
    allTime: range.value === 'all' ? null : linkTo(WHERE, query, { range: 'all' }),
    here,
  });
}

/** Returns a chip for each state that messages are in, with their number. */
function statusChips(query: URLSearchParams, { all, own }: Pick<Found, 'all' | 'own'>) {
  const chosen = query.get('status') ?? '';
  const shown = new Set<string>(deliveryStatuses.filter((status) => all.has_more || (all.by_status[status] ?? 0) > 0));
  if (chosen !== '') shown.add(chosen);
  return chipsOf(
    WHERE,
    query,
    'status',
    ['', ...shown].map((status) => [status, status || 'all'] as const),
  ).map((chip) => ({
    ...chip,
    kind: kindClass(chip.label),
    howMany: howMany(chip.on && own !== null ? own : all, chip.label),
  }));
}

/** Returns a number with `+` if more messages were not counted. */
function howMany({ count, by_status: counts, has_more: isMore }: Totals, status: string): string {
  const number = counts[status] ?? (status === 'all' || status.includes(',') ? count : 0);
  return number === 0 && isMore ? '' : `${numberText(number)}${isMore ? '+' : ''}`;
}

/** Finds the page of messages, and how many there are in each state; of one state exactly, if it was asked for. */
async function findMessages(
  visit: Visit,
  wanted: Search,
  given: Readonly<Record<string, string | null>>,
  sort: string | null,
): Promise<Found> {
  const { query } = visit;
  // A further page is of the meaning that found the first one.
  const via = query.has('after') || query.has('before') ? Number(query.get('via') ?? '0') : null;
  const found = await firstFound(visit, wanted, { ...given, ...pageOf(query), sort }, via);
  const asked = { ...found.meaning.query, ...given };
  const status = query.get('status') ?? '';
  // A count looks at the newest messages. Of one state it looks only at those, so that it is exact for far more of them.
  const [all, own] = await Promise.all([
    visit.ask('getMessageCount', { query: { ...asked, status: found.meaning.query['status'] ?? null } }),
    status === '' ? null : visit.ask('getMessageCount', { query: { ...asked, status } }),
  ]);
  return { found, all, own, fault: null };
}

/** A row says why it did not arrive, or what its recipient did with it. */
function withWhy(message: List['data'][number]) {
  const { status, reason, engagement } = message;
  const done = engagement.clicks > 0 ? 'clicked' : engagement.opens > 0 ? 'opened' : '';
  return { ...message, why: status === 'delivered' ? done : reasonText(reason) };
}

/** Says how many messages came after the page was shown; the page stays as it is until the reader wants them. */
async function news({ ask, query }: Visit): Promise<Shown> {
  const { back = '', ...asked } = Object.fromEntries(query);
  const { count } = await ask('getMessageCount', { query: asked });
  return view('messages-news', 'Messages', { count, news: linkTo(`${WHERE}/news`, query), back: placeWithin(back) });
}

/** Most messages of a page, all of which may be chosen. */
const MOST_CHOSEN = 50;

/** Sends the chosen messages again, or lifts what keeps their recipients from being mailed; says how many it was, and why not the others. */
async function actOnChosen(visit: Visit): Promise<Shown> {
  const { form } = visit;
  const ids = form.getAll('id').slice(0, MOST_CHOSEN);
  const isLift = form.get('act') === 'lift';
  const faults = new Set<string>();
  let done = 0;
  for (const id of ids)
    try {
      if (isLift) done += await liftFor(visit, id, false);
      else if ((await visit.ask('resendMessage', { params: { id } })).status === 'suppressed')
        faults.add('a recipient is on the suppression list: lift that first');
      else done++;
    } catch (error) {
      if (!(error instanceof Problem) || error.status >= 500) throw error;
      faults.add(error.message.replace(/\.$/, ''));
    }
  const what = isLift ? `${pluralize(done, 'suppression')} lifted.` : `${pluralize(done, 'message')} sent again.`;
  const why = faults.size === 0 ? '' : ` Not the others: ${[...faults].slice(0, 2).join('; ')}.`;
  return move(placeWithin(form.get('back')), ids.length === 0 ? 'Choose messages first.' : `${what}${why}`);
}

type List = Operations['listMessages']['answer'];
type Totals = Operations['getMessageCount']['answer'];
interface Found {
  found: Awaited<ReturnType<typeof firstFound>>;
  all: Totals;
  own: Totals | null;
  fault: Problem | null;
}

const noMessages: List = { object: 'list', data: [], has_more: false, next_cursor: null, previous_cursor: null };
const noTotals: Totals = { object: 'message_count', count: 0, by_status: {}, has_more: false };

/** The reader of a message's page: a member's visit, or a shared link. */
type Reader = Pick<Visit, 'ask' | 'may' | 'isAdmin' | 'params' | 'query' | 'now'>;

/** Returns the data of the page. */
async function messageData(visit: Reader) {
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
  const verdict = verdictOf({ message, waits, blocking });
  const here = `${WHERE}/${idOf(visit)}`;
  return {
    message,
    verdict,
    timeline,
    ticket: ticketOf(message, verdict),
    hasEarlier: message.attempts.length >= SHOWN_ATTEMPTS || message.events.length >= SHOWN_ATTEMPTS,
    canCancel,
    blocked: blocking.map(({ email, reason }) => `${email} is suppressed (${wordsOf(reason)}).`).join(' '),
    isComplaint: blocking.some(({ reason }) => reason === 'complaint'),
    hasOthers: message.recipients.some(({ email }) => !keys.has(addressKey(email))),
    isAdmin,
    canTry: isAdmin && !message.test && waits.some(({ reason }) => !untried.has(reason)),
    canWatch: isAdmin && !message.test && canCancel,
    canRedirect: message.recipients.some(({ status }) => lost.has(status)),
    hasContent: content !== null && content.stored !== 'nothing',
    every: message.recipients.some(({ status }) => moving.has(status)) ? '2s' : canCancel ? '5s' : '30s',
    metadata: Object.entries(message.metadata).map(([name, value]) => ({ name, value })),
    content,
    isSubmitted: content?.stored === 'mail',
    part,
    parts: parts.map(([value, label]) => ({ label, href: `?part=${value}`, on: value === part })),
    text: part === 'text' ? content?.text?.slice(0, SHOWN_CHARACTERS) : null,
    source: part === 'source' && content !== null ? await sourceText(visit) : null,
    headers: part === 'headers' && content !== null ? headOf(await sourceText(visit)) : null,
    hasSeveral: message.recipients.length > 1,
    here,
  };
}

const parts = [
  ['html', 'HTML'],
  ['text', 'Text'],
  ['headers', 'Headers'],
  ['source', 'Source'],
] as const;

/** Returns the facts for a ticket, as text. */
function ticketOf(message: MessageDetails, { text }: Verdict): string {
  const reply = message.attempts.at(-1);
  const lines = [
    ['Subject', message.subject],
    ['To', message.to],
    ['From', message.from],
    ['Accepted', message.created_at],
    ['Status', `${message.status} since ${message.status_at}`],
    ['Verdict', text],
    ['Answer', reply?.smtp_reply == null ? null : answerText(reply.smtp_code, reply.smtp_reply)],
    ['Host', reply?.mx ?? null],
    ['Id', message.id],
    ['Message-ID', message.rfc_message_id],
  ] as const;
  return lines.flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`])).join('\n');
}

/** Reads everything that the time line tells. */
async function historyOf(visit: Reader, message: MessageDetails): Promise<History> {
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
async function requestOf(visit: Reader, { request_id: id }: MessageDetails): Promise<AuditEntry | null> {
  if (id === null) return null;
  const { data } = await visit.ask('listAuditEntries', { query: { request_id: id, limit: '1' } });
  return data[0] ?? null;
}

/** Reasons for which another try now makes no sense. */
const untried: ReadonlySet<string> = new Set(['finished', 'being_sent', 'scheduled', 'held']);
const moving: ReadonlySet<string> = new Set(['queued', 'sent']);
/** States in which another address may help. */
const lost: ReadonlySet<string> = new Set(['bounced', 'failed', 'suppressed']);
const canMove: ReadonlySet<string> = new Set(['scheduled', 'queued', 'sent', 'deferred']);

/** Returns the part that is shown first: the source for a submitted mail that cannot be parsed, which has neither HTML nor text. */
function firstPart({ html, text, stored }: Content): string {
  if (html !== null) return 'html';
  return text === null && stored === 'mail' ? 'source' : 'text';
}

const MOST_LOOKED_UP = 10;

/** Looks up the suppressions of recipients, of all scopes. */
async function suppressionsOf(visit: Reader, message: MessageDetails): Promise<Suppression[]> {
  const asked = message.recipients.slice(0, MOST_LOOKED_UP);
  const found = await Promise.all(asked.map(({ email }) => visit.ask('listSuppressions', { query: { email } })));
  return found.flatMap(({ data }) => data);
}

/** Returns the entries for which a copy of the message would not be sent. */
const blockingOf = ({ stream, test }: MessageDetails, entries: readonly Suppression[]): readonly Suppression[] =>
  test ? [] : entries.filter(({ scope }) => scope === 'account' || scope === `stream:${stream}`);

/** Sends it again, to its recipients or to another address; with `lift`, takes its recipients off the suppression list first. */
async function resend(visit: Visit): Promise<Shown> {
  const { params, form } = visit;
  const to = fieldText(form, 'to');
  if (form.get('lift') !== null) await liftFor(visit, idOf(visit), form.get('force') !== null);
  const { id, status } = await visit.ask('resendMessage', { params, body: definedMembers({ to }) });
  const isStopped = status === 'suppressed';
  return move(
    `${WHERE}/${id}`,
    isStopped ? 'Nothing was sent: see why below.' : 'Sent again: this is the new message.',
  );
}

/** Takes the recipients of a message off the suppression list; returns how many entries it were. A complaint is lifted only with `force`. */
async function liftFor(visit: Visit, id: string, force: boolean): Promise<number> {
  const reader = { ...visit, params: { id } };
  const message = await visit.ask('getMessage', { params: { id } });
  const entries = blockingOf(message, await suppressionsOf(reader, message));
  for (const { email, scope } of entries) {
    const of = scope === 'account' ? { scope } : { stream: message.stream };
    const query = { ...of, force: force ? 'true' : null, note: `for ${id}` };
    await visit.ask('deleteSuppression', { params: { email }, query });
  }
  return entries.length;
}

/** Returns the head and the beginning of the body, as they are sent. */
async function sourceText(visit: Reader): Promise<string> {
  try {
    return (await bytesOf(visit, 'getMessageRaw')).toString('latin1', 0, SHOWN_CHARACTERS);
  } catch (error) {
    if (error instanceof Problem && error.code === 'invalid_state') return error.message;
    throw error;
  }
}

export async function bytesOf(
  visit: Pick<Visit, 'ask' | 'params'>,
  operation: 'getMessageRaw' | 'getMessageReport' | 'getReceivedRaw',
): Promise<Buffer> {
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

/** A link carries what it shows, sealed, so that nothing is stored. */
interface Sealed {
  message: string;
  account: string;
  /** Milliseconds since the epoch. */
  until: number;
}

/** Returns what a token shows; null if we did not make it, or it has ended. */
function sealedIn({ server: { keyring }, now }: Guest, token: string): Sealed | null {
  const text = openedOf(keyring, PURPOSE, token);
  if (text === null) return null;
  const sealed = JSON.parse(text.toString()) as Sealed;
  return sealed.until > now ? sealed : null;
}

async function share(visit: Visit): Promise<Shown> {
  const { id } = await visit.ask('getMessage', { params: visit.params });
  const { server, account, member, now } = visit;
  const sealed: Sealed = { message: id, account: account.id, until: now + SHARED_HOURS * HOUR_MS };
  const token = server.keyring.seal(PURPOSE, JSON.stringify(sealed));
  await server.db.commit.insert(actRows(visit, member.email, 'message.share', account.id, { object: id }));
  const link = `${server.config.http.publicUrl}/shared/${token}`;
  const message = `/messages/${id}`;
  return once('share', 'Link to a message', { link, hours: SHARED_HOURS, message }, message);
}

/** Shows the message as a member who only reads sees it: without its content, and without buttons. */
async function shared(guest: Guest): Promise<Shown> {
  const { db, inside } = guest.server;
  const found = sealedIn(guest, guest.params['token'] ?? '');
  const account = found === null ? null : await findAccount({ db }, found.account);
  if (found === null || account === null)
    throw new Problem(
      'not_found',
      'This link has ended, or is not whole. Ask the person who gave it to you for another.',
    );
  const asking: Asking = {
    caller: memberCaller({ id: '', email: 'shared link', role: 'read_only' }, account),
    ip: guest.ip,
    userAgent: guest.userAgent,
  };
  const reader: Reader = {
    ...guest,
    params: { id: found.message },
    query: new URLSearchParams(),
    isAdmin: false,
    may: () => false,
    // The type of the answer is made from the same declaration as its check.
    ask: async (id: string, asked = {}) => contentOf(await inside.ask(asking, id, asked)) as never,
  };
  return view('message', 'A message', { ...(await messageData(reader)), sharedUntil: found.until });
}
