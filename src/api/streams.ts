/** `/v1/streams`: kinds of mail that are handled separately. */
import { z } from 'zod';
import { addStream, pageOfStreams, removeStream, updateStream } from '../accounts/stream-store.ts';
import { recordOf } from '../storage/record.ts';
import { streams, type StreamRow } from '../storage/tables.ts';
import { answerChange, created, removed, updated, refOf } from './route.ts';
import type { ApiContext } from './context.ts';
import { namedRequest, recordSchema } from './record-schema.ts';
import { resource } from './resource.ts';

const PATH = '/v1/streams';
const SLUG_SAYS = 'must be lower-case letters, digits and hyphens, a letter first, at most 32 characters';

const streamRecord = recordOf('stream', streams);

const kind = resource({
  path: PATH,
  params: z.object({ id: z.string().max(64).describe('Id of the stream.') }),
  schema: recordSchema(streamRecord, { id: 'Stream', description: 'A kind of mail that is handled separately.' }),
  reads: 'stream:read',
  changes: 'stream',
  type: 'stream',
  named: 'slug',
  audited: streamRecord.audited,
});

const slug = (says: string) =>
  z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,31}$/, SLUG_SAYS)
    .describe(says);
const name = z.string().min(1).max(100).describe('For people.');
const more = {
  pool: slug('Name of the sources it is sent from; the default pool if the server has none of that name.').optional(),
  priority: z.int().min(0).max(1).optional().describe('0 goes first; 1 gets every fifth turn while mail of 0 waits.'),
};

const storeOf = (context: ApiContext) => ({ ...context, changed: context.changes.streamChanged });

const list = kind.list(
  {
    operationId: 'listStreams',
    description: 'Oldest first. Two are there from the start: `transactional` and `broadcast`.',
  },
  async (wanted, _, { db }) => {
    const { rows, hasMore } = await pageOfStreams({ db }, wanted);
    return { data: rows.map(streamRecord), hasMore };
  },
);

const create = kind.create(
  {
    operationId: 'createStream',
    description: 'Mail names it by its slug. Suppressions can be for one stream alone.',
    says: 'created the stream {slug}',
    body: namedRequest('NewStream', 'A stream to create.', {
      slug: slug('Name of the stream in a send request: lower-case letters, digits and hyphens.'),
      name,
      type: z
        .enum(['transactional', 'broadcast'])
        .describe('Recipients can unsubscribe from mail of a `broadcast` stream.'),
      ...more,
    }),
    bodyExamples: {
      news: { summary: 'A newsletter', value: { slug: 'news', name: 'Newsletter', type: 'broadcast' } },
    },
    problems: ['already_exists', 'invalid_state'],
  },
  (call, context: ApiContext) =>
    answerChange(call, created(PATH, streamRecord), (rowsFor) =>
      addStream(storeOf(context), { accountId: call.caller.accountId, ...call.body }, rowsFor),
    ),
);

const update = kind.update(
  {
    operationId: 'updateStream',
    description:
      'Priority is for mail accepted from then on, the pool for all that has not left yet. While a stream is paused, sends to it are refused with `sending_paused` and what waits is held; its time until it is given up is not extended.',
    says: 'changed the stream {slug}',
    body: namedRequest('StreamChanges', 'The members to change; all others stay the same.', {
      name: name.optional(),
      ...more,
      paused: z.boolean().optional().describe('While it is, nothing is accepted for it and what waits is held.'),
    }),
    bodyExamples: { pause: { summary: 'Pause it', value: { paused: true } } },
  },
  async (call, context: ApiContext) => {
    const { accountId, id } = refOf(call);
    const [row] = await context.db.reader<StreamRow>('streams').where({ account_id: accountId, id });
    // Without one the change itself is refused.
    const before = row && streamRecord(row);
    return answerChange(call, updated(streamRecord, before), (rowsFor) =>
      updateStream(storeOf(context), refOf(call), call.body, rowsFor),
    );
  },
);

const remove = kind.remove(
  {
    operationId: 'deleteStream',
    description: 'Refused for the two that every account has, and while mail waits in it. Sent mail keeps its name.',
    says: 'removed the stream {slug}',
    problems: ['invalid_state'],
  },
  (call, context: ApiContext) =>
    answerChange(call, removed(streamRecord), (rowsFor) => removeStream(storeOf(context), refOf(call), rowsFor)),
);

export const streamOperations = [list, create, update, remove];
