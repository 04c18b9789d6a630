/** Operations that explain a message of any account: its past, and what it waits for. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { allEventTypes, eventRecord } from '../events/event.ts';
import { eventsBefore } from '../events/event-log.ts';
import { reasonsOf } from '../messages/list/message-reasons.ts';
import { messageRecord, type MessageRecord } from '../messages/store/message.ts';
import {
  attemptsOf,
  findAnyMessage,
  recipientsOf,
  type AttemptRecord,
  type RecipientRecord,
} from '../messages/store/message-store.ts';
import type { EventRecord } from '../client/types.ts';
import { whyWaiting, type Waiting } from '../messages/delivery/why.ts';
import { serverRoute, storeRoute, type OperatorDeps, type StoreDeps } from './server-route.ts';
import { trace } from './trace.ts';

/** A mail is tried 24 times in its 72 hours; with fifty recipients this shows all of it. */
const TRACED = 2000;

export interface WholeMessage extends MessageRecord {
  request_id: string | null;
  recipients: RecipientRecord[];
  attempts: AttemptRecord[];
  events: EventRecord[];
}

const idArgument = z.strictObject({ id: z.string().max(100) });

export const messageOperations = {
  /** Returns the events of its life in the order of time, in words. */
  'messages.trace': storeRoute({
    body: idArgument,
    async run(deps, { id }) {
      const lines = trace(await wholeMessage(deps, id), isServer(deps) ? await whyOf(deps, id) : []);
      return { data: lines.map((line) => ({ ...line, message_id: id })) };
    },
  }),
  /** Returns what each recipient waits for, and until when. */
  'messages.why': serverRoute({
    body: idArgument,
    async run(deps, { id }) {
      return { object: 'why' as const, message_id: id, recipients: await whyOf(deps, id) };
    },
  }),
};

async function wholeMessage({ db }: Pick<StoreDeps, 'db'>, id: string): Promise<WholeMessage> {
  const row = await findAnyMessage(db.reader, id);
  if (row === undefined) throw notThere(id);
  const filter = { accountId: row.account_id, messageId: id, types: allEventTypes };
  const [recipients, attempts, { events }, reasons] = await Promise.all([
    recipientsOf(db.reader, id, { limit: TRACED }),
    attemptsOf(db.reader, id, TRACED),
    eventsBefore(db.reader, filter, Number.MAX_SAFE_INTEGER, TRACED),
    reasonsOf(db.reader, [row]),
  ]);
  return {
    ...messageRecord(row, reasons.get(id)),
    request_id: row.request_id,
    recipients,
    attempts,
    // The operator sees opens and clicks as well.
    events: events.map((one) => eventRecord(one, { engagement: true }) as unknown as EventRecord),
  };
}

/** Returns whether these are the server's: without a server, the reason why mail waits is unknown. */
const isServer = (deps: StoreDeps): deps is OperatorDeps => 'mta' in deps;

async function whyOf({ db, clock, holds, laneFacts }: OperatorDeps, id: string): Promise<Waiting[]> {
  const row = await findAnyMessage(db.reader, id);
  if (row === undefined) throw notThere(id);
  return await whyWaiting({ db, holdOf: holds.of, laneFacts }, row, clock.now());
}

/** Returns the account of the message that an operation names in `message_id`. Throws `not_found`. */
export async function accountOfMessage({ db }: Pick<StoreDeps, 'db'>, id: string): Promise<string> {
  const row = (await db.reader('messages').select('account_id').where({ id }).first()) as
    { account_id: string } | undefined;
  if (row === undefined) throw notThere(id, 'message_id');
  return row.account_id;
}

const notThere = (id: string, field = 'id'): Problem =>
  new Problem('not_found', `there is no message ${JSON.stringify(id)}`, { field });
