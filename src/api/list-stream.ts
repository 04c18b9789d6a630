/** Whole lists as a stream, for `Accept` of CSV or NDJSON: a page is read when the client has the last one, an account's one by one. */
import { Readable } from 'node:stream';
import { createGate } from '../scheduling/gate.ts';
import { Problem } from '../base/problem.ts';
import { preferredType } from './negotiate.ts';
import type { Call, Reply } from './route.ts';
import { csvLine } from '../base/csv.ts';
import { statTypes } from '../events/stats.ts';

const PAGE = 100;
/** Pages that are read at once: the other reads need the database too. */
const READS = 2;

type AnyCall = Call<object, object, undefined>;
type Answer<C> = (call: C) => Promise<Reply>;

export class ListStreams {
  /** The callers of the open streams, each of which holds a connection. */
  private readonly open = new Set<{ keyId: string; accountId: string }>();
  private readonly gate = createGate({ most: READS, mostOfShare: 1, waiting: Infinity });

  /** Takes one of the streams that a key and an account may have, until the call is over. Throws `too_many_streams`. */
  take(call: Pick<AnyCall, 'caller' | 'whenOver'>): void {
    const { keyId, accountId } = call.caller;
    const ofAccount = [...this.open].filter((one) => one.accountId === accountId);
    refuseMore(ofAccount.filter((one) => one.keyId === keyId).length, MOST_OF_KEY, 'this key');
    refuseMore(ofAccount.length, MOST_OF_ACCOUNT, 'this account');
    const caller = { keyId, accountId };
    this.open.add(caller);
    call.whenOver(() => this.open.delete(caller));
  }

  /** Returns a handler that answers the list by pages, which `answer` makes, or as a whole. */
  whole<C extends AnyCall>(list: ListName, answer: Answer<C>): Answer<C> {
    return async (call) => {
      const type = preferredType(call.header('accept'), ['application/json', ...lineTypes]);
      if (type === 'application/json') return answer(call);
      if ('before' in call.query && call.query.before !== undefined) throw noBefore();
      const pageAfter = (position: object): Promise<Page> =>
        this.page(() => answer({ ...call, query: { ...call.query, limit: PAGE, ...position } }), call);
      return this.answer(call, { list, type }, async () => pagesFrom(await pageAfter({}), pageAfter));
    };
  }

  /**
   * Answers pages of records as a stream, which ends with its key. One that cannot go on is cut off: an ordinary end would say that this
   * was all. `begin` is awaited before the stream begins, since there is no way to answer 400 afterwards.
   */
  async answer(
    call: Pick<AnyCall, 'caller' | 'whenOver' | 'whenKeyEnds'>,
    { list, type }: { list: ListName; type: LineType },
    begin: () => Promise<AsyncIterable<Records>>,
  ): Promise<Reply> {
    this.take(call);
    const key: { hasEnded: boolean; answer: Readable | null } = { hasEnded: false, answer: null };
    call.whenKeyEnds(() => {
      key.hasEnded = true;
      key.answer?.destroy();
    });
    const stream = Readable.from(textOf(list, type, await begin()));
    key.answer = stream;
    if (key.hasEnded) stream.destroy();
    return { status: 200, stream, type: `${type}; charset=utf-8` };
  }

  private async page(read: () => Promise<Reply>, { caller }: Pick<AnyCall, 'caller'>): Promise<Page> {
    return this.gate.run(caller.accountId, async () => {
      const reply = await read();
      if (!('body' in reply)) throw new Error('a list is answered as JSON');
      return reply.body as Page;
    });
  }
}

export const noBefore = (): Problem =>
  new Problem('invalid_parameter', '`before` is for pages; a stream only goes forwards.', { field: 'before' });

interface Page {
  data: Records;
  /** Absent if the answer has all. */
  next_cursor?: string | null;
}

async function* pagesFrom(first: Page, pageAfter: (position: object) => Promise<Page>): AsyncGenerator<Records> {
  for (let page = first; ; page = await pageAfter({ after: page.next_cursor })) {
    yield page.data;
    if (page.next_cursor == null) return;
  }
}

const MOST_OF_KEY = 20;
const MOST_OF_ACCOUNT = 100;

function refuseMore(open: number, most: number, whose: string): void {
  if (open < most) return;
  throw new Problem('too_many_streams', `There are ${String(most)} open streams of ${whose}. Close one first.`);
}

export type Records = readonly object[];

/** The media types of a whole list. */
export const lineTypes = ['text/csv', 'application/x-ndjson'] as const;
export type LineType = (typeof lineTypes)[number];

/** The lists by name: the operation that answers each, and the columns of CSV as paths in its records. */
export const lists = {
  messages: {
    operation: 'listMessages',
    columns: [
      ...['id', 'created_at', 'status', 'from', 'to', 'subject', 'stream', 'tags', 'template_id', 'batch_id', 'test'],
      ...['engagement.opens', 'engagement.clicks'],
    ],
  },
  events: {
    operation: 'listEvents',
    columns: [
      ...['id', 'timestamp', 'type', 'data.message_id', 'data.recipient', 'data.subject', 'data.tags'],
      ...['test', 'detail'],
    ],
  },
  stats: { operation: 'getStats', columns: ['at', 'key', ...statTypes.map((type) => `counts.${type}`)] },
  audit: {
    operation: 'listAuditEntries',
    columns: [
      ...['at', 'actor', 'key_id', 'ip', 'method', 'endpoint', 'path', 'status', 'result', 'error_code', 'error_field'],
      ...['ms', 'request_id', 'operation', 'object_type', 'object_id', 'summary', 'idempotency_replayed'],
      ...['idempotency_key', 'user_agent'],
    ],
  },
  suppressions: {
    operation: 'listSuppressions',
    columns: ['email', 'reason', 'scope', 'note', 'source_message_id', 'created_at', 'created_by', 'expires_at'],
  },
} as const;
export type ListName = keyof typeof lists;

/** Returns the lines of records. `csvLine` keeps spreadsheets from taking a value as a formula. */
export const linesOf = (list: ListName, type: LineType, records: Records): string =>
  records
    .map((record) =>
      type === 'text/csv'
        ? `${csvLine(lists[list].columns.map((at) => cellOf(valueOf(record, at))))}\n`
        : `${JSON.stringify(record)}\n`,
    )
    .join('');

/** Yields the text of pages of records. The first line of CSV has of each column the last part of its path. */
export async function* textOf(list: ListName, type: LineType, pages: AsyncIterable<Records>): AsyncGenerator<string> {
  if (type === 'text/csv') yield `${csvLine(lists[list].columns.map((at) => at.slice(at.indexOf('.') + 1)))}\n`;
  for await (const records of pages) if (records.length > 0) yield linesOf(list, type, records);
}

/** Returns the value at a path; `detail` of an event is the object that is named like its type. */
function valueOf(record: object, at: string): unknown {
  const steps = at === 'detail' ? ['data', String((record as { type?: unknown }).type)] : at.split('.');
  return steps.reduce<unknown>(
    (here, step) => (typeof here === 'object' && here !== null ? (here as Record<string, unknown>)[step] : undefined),
    record,
  );
}

function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(String).join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
