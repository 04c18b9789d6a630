/** `/v1/batches`: bulk sends, with their messages by status. */
import { z } from 'zod';
import { Problem, notFound } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import { batchCounts, cancelBatch, type StatusCounts } from '../messages/delivery/change-message.ts';
import { readPage } from '../storage/page.ts';
import { recordOf } from '../storage/record.ts';
import { batches, deliveryStatuses, type BatchRow } from '../storage/tables.ts';
import { answerChange, updated, jsonResponse } from './route.ts';
import type { ApiContext, StoreContext } from './context.ts';
import { recordSchema, sampleOf } from './record-schema.ts';
import { batchId } from './records.ts';
import { resource } from './resource.ts';
import { reachOf } from './test-mode.ts';

const noCounts = Object.fromEntries(deliveryStatuses.map((status) => [status, 0]));
const batchMembers = recordOf('batch', batches);
const BatchStatus = recordSchema(
  batchMembers,
  { id: 'BatchStatus', description: 'A bulk send, with its messages by status.' },
  { id: batchId(), counts: z.record(z.string(), z.int()) },
);
const counted = {
  200: jsonResponse('The batch.', BatchStatus, 'A bulk send', {
    ...sampleOf(BatchStatus),
    counts: { ...noCounts, delivered: 1 },
  }),
};

const kind = resource({
  path: '/v1/batches',
  params: z.object({ id: batchId() }),
  schema: BatchStatus,
  reads: 'campaign:read',
  changes: 'message:cancel',
  type: 'batch',
  audited: ['counts'],
});

async function batchOf({ db }: Pick<StoreContext, 'db'>, caller: Caller, id: string): Promise<BatchRow> {
  const { accountId, onlyTest } = reachOf(caller);
  const [row] = await db.prepared.all<BatchRow>('SELECT * FROM batches WHERE id = ? AND account_id = ?', [
    id,
    accountId,
  ]);
  if (row === undefined || (onlyTest && row.test === 0)) throw notFound('id', 'There is no such batch.');
  return row;
}

function batchStatus(row: BatchRow, found: StatusCounts) {
  const counts = { ...noCounts, ...Object.fromEntries(found.map(({ status, n }) => [status, n])) };
  return batchMembers(row, { counts });
}

const list = kind.list(
  { operationId: 'listBatches', description: 'Newest first, without counts.' },
  async (wanted, call, { db }) => {
    const asked = db.reader<BatchRow>('batches').where({ account_id: wanted.accountId });
    if (reachOf(call.caller).onlyTest) asked.andWhere({ test: 1 });
    const { rows, hasMore } = await readPage<BatchRow>(asked, wanted);
    return { data: rows.map((row) => batchMembers(row, { counts: null })), hasMore };
  },
);

const get = kind.get(
  { operationId: 'getBatch', description: 'With its messages counted by status.', responses: counted },
  async ({ params: { id }, caller }, { db }) => {
    const row = await batchOf({ db }, caller, id);
    return batchStatus(row, await batchCounts(db.prepared, row.id));
  },
);

const cancel = kind.post(
  {
    path: '/v1/batches/{id}/cancel',
    operationId: 'cancelBatch',
    description:
      'Cancels its messages that have not been sent yet. Messages being sent right now and finished ones are unchanged.',
    says: 'canceled the bulk send {object}',
    touches: 'mail',
    responses: counted,
    problems: ['invalid_state'],
  },
  async (call, context: ApiContext) => {
    const row = await batchOf(context, call.caller, call.params.id);
    const record = (counts: StatusCounts) => batchStatus(row, counts);
    return answerChange(call, updated(record), async (rowsFor) => {
      if ((await cancelBatch(context, row.id, rowsFor)) === 0)
        throw new Problem('invalid_state', 'No message of this batch can be canceled any more.');
    });
  },
);

export const batchOperations = [list, get, cancel];
