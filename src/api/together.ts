/** What a write of the API must commit with its work: the idempotency record of its answer, and its line in the audit log. */
import type { Rows } from '../storage/rows.ts';
import type { Call, Reply } from './route.ts';

/** The rows for this answer. Who calls it writes them: the shell then does not. */
export function rowsOfAnswer(
  call: Pick<Call<unknown, unknown, unknown>, 'idempotencyRow' | 'auditRow'>,
  reply: Reply,
): Rows {
  const idempotency = call.idempotencyRow(reply);
  return { audit: [call.auditRow(reply.status)], ...(idempotency === null ? {} : { idempotency: [idempotency] }) };
}
