/** `/v1/batches`: bulk sends, with their messages by status. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import { batchCounts, cancelBatch, type ChangeDeps, type StatusCounts } from '../messages/delivery/change-message.ts';
import type { Database } from '../storage/database.ts';
import { readPage } from '../storage/page.ts';
import { recordOf } from '../storage/record.ts';
import { batches, deliveryStatuses, type BatchRow } from '../storage/tables.ts';
import { answerChange } from './answer-change.ts';
import type { Cursors } from './cursor.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { recordSchema, sampleOf } from './record-schema.ts';
import { batchId } from './records.ts';
import { jsonResponse, type Reply, route, type Route } from './route.ts';
import { reachOf } from './test-mode.ts';

export interface BatchesDeps {
  db: Pick<Database, 'reader' | 'prepared'>;
  cursors: Cursors;
  change: ChangeDeps;
}

export function batchRoutes(deps: BatchesDeps): Route[] {
  return [listRoute(deps), readRoute(deps), cancelRoute(deps)];
}

const noCounts = Object.fromEntries(deliveryStatuses.map((status) => [status, 0]));
const batchMembers = recordOf('batch', batches);
const BatchStatus = recordSchema(
  batchMembers,
  { id: 'BatchStatus', description: 'A bulk send, with its messages by status.' },
  { id: batchId(), counts: z.record(z.string(), z.int()) },
);
const counted = { ...sampleOf(BatchStatus), counts: { ...noCounts, delivered: 1 } };

const PATH = '/v1/batches';
const params = z.object({ id: batchId() });

async function batchOf({ db }: BatchesDeps, caller: Caller, id: string): Promise<BatchRow> {
  const { accountId, onlyTest } = reachOf(caller);
  const [row] = await db.prepared.all<BatchRow>('SELECT * FROM batches WHERE id = ? AND account_id = ?', [
    id,
    accountId,
  ]);
  if (row === undefined || (onlyTest && row.test === 0))
    throw new Problem('not_found', 'There is no such batch.', { field: 'id' });
  return row;
}

function batchStatus(row: BatchRow, found: StatusCounts) {
  const counts = { ...noCounts, ...Object.fromEntries(found.map(({ status, n }) => [status, n])) };
  return batchMembers(row, { counts });
}

function listRoute({ db, cursors }: BatchesDeps): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listBatches',
      description: 'Newest first, without counts.',
      scope: ['campaign:read'],
      query: z.strictObject(pageParameters()),
      responses: pageResponse('A page of batches.', BatchStatus, 'One bulk send'),
    },
    (call) =>
      answerPage(cursors, PATH, call, async (wanted) => {
        const asked = db.reader<BatchRow>('batches').where({ account_id: wanted.accountId });
        if (reachOf(call.caller).onlyTest) asked.andWhere({ test: 1 });
        const { rows, hasMore } = await readPage<BatchRow>(asked, wanted);
        return { data: rows.map((row) => batchMembers(row, { counts: null })), hasMore };
      }),
  );
}

function readRoute(deps: BatchesDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}`,
      operationId: 'getBatch',
      description: 'With its messages counted by status.',
      scope: ['campaign:read'],
      params: params,
      responses: {
        200: jsonResponse('The batch.', BatchStatus, 'A bulk send', counted),
      },
    },
    async ({ params: { id }, caller }) => {
      const row = await batchOf(deps, caller, id);
      return { status: 200, body: batchStatus(row, await batchCounts(deps.db.prepared, row.id)) };
    },
  );
}

function cancelRoute(deps: BatchesDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/cancel`,
      operationId: 'cancelBatch',
      description:
        'Cancels its messages that have not been sent yet. Messages being sent right now and finished ones are unchanged.',
      scope: ['message:cancel'],
      act: { says: 'canceled the bulk send {object}', type: 'batch', keeps: ['counts'] },
      touches: 'mail',
      params: params,
      responses: {
        200: jsonResponse('The batch.', BatchStatus, 'A bulk send', counted),
      },
      problems: ['invalid_state'],
    },
    async (call) => {
      const row = await batchOf(deps, call.caller, call.params.id);
      const replyOf = (counts: StatusCounts): Reply => ({ status: 200, body: batchStatus(row, counts) });
      return answerChange(call, replyOf, async (rowsFor) => {
        if ((await cancelBatch(deps.change, row.id, rowsFor)) === 0)
          throw new Problem('invalid_state', 'No message of this batch can be canceled any more.');
      });
    },
  );
}
