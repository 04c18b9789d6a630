/** Operations that show messages. The operator is above accounts: ids are enough. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { allEventTypes } from '../events/event.ts';
import { eventsBefore } from '../events/event-log.ts';
import { messageRecord, type MessageRecord } from '../messages/store/message.ts';
import { listMessages } from '../messages/list/message-list.ts';
import {
  attemptsOf,
  findAnyMessage,
  recipientsOf,
  type AttemptRecord,
  type RecipientRecord,
} from '../messages/store/message-store.ts';
import { deliveryStatuses, type MessageRow } from '../storage/tables.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { toEventRecord, type EventRecord } from './events.ts';
import { whyWaiting, type Waiting } from '../messages/delivery/why.ts';
import { onServer, onStore, type OperatorDeps, type StoreDeps } from './operation.ts';
import { trace } from './trace.ts';

export const statusArgument = z.array(z.enum(deliveryStatuses)).max(deliveryStatuses.length).optional();

/** As the API's record of one message has it. */
const SHOWN = 20;
/** A mail is tried 24 times in its 72 hours; with fifty recipients this shows all of it. */
const TRACED = 2000;

export interface WholeMessage extends MessageRecord {
  /** Of the request that it came with. */
  request_id: string | null;
  recipients: RecipientRecord[];
  attempts: AttemptRecord[];
  events: EventRecord[];
}

const idArgument = z.strictObject({ id: z.string().max(100) });

export const messageOperations = {
  'messages.show': onStore({
    acts: false,
    args: idArgument,
    run: (deps, { id }) => wholeMessage(deps, id, SHOWN),
  }),
  /** What became of it in the order of time, in words. */
  'messages.trace': onStore({
    acts: false,
    args: idArgument,
    async run(deps, { id }) {
      const message = await wholeMessage(deps, id, TRACED);
      return { data: trace(message, isServer(deps) ? await whyOf(deps, id) : []) };
    },
  }),
  /** What each recipient waits for, and until when. */
  'messages.why': onServer({
    acts: false,
    args: idArgument,
    async run(deps, { id }) {
      return { object: 'why' as const, message_id: id, recipients: await whyOf(deps, id) };
    },
  }),
  /** Newest first. */
  'messages.list': onStore({
    acts: false,
    args: z.strictObject({
      account: accountArgument,
      status: statusArgument,
      from: z.string().max(1000).optional(),
      to: z.string().max(1000).optional(),
      limit: z.int().min(1).max(1000).optional(),
    }),
    async run({ db }, { account, status, from, to, limit = 50 }) {
      const { id: accountId } = await accountNamed({ db }, account);
      const filter = {
        accountId,
        ...(status === undefined ? {} : { status }),
        ...(from === undefined ? {} : { from }),
        ...(to === undefined ? {} : { to }),
      };
      const messages: MessageRow[] = [];
      let after: string | null = null;
      let hasMore = true;
      // A page may come short before the list ends.
      while (hasMore && messages.length < limit) {
        const wanted = { newestFirst: true, limit: limit - messages.length, ...(after === null ? {} : { after }) };
        const page = await listMessages(db.reader, filter, wanted);
        messages.push(...page.messages);
        ({ hasMore, last: after } = page);
      }
      return { data: messages.map(messageRecord), has_more: hasMore };
    },
  }),
};

async function wholeMessage({ db }: Pick<StoreDeps, 'db'>, id: string, shown: number): Promise<WholeMessage> {
  const row = await findAnyMessage(db.reader, id);
  if (row === undefined) throw notThere(id);
  const filter = { accountId: row.account_id, messageId: id, types: allEventTypes };
  const [recipients, attempts, { events }] = await Promise.all([
    recipientsOf(db.reader, id, shown),
    attemptsOf(db.reader, id, shown),
    eventsBefore(db.reader, filter, Number.MAX_SAFE_INTEGER, shown),
  ]);
  return { ...messageRecord(row), request_id: row.request_id, recipients, attempts, events: events.map(toEventRecord) };
}

/** The command line may ask without a server: then nobody knows what mail waits for. */
const isServer = (deps: StoreDeps): deps is OperatorDeps => 'mta' in deps;

async function whyOf({ db, clock, holds, mta }: OperatorDeps, id: string): Promise<Waiting[]> {
  const row = await findAnyMessage(db.reader, id);
  if (row === undefined) throw notThere(id);
  return await whyWaiting({ db, holdOf: holds.of, laneFacts: mta.laneFacts }, row, clock.now());
}

const notThere = (id: string): Problem =>
  new Problem('not_found', `there is no message ${JSON.stringify(id)}`, { field: 'id' });
