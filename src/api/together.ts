/** What a write of the API must commit with its work: the idempotency record of its answer, and its line in the audit log. */
import type { Rows } from '../storage/rows.ts';
import type { Call, Reply } from './route.ts';

/** The rows for this answer. Who calls it writes them: the shell then does not. */
export function rowsOfAnswer(
  call: Pick<Call<unknown, unknown, unknown>, 'idempotencyRow' | 'auditRow'>,
  reply: Reply,
): Rows {
  const idempotency = call.idempotencyRow(reply);
  return { audit: [call.auditRow(reply)], ...(idempotency === null ? {} : { idempotency: [idempotency] }) };
}

/** An answer that is made of what the change has left behind, inside its transaction, and given when that is committed. */
interface Answered<Changed> {
  together: (changed: Changed) => Rows;
  /** Throws where nothing was changed. */
  reply: () => Reply;
}

/** 200 with the record of what was changed. */
export function answerWith<Changed>(
  call: Parameters<typeof rowsOfAnswer>[0],
  recordOf: (changed: Changed) => object,
  before?: object,
): Answered<Changed> {
  let made: Reply | null = null;
  return {
    together: (changed) => {
      made = { status: 200, body: recordOf(changed), ...(before === undefined ? {} : { before }) };
      return rowsOfAnswer(call, made);
    },
    reply: () => {
      if (made === null) throw new Error('something was changed without an answer');
      return made;
    },
  };
}
