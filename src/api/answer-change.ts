/** Commits what a change of the API must have with it: the idempotency record of its answer, and its row in the audit log. */
import type { Rows, RowsFor } from '../storage/rows.ts';
import type { Call, Reply } from './route.ts';

type CallWithRows = Pick<Call<unknown, unknown, unknown>, 'idempotencyRow' | 'auditRow'>;

/** Returns the rows for this answer. The caller writes them with its work: the middleware then does not write them again. */
export function rowsOfAnswer(call: CallWithRows, reply: Reply): Rows {
  const idempotency = call.idempotencyRow(reply);
  return { audit: [call.auditRow(reply)], ...(idempotency === null ? {} : { idempotency: [idempotency] }) };
}

/**
 * Performs a change and returns its answer. `change` gives what was changed to `rowsFor` inside its transaction and writes the rows
 * that it gets back; it throws if nothing was changed.
 */
export async function answerChange<Changed>(
  call: CallWithRows,
  replyOf: (changed: Changed) => Reply,
  change: (rowsFor: RowsFor<Changed>) => Promise<unknown>,
): Promise<Reply> {
  const made: { reply: Reply | null } = { reply: null };
  await change((changed) => {
    made.reply = replyOf(changed);
    return rowsOfAnswer(call, made.reply);
  });
  if (made.reply === null) throw new Error('a change was committed without its answer');
  return made.reply;
}

/** Makes the answer to the creation of an object below `path`. */
export const created =
  <Made>(path: string, record: (made: Made) => { id: string }) =>
  (made: Made): Reply => {
    const body = record(made);
    return { status: 201, body, headers: { Location: `${path}/${body.id}` } };
  };

export const updated =
  <Changed>(record: (changed: Changed) => object, before?: object) =>
  (changed: Changed): Reply => ({ status: 200, body: record(changed), ...(before === undefined ? {} : { before }) });

export const removed =
  <Removed>(record: (row: Removed) => object) =>
  (row: Removed): Reply => ({ status: 204, body: null, before: record(row) });
