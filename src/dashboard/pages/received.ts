/** Received mail: the list, and one mail in the sandboxed preview. */
import type { ReceivedMessage } from '../../client/types.ts';
import { filtersOf } from '../filters.ts';
import { pageOf, pagerOf } from '../links.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';
import { resource } from '../resource.ts';
import { bytesOf, htmlFile, mailFile, SHOWN_CHARACTERS } from './messages.ts';

const WHERE = '/messages/received';

export const receivedPages: readonly Page[] = [
  get(WHERE, list),
  ...resource({
    path: `${WHERE}/:id`,
    view: 'received-mail',
    title: ({ mail }) => mail.subject || 'A received mail',
    load: details,
  }),
  get(`${WHERE}/:id/html`, async (visit) =>
    htmlFile((await visit.ask('getReceived', { params: visit.params })).html ?? ''),
  ),
  get(`${WHERE}/:id/source`, async (visit) => mailFile(await bytesOf(visit, 'getReceivedRaw'), idOf(visit))),
  get(`${WHERE}/:id/files/:index`, file),
];

const idOf = ({ params }: Visit): string => params['id'] ?? '';

async function list(visit: Visit): Promise<Shown> {
  const { query } = visit;
  const { filters, given, isFiltered } = filtersOf(WHERE, query, [
    { name: 'domain', label: 'Domain', isFirst: true, most: 253 },
    { name: 'from', label: 'From', isFirst: true, type: 'email', most: 320 },
    { name: 'answers' },
  ]);
  const mails = await visit.ask('listReceived', { query: { ...given, ...pageOf(query) } });
  return view('received', 'Received mail', {
    rows: mails.data.map((mail) => ({ ...mail, author: authorOf(mail), verdict: mail.dmarc?.result })),
    filters,
    isFiltered,
    pager: pagerOf(WHERE, query, mails),
  });
}

const authorOf = ({ from, envelope }: ReceivedMessage): string => from?.email ?? envelope.from;

async function details(visit: Visit) {
  const mail = await visit.ask('getReceived', { params: visit.params });
  const mayRead = visit.may('message:content');
  const isUnread = mail.status !== 'read';
  return {
    mail,
    author: authorOf(mail),
    mayRead,
    text: mail.text?.slice(0, SHOWN_CHARACTERS),
    source:
      isUnread && mayRead ? (await bytesOf(visit, 'getReceivedRaw')).toString('latin1', 0, SHOWN_CHARACTERS) : null,
    here: `${WHERE}/${mail.id}`,
  };
}

/** A file always comes as a download: a stranger has made it. */
async function file(visit: Visit): Promise<Shown> {
  const { attachments } = await visit.ask('getReceived', { params: visit.params });
  const body = await visit.ask('getReceivedAttachment', { params: visit.params, accept: 'application/octet-stream' });
  const { filename } = attachments.find(({ index }) => String(index) === visit.params['index']) ?? { filename: '' };
  const type = 'application/octet-stream';
  return { kind: 'file', body, type, name: filename === '' ? 'file' : filename };
}
