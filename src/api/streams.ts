/** `/v1/streams`: kinds of mail that are handled separately. */
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { addStream, pageOfStreams, removeStream, updateStream } from '../accounts/stream-store.ts';
import type { Database } from '../storage/database.ts';
import { recordOf } from '../storage/record.ts';
import { streams, type StreamRow } from '../storage/tables.ts';
import type { ChangeNotices } from './change-notices.ts';
import type { Cursors } from './cursor.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { recordSchema } from './record-schema.ts';
import { jsonResponse, refOf, type Reply, route, type Route } from './route.ts';
import { answerChange, createdReply } from './answer-change.ts';

export interface StreamsDeps {
  db: Pick<Database, 'commit' | 'reader'>;
  clock: Clock;
  cursors: Cursors;
  changes: Pick<ChangeNotices, 'streamChanged'>;
}

const PATH = '/v1/streams';
const slugForm = /^[a-z][a-z0-9-]{0,31}$/;
const SLUG_SAYS = 'must be lower-case letters, digits and hyphens, a letter first, at most 32 characters';

const streamRecord = recordOf('stream', streams);
const Stream = recordSchema(streamRecord, { id: 'Stream', description: 'A kind of mail that is handled separately.' });

const name = () => z.string().min(1).max(100).describe('For people.');
const pool = () =>
  z
    .string()
    .regex(slugForm, SLUG_SAYS)
    .describe('Name of the sources it is sent from; the default pool if the server has none of that name.');
const priority = () => z.int().min(0).max(1).describe('0 goes first; 1 gets every fifth turn while mail of 0 waits.');

const params = z.object({ id: z.string().max(64).describe('Id of the stream.') });

const answer = (description: string) => jsonResponse(description, Stream, 'A stream');

export function streamRoutes(deps: StreamsDeps): Route[] {
  return [listRoute(deps), addRoute(deps), changeRoute(deps), removeRoute(deps)];
}

const storeOf = (deps: StreamsDeps) => ({ ...deps, changed: deps.changes.streamChanged });

function listRoute({ db, cursors }: StreamsDeps): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listStreams',
      description: 'Oldest first. Two are there from the start: `transactional` and `broadcast`.',
      scope: ['stream:read'],
      query: z.strictObject(pageParameters()),
      responses: pageResponse('A page of streams.', Stream, 'One stream'),
    },
    (call) =>
      answerPage(cursors, PATH, call, async (wanted) => {
        const { rows, hasMore } = await pageOfStreams({ db }, wanted);
        return { data: rows.map(streamRecord), hasMore };
      }),
  );
}

function addRoute(deps: StreamsDeps): Route {
  return route(
    {
      method: 'POST',
      path: PATH,
      operationId: 'createStream',
      description: 'Mail names it by its slug. Suppressions can be for one stream alone.',
      scope: ['stream'],
      act: { says: 'created the stream {slug}', type: 'stream', named: 'slug', keeps: streamRecord.audited },
      body: z
        .strictObject({
          slug: z
            .string()
            .regex(slugForm, SLUG_SAYS)
            .describe('Name of the stream in a send request: lower-case letters, digits and hyphens.'),
          name: name(),
          type: z
            .enum(['transactional', 'broadcast'])
            .describe('Recipients can unsubscribe from mail of a `broadcast` stream.'),
          pool: pool().optional(),
          priority: priority().optional(),
        })
        .meta({ id: 'NewStream', description: 'A stream to create.' }),
      bodyExamples: {
        news: { summary: 'A newsletter', value: { slug: 'news', name: 'Newsletter', type: 'broadcast' } },
      },
      responses: { 201: { ...answer('The new stream.'), headers: { Location: 'Path of the stream.' } } },
      problems: ['already_exists', 'invalid_state'],
    },
    async (call) => {
      const replyOf = (row: StreamRow): Reply => createdReply(PATH, streamRecord(row));
      const added = { accountId: call.caller.accountId, ...call.body };
      return answerChange(call, replyOf, (rowsFor) => addStream(storeOf(deps), added, rowsFor));
    },
  );
}

function changeRoute(deps: StreamsDeps): Route {
  return route(
    {
      method: 'PATCH',
      path: `${PATH}/{id}`,
      operationId: 'updateStream',
      description:
        'Priority is for mail accepted from then on, the pool for all that has not left yet. While a stream is paused, sends to it are refused with `sending_paused` and what waits is held; its time until it is given up is not extended.',
      scope: ['stream'],
      act: { says: 'changed the stream {slug}', type: 'stream', named: 'slug', keeps: streamRecord.audited },
      params,
      body: z
        .strictObject({
          name: name().optional(),
          pool: pool().optional(),
          priority: priority().optional(),
          paused: z.boolean().optional().describe('While it is, nothing is accepted for it and what waits is held.'),
        })
        .meta({ id: 'StreamChanges', description: 'The members to change; all others stay the same.' }),
      bodyExamples: { pause: { summary: 'Pause it', value: { paused: true } } },
      responses: { 200: answer('The stream as it is now.') },
    },
    async (call) => {
      const before = await recordBefore(deps, refOf(call));
      const replyOf = (row: StreamRow): Reply => ({ status: 200, body: streamRecord(row), ...before });
      return answerChange(call, replyOf, (rowsFor) => updateStream(storeOf(deps), refOf(call), call.body, rowsFor));
    },
  );
}

function removeRoute(deps: StreamsDeps): Route {
  return route(
    {
      method: 'DELETE',
      path: `${PATH}/{id}`,
      operationId: 'deleteStream',
      description: 'Refused for the two that every account has, and while mail waits in it. Sent mail keeps its name.',
      scope: ['stream'],
      act: { says: 'removed the stream {slug}', type: 'stream', named: 'slug', keeps: streamRecord.audited },
      params,
      responses: { 204: { description: 'Removed.' } },
      problems: ['invalid_state'],
    },
    async (call) => {
      const replyOf = (row: StreamRow): Reply => ({ status: 204, body: null, before: streamRecord(row) });
      return answerChange(call, replyOf, (rowsFor) => removeStream(storeOf(deps), refOf(call), rowsFor));
    },
  );
}

/** Reads the stream before a change, for the audit; empty if there is none, which the change itself refuses. */
async function recordBefore(
  { db }: Pick<StreamsDeps, 'db'>,
  { accountId, id }: ReturnType<typeof refOf>,
): Promise<{ before?: object }> {
  const [row] = await db.reader<StreamRow>('streams').where({ account_id: accountId, id });
  return row === undefined ? {} : { before: streamRecord(row) };
}
