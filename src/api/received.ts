/** `/v1/received`: mails that came to domains that receive. */
import { z } from 'zod';
import { Problem, notFound } from '../base/problem.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { soughtDomain } from '../mail/address.ts';
import {
  findReceived,
  listReceived,
  noBodies,
  receivedMembers,
  removeReceived,
  sourceOf,
} from '../messages/received/received-store.ts';
import { insertRows } from '../storage/rows.ts';
import type { ReceivedRow } from '../storage/tables.ts';
import { rowsOfAnswer, type Call, exampleOf, jsonResponse, mailReply, mailResponse, type Reply } from './route.ts';
import type { ApiContext, StoreContext } from './context.ts';
import { pageParameters } from './page.ts';
import { addressParameter, integerParameter, timeParameter } from './query.ts';
import { messageId, receivedId, ReceivedMessage } from './records.ts';
import { resource } from './resource.ts';
import { reachOf } from './test-mode.ts';

const PATH = '/v1/received';

const kind = resource({
  path: PATH,
  params: z.object({ id: receivedId() }),
  schema: ReceivedMessage,
  reads: 'message:read',
  changes: 'message:delete',
  type: 'received_message',
});

type ReceivedCall = Pick<Call<{ id: string }, object, undefined>, 'params' | 'caller'>;

const noMail = (): Problem => notFound('id', 'There is no such mail.');

/** Returns a mail within the caller's reach. Throws `not_found`. */
async function requireReceived({ db }: StoreContext, { caller, params }: ReceivedCall): Promise<ReceivedRow> {
  const row = await findReceived(db.prepared, reachOf(caller), params.id);
  if (row === undefined) throw noMail();
  return row;
}

async function requireSource(context: StoreContext, call: ReceivedCall): Promise<Buffer> {
  const row = await requireReceived(context, call);
  const source = await sourceOf(context.db.prepared, row.id);
  if (source === null) throw noMail();
  return source;
}

const list = kind.list(
  {
    operationId: 'listReceived',
    description: 'Mails that came to domains that receive, newest first, without text and html.',
    query: z.strictObject({
      ...pageParameters(),
      domain: z.string().max(253).optional().describe('The domain that they came to.'),
      from: addressParameter().optional().describe('Address of the author.'),
      answers: messageId().optional().describe('Id of our message that they answer.'),
      received_after: timeParameter().optional().describe('From this time on.'),
      received_before: timeParameter().optional().describe('Before this time.'),
    }),
  },
  async ({ limit, after, before }, { query, caller }, { db }) => {
    const { domain, from, answers, received_after, received_before } = query;
    const { rows, hasMore } = await listReceived(db.reader, {
      ...{ limit, after, before, answers },
      reach: reachOf(caller),
      domain: domain === undefined ? undefined : soughtDomain(domain),
      fromKey: from,
      from: received_after,
      until: received_before,
    });
    return { data: rows.map((row) => receivedMembers(row)), hasMore };
  },
);

const get = kind.get(
  {
    operationId: 'getReceived',
    description: 'Its text and html are null for a key without the scope `message:content`.',
    responses: { 200: jsonResponse('The mail.', ReceivedMessage, 'An answer') },
  },
  async (call, context) => {
    const row = await requireReceived(context, call);
    const mayRead = scopeAllows(call.caller.scopes, 'message:content');
    return receivedMembers(mayRead ? row : { ...row, ...noBodies });
  },
);

const raw = kind.read(
  {
    path: `${PATH}/{id}/raw`,
    operationId: 'getReceivedRaw',
    description: 'The mail octet for octet, as `message/rfc822`. Anyone may have written it.',
    scope: ['message:content'],
    responses: mailResponse(
      'The mail.',
      'The beginning of a mail',
      'From: Ana <ana@example.net>\r\nSubject: Re: Your order',
    ),
  },
  async (call, context) => mailReply(await requireSource(context, call)),
);

const remove = kind.remove(
  {
    operationId: 'deleteReceived',
    description: 'With its source and its event; webhook calls that wait for it are dropped.',
    says: 'erased the received mail {object}',
    touches: 'mail',
    responses: { 204: { description: 'Erased.' } },
    problems: ['invalid_state'],
  },
  async (call, context) => {
    const row = await requireReceived(context, call);
    if (row.status === 'new') throw new Problem('invalid_state', 'The mail is being read: ask again in a moment.');
    const reply: Reply = { status: 204, body: null };
    await context.db.commit.transact(async (tx) => {
      await removeReceived(tx, [row]);
      await insertRows(tx, [rowsOfAnswer(call, reply)]);
    });
    return reply;
  },
);

const file = kind.read(
  {
    path: `${PATH}/{id}/attachments/{index}`,
    operationId: 'getReceivedAttachment',
    description:
      'A file of the mail, decoded. It always comes as `application/octet-stream`, since a stranger has written its type.',
    scope: ['message:content'],
    params: z.object({ id: receivedId(), index: integerParameter(0, 99).describe('Its `index` in `attachments`.') }),
    responses: {
      200: {
        description: 'The file.',
        types: ['application/octet-stream'],
        headers: { 'Content-Disposition': 'Always `attachment`.' },
        examples: exampleOf('A text file', 'Thank you.'),
      },
    },
  },
  async (call, context: ApiContext) => {
    const found = await context.mailViewer.attachment(await requireSource(context, call), call.params.index);
    if (found === null) throw notFound('index', 'The mail has no such file: see its `attachments`.');
    return {
      status: 200,
      bytes: Buffer.from(found.buffer, found.byteOffset, found.byteLength),
      type: 'application/octet-stream',
      headers: { 'Content-Disposition': 'attachment' },
    };
  },
);

export const receivedReads = [list, get, raw, remove];
export const receivedFiles = [file];
