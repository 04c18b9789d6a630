/** The operator's hand: performs operations on the running server, or without one on the database. */
import type { Config } from '../config/schema.ts';
import { callServer } from './control-client.ts';
import { socketPath } from './control-socket.ts';
import type { Direct } from './direct.ts';
import type { ArgsOf, OperationName, ResultOf } from './operations.ts';
import { Unavailable } from './unavailable.ts';

export interface Operator {
  /** Throws a `Problem` for the operator's mistakes, `Unavailable` where it cannot be had here and now. */
  call<Name extends OperationName>(name: Name, args: ArgsOf<Name>): Promise<ResultOf<Name>>;
  /** The same for an operation that has an HTTP door; the caller names the record that it answers. */
  ask<Body>(operationId: string, asked?: AskedOf): Promise<Body>;
  close(): Promise<void>;
}

/** What a command asks of an operation; what is undefined is left out. */
export interface AskedOf {
  /** Name or id of the account; where it is not given, that of the object in `params`, or the account `default`. */
  account?: string | undefined;
  params?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, string | number | undefined>>;
  body?: object;
}

/** In a query all values are texts. */
const withText = ({ query = {}, ...asked }: AskedOf): object => ({
  ...asked,
  query: Object.fromEntries(
    Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  ),
});

/** The most entries that a page has. */
const PAGE = 100;

/** Returns the first `limit` entries of a list that comes in pages, and whether there are more. */
// The caller names the record, as for `ask`.
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters
export async function askList<Entry>(
  operator: Pick<Operator, 'ask'>,
  operationId: string,
  { limit, ...asked }: AskedOf & { limit: number },
): Promise<{ data: Entry[]; has_more: boolean }> {
  const data: Entry[] = [];
  let after: string | undefined;
  for (;;) {
    const query = { ...asked.query, limit: Math.min(PAGE, limit - data.length), after };
    const page = await operator.ask<{ data: Entry[]; has_more: boolean; next_cursor: string | null }>(operationId, {
      ...asked,
      query,
    });
    data.push(...page.data);
    after = page.next_cursor ?? undefined;
    if (!page.has_more || after === undefined || data.length >= limit) return { data, has_more: page.has_more };
  }
}

/** The first call finds out whether a server runs; the way stays the same for all that follow, also for those beside it. */
export function reachOperator(config: Config): Operator {
  const file = socketPath(config.dataDir);
  let isServed = false;
  /** Opened once, whoever asks first: a second one would keep the program from ending. */
  let direct: Promise<Direct> | null = null;

  async function call(name: string, args: unknown): Promise<unknown> {
    if (direct === null) {
      const called = await callServer(file, name, args);
      if (called.kind === 'result') {
        isServed = true;
        return called.result;
      }
      if (isServed) throw new Unavailable('not_running', 'the server has stopped');
    }
    direct ??= openStore(name).catch((error: unknown) => {
      // A server may be there by the next call.
      direct = null;
      throw error;
    });
    return (await direct).call(name, args);
  }

  async function openStore(name: string): Promise<Direct> {
    // The store and its packages take longer to load than a whole call to the server.
    const { openDirect } = await import('./direct.ts');
    return openDirect(config, name);
  }

  return {
    ask: <Body>(operationId: string, asked: AskedOf = {}) => call(operationId, withText(asked)) as Promise<Body>,
    // What comes back has gone through the operation of this name, whose result this is.
    call: <Name extends OperationName>(name: Name, args: ArgsOf<Name>) => call(name, args) as Promise<ResultOf<Name>>,
    async close() {
      // One that cannot be opened has told its caller why.
      const opened = await direct?.catch(() => null);
      await opened?.close();
    },
  };
}
