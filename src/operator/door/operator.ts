/** Performs operations on the running server, or on the database if no server runs. */
import { contentOf } from '../../api/inside.ts';
import type { Config } from '../../config/schema.ts';
import { bytesIn, callServer, jsonIn, textIn, type AskedOf } from './client.ts';
import type { Offline } from './offline.ts';
import type { ArgsOf, OperationName, ResultOf } from '../routes.ts';
import { socketPath } from './socket.ts';
import { Unavailable } from '../../base/unavailable.ts';

export type { AskedOf } from './client.ts';

export interface Operator {
  /** Performs an operation of the server. Throws a `Problem` for the operator's mistakes, `Unavailable` if it cannot be performed now. */
  call<Name extends OperationName>(name: Name, body: ArgsOf<Name>): Promise<ResultOf<Name>>;
  /** Does the same with an operation of the API; the caller names the record that it answers. */
  ask<Body>(operation: string, asked?: AskedOf): Promise<Body>;
  /** Yields the text of an answer in another type than JSON. */
  text(operation: string, asked: AskedOf & { accept: string }): AsyncIterable<string>;
  /** Returns the octets of an answer in another type than JSON. */
  bytes(operation: string, asked: AskedOf): Promise<Buffer>;
  close(): Promise<void>;
}

/** The most entries that a page has. */
const PAGE = 100;

/** Returns the first `limit` entries of a list that comes in pages, and whether there are more. */
// The caller names the record, as for `ask`.
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters
export async function askList<Entry>(
  operator: Pick<Operator, 'ask'>,
  operation: string,
  { limit, ...asked }: AskedOf & { limit: number },
): Promise<{ data: Entry[]; has_more: boolean }> {
  const data: Entry[] = [];
  let after: string | undefined;
  for (;;) {
    const query = { ...asked.query, limit: Math.min(PAGE, limit - data.length), after };
    const page = await operator.ask<{ data: Entry[]; has_more: boolean; next_cursor: string | null }>(operation, {
      ...asked,
      query,
    });
    data.push(...page.data);
    after = page.next_cursor ?? undefined;
    if (!page.has_more || after === undefined || data.length >= limit) return { data, has_more: page.has_more };
  }
}

interface Answered {
  json(): Promise<unknown>;
  text(): AsyncIterable<string>;
  bytes(): Promise<Buffer>;
}

/** The first call finds out whether a server runs; all later and concurrent calls go the same way. */
export function reachOperator(config: Config): Operator {
  const file = socketPath(config.dataDir);
  let isServed = false;
  /** Opened once: a second database would keep the program from ending. */
  let offline: Promise<Offline> | null = null;

  async function call(operation: string, asked: AskedOf): Promise<Answered> {
    if (offline === null) {
      const answer = await callServer(file, operation, asked);
      if (answer !== null) {
        isServed = true;
        return { json: () => jsonIn(answer), text: () => textIn(answer), bytes: () => bytesIn(answer) };
      }
      if (isServed) throw new Unavailable('not_running', 'the server has stopped');
    }
    offline ??= openStore(operation).catch((error: unknown) => {
      // A server may be there by the next call.
      offline = null;
      throw error;
    });
    const reply = await (await offline).ask(operation, asked);
    return {
      json: () => Promise.resolve(contentOf(reply)),
      text: () => contentOf(reply) as AsyncIterable<string>,
      bytes: () => Promise.resolve(contentOf(reply) as Buffer),
    };
  }

  async function openStore(first: string): Promise<Offline> {
    // The store and its packages take longer to load than a whole call to the server.
    const { openOffline } = await import('./offline.ts');
    return openOffline(config, first);
  }

  return {
    ask: async <Body>(operation: string, asked: AskedOf = {}) => (await (await call(operation, asked)).json()) as Body,
    call: async <Name extends OperationName>(name: Name, body: ArgsOf<Name>) =>
      // The answer is the result of the operation with this name.
      (await (await call(name, { body: body as object })).json()) as ResultOf<Name>,
    async *text(operation, asked) {
      yield* (await call(operation, asked)).text();
    },
    bytes: async (operation, asked) => (await call(operation, asked)).bytes(),
    async close() {
      // If it could not be opened, its caller has got the error.
      const opened = await offline?.catch(() => null);
      await opened?.close();
    },
  };
}
