/**
 * Whole lists as a stream: the URL of a list answers all that its filters find if `Accept` asks for CSV or NDJSON. The next page is read
 * when the client has taken the last one, and the pages of an account one after the other.
 */
import { Readable } from 'node:stream';
import { createGate } from '../scheduling/gate.ts';
import { Problem } from '../base/problem.ts';
import { lineTypes, textOf, type LineType, type ListName, type Records } from './list-lines.ts';
import { preferredType } from './negotiate.ts';
import type { Call, Reply } from './route.ts';

const PAGE = 100;
/** Pages that are read at once: the other reads need the database too. */
const READS = 2;

type AnyCall = Call<object, object, undefined>;
type Answer<C> = (call: C) => Promise<Reply>;

export class ListStreams {
  private readonly slots = new StreamSlots();
  private readonly gate = createGate({ most: READS, mostOfShare: 1, waiting: Infinity });

  /** Takes one of the streams that a key and an account may have, until the call is over. Throws `too_many_streams`. */
  take(call: Pick<AnyCall, 'caller' | 'whenOver'>): void {
    call.whenOver(this.slots.take(call.caller));
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

  /** Reads a page when it is the account's turn. */
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

/** Counts the open streams of each key and each account: each holds a connection. */
class StreamSlots {
  private readonly open = new Map<string, number>();

  /** Takes a slot; the returned function gives it back. Throws `too_many_streams`. */
  take({ keyId, accountId }: { keyId: string; accountId: string }): () => void {
    this.check(`key ${keyId}`, MOST_OF_KEY, 'this key');
    this.check(`account ${accountId}`, MOST_OF_ACCOUNT, 'this account');
    const names = [`key ${keyId}`, `account ${accountId}`];
    for (const name of names) this.add(name, 1);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      for (const name of names) this.add(name, -1);
    };
  }

  private check(name: string, most: number, whose: string): void {
    if ((this.open.get(name) ?? 0) < most) return;
    throw new Problem('too_many_streams', `There are ${String(most)} open streams of ${whose}. Close one first.`);
  }

  private add(name: string, more: number): void {
    const count = (this.open.get(name) ?? 0) + more;
    if (count > 0) this.open.set(name, count);
    else this.open.delete(name);
  }
}
