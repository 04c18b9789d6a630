/** Shows the exact bytes of a mail; erases the content of a message, or a person. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { eraseContent, erasePerson } from '../messages/store/erase.ts';
import { rowsOfAnswer } from './answer-change.ts';
import type { ApiContext } from './context.ts';
import { messages } from './messages.ts';
import { exampleOf, route, type Call, type Reply, type Route } from './route.ts';
import { reachOf, requireMessage } from './test-mode.ts';

const LONGEST_ADDRESS = 1000;

type MessageCall = Call<{ id: string }, object, undefined>;

const raw = messages.at(
  'GET',
  '/v1/messages/{id}/raw',
  {
    operationId: 'getMessageRaw',
    description:
      'The exact bytes that go to the `to` recipient, header, signatures and body, as `message/rfc822`: they are the same at every attempt. Signed with the keys of now: after a rotation of DKIM keys the signatures of an old message differ from those it was sent with.',
    scope: ['message:content'],
    responses: {
      200: {
        description: 'The message.',
        types: ['message/rfc822'],
        examples: exampleOf(
          'The beginning of a message',
          'From: Acme <hi@acme.example>\r\nTo: ana@example.net\r\nSubject: Your order\r\n\r\n...',
        ),
      },
    },
    problems: ['invalid_state'],
  },
  async ({ params: { id }, caller }: MessageCall, context: ApiContext) => {
    const row = await requireMessage(context.db, caller, id);
    const [delivery] = await context.db.prepared.all<{ id: string }>(
      'SELECT id FROM deliveries WHERE message_id = ? AND lead = 1',
      [row.id],
    );
    const bytes = delivery === undefined ? null : await context.wireBytes(delivery.id);
    if (bytes === null || row.content_id === '')
      throw new Problem('invalid_state', 'The content of this message is not stored any more.');
    if (bytes.kind === 'none') throw new Problem('invalid_state', `There is no source of this message: ${bytes.why}.`);
    return { status: 200, bytes: Buffer.concat(bytes.data), type: 'message/rfc822' };
  },
);

const content = messages.at(
  'DELETE',
  '/v1/messages/{id}/content',
  {
    operationId: 'deleteMessageContent',
    description: 'Its html, text and attachments. The record of its delivery is kept. 409 while it still waits.',
    scope: ['message:delete'],
    says: 'erased the body of the message {object}',
    touches: 'mail',
    responses: { 204: { description: 'Erased.' } },
    problems: ['invalid_state'],
  },
  async (call: MessageCall, context: ApiContext) => {
    const row = await requireMessage(context.db, call.caller, call.params.id);
    const reply: Reply = { status: 204, body: null };
    await eraseContent(context, row, () => rowsOfAnswer(call, reply));
    return reply;
  },
);

const params = z.object({ email: z.string().max(LONGEST_ADDRESS).describe('The address, percent-encoded.') });

const person = (context: ApiContext): Route =>
  route(
    {
      method: 'DELETE',
      path: '/v1/recipients/{email}',
      operationId: 'deleteRecipient',
      description:
        'From all mail of the account: the address, subject, metadata and body of messages to them, replies of mail hosts, addresses and browsers of opens and clicks; and the mails that they have written. Mail to them that still waits is canceled. Numbers and the suppression list stay: without the entry there they would be mailed again. 404: nothing was ever sent to this address or came from it, or it is erased already.',
      tag: 'messages',
      scope: ['message:delete'],
      act: { says: 'erased a person from all mail', type: 'recipient', named: null },
      touches: 'mail',
      params,
      responses: { 204: { description: 'Erased.' } },
      problems: ['invalid_state'],
    },
    async (call) => {
      const reply: Reply = { status: 204, body: null };
      const deps = { ...context, recorder: context.change.recorder };
      const { recipients } = await erasePerson(deps, reachOf(call.caller), call.params.email, () =>
        rowsOfAnswer(call, reply),
      );
      if (recipients === 0) throw new Problem('not_found', 'Nothing was sent to this address.', { field: 'email' });
      return reply;
    },
  );

export const eraseOperations = [raw, content, person];
