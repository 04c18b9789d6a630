/** `/v1/received`: mails that came to domains that receive. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
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
import type { MailViewer } from '../messages/store/mail-viewer.ts';
import type { Database } from '../storage/database.ts';
import { insertRows } from '../storage/rows.ts';
import type { ReceivedRow } from '../storage/tables.ts';
import { rowsOfAnswer } from './answer-change.ts';
import type { Cursors } from './cursor.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { addressParameter, integerParameter, timeParameter } from './query.ts';
import { receivedId, ReceivedMessage } from './received-schemas.ts';
import { messageId } from './records.ts';
import { type Call, exampleOf, jsonResponse, type Reply, route, type Route } from './route.ts';
import { reachOf } from './test-mode.ts';

export interface ReceivedReadDeps {
  db: Pick<Database, 'reader' | 'prepared' | 'commit'>;
  cursors: Cursors;
}

const PATH = '/v1/received';
const params = z.object({ id: receivedId() });

export const receivedReadRoutes = (deps: ReceivedReadDeps): Route[] => [
  listRoute(deps),
  readRoute(deps),
  rawRoute(deps),
  removeRoute(deps),
];

function listRoute({ db, cursors }: ReceivedReadDeps): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listReceived',
      description: 'Mails that came to domains that receive, newest first, without text and html.',
      scope: ['message:read'],
      query: z.strictObject({
        ...pageParameters(),
        domain: z.string().max(253).optional().describe('The domain that they came to.'),
        from: addressParameter().optional().describe('Address of the author.'),
        answers: messageId().optional().describe('Id of our message that they answer.'),
        received_after: timeParameter().optional().describe('From this time on.'),
        received_before: timeParameter().optional().describe('Before this time.'),
      }),
      responses: pageResponse(ReceivedMessage),
    },
    (call) =>
      answerPage(cursors, PATH, call, async ({ limit, after, before }) => {
        const { domain, from, answers, received_after, received_before } = call.query;
        const { rows, hasMore } = await listReceived(db.reader, {
          ...{ limit, after, before, answers },
          reach: reachOf(call.caller),
          domain: domain === undefined ? undefined : soughtDomain(domain),
          fromKey: from,
          from: received_after,
          until: received_before,
        });
        return { data: rows.map((row) => receivedMembers(row)), hasMore };
      }),
  );
}

/** Returns a mail within the caller's reach. Throws `not_found`. */
async function requireReceived(
  { db }: ReceivedReadDeps | ReceivedFileDeps,
  caller: Caller,
  id: string,
): Promise<ReceivedRow> {
  const row = await findReceived(db.prepared, reachOf(caller), id);
  if (row === undefined) throw new Problem('not_found', 'There is no such mail.', { field: 'id' });
  return row;
}

async function requireSource(deps: ReceivedReadDeps | ReceivedFileDeps, caller: Caller, id: string): Promise<Buffer> {
  const row = await requireReceived(deps, caller, id);
  const source = await sourceOf(deps.db.prepared, row.id);
  if (source === null) throw new Problem('not_found', 'There is no such mail.', { field: 'id' });
  return source;
}

function readRoute(deps: ReceivedReadDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}`,
      operationId: 'getReceived',
      description: 'Its text and html are null for a key without the scope `message:content`.',
      scope: ['message:read'],
      params,
      responses: { 200: jsonResponse('The mail.', ReceivedMessage, 'An answer') },
    },
    async ({ params: { id }, caller }) => {
      const row = await requireReceived(deps, caller, id);
      const mayRead = scopeAllows(caller.scopes, 'message:content');
      return { status: 200, body: receivedMembers(mayRead ? row : { ...row, ...noBodies }) };
    },
  );
}

function rawRoute(deps: ReceivedReadDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}/raw`,
      operationId: 'getReceivedRaw',
      description: 'The mail octet for octet, as `message/rfc822`. Anyone may have written it.',
      scope: ['message:content'],
      params,
      responses: {
        200: {
          description: 'The mail.',
          types: ['message/rfc822'],
          examples: exampleOf(
            'The beginning of a mail',
            'From: Ana <ana@example.net>\r\nSubject: Re: Your order\r\n\r\n...',
          ),
        },
      },
    },
    async ({ params: { id }, caller }) => ({
      status: 200,
      bytes: await requireSource(deps, caller, id),
      type: 'message/rfc822',
    }),
  );
}

function removeRoute(deps: ReceivedReadDeps): Route {
  return route(
    {
      method: 'DELETE',
      path: `${PATH}/{id}`,
      operationId: 'deleteReceived',
      description: 'With its source and its event; webhook calls that wait for it are dropped.',
      scope: ['message:delete'],
      act: { says: 'erased the received mail {object}', type: 'received_message' },
      touches: 'mail',
      params,
      responses: { 204: { description: 'Erased.' } },
      problems: ['invalid_state'],
    },
    async (call) => {
      const row = await requireReceived(deps, call.caller, call.params.id);
      if (row.status === 'new') throw new Problem('invalid_state', 'The mail is being read: ask again in a moment.');
      const reply: Reply = { status: 204, body: null };
      await deps.db.commit.transact(async (tx) => {
        await removeReceived(tx, [row]);
        await insertRows(tx, [rowsOfAnswer(call, reply)]);
      });
      return reply;
    },
  );
}

export interface ReceivedFileDeps {
  db: Pick<Database, 'prepared'>;
  mailViewer: MailViewer;
}

export function receivedFileRoute(deps: ReceivedFileDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}/attachments/{index}`,
      operationId: 'getReceivedAttachment',
      description:
        'A file of the mail, decoded. It always comes as `application/octet-stream`, since a stranger has written its type.',
      scope: ['message:content'],
      params: z.object({
        id: receivedId(),
        index: integerParameter(0, 99).describe('Its `index` in `attachments`.'),
      }),
      responses: {
        200: {
          description: 'The file.',
          types: ['application/octet-stream'],
          headers: { 'Content-Disposition': 'Always `attachment`.' },
          examples: exampleOf('A text file', 'Thank you.'),
        },
      },
    },
    async ({ params: { id, index }, caller }: Call<{ id: string; index: number }, object, undefined>) => {
      const source = await requireSource(deps, caller, id);
      const file = await deps.mailViewer.attachment(source, index);
      if (file === null)
        throw new Problem('not_found', 'The mail has no such file: see its `attachments`.', { field: 'index' });
      return {
        status: 200,
        bytes: Buffer.from(file.buffer, file.byteOffset, file.byteLength),
        type: 'application/octet-stream',
        headers: { 'Content-Disposition': 'attachment' },
      };
    },
  );
}
