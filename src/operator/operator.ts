/** Performs operations on the running server, or on the database if no server runs. */
import type { Config } from '../config/schema.ts';
import { callServer } from './control-client.ts';
import { socketPath } from './control-socket.ts';
import type { Direct } from './direct.ts';
import type { ArgsOf, OperationName, ResultOf } from './operations.ts';
import { noReportParser, type OpenReportParser } from './report-parser.ts';
import { Unavailable } from './unavailable.ts';

export interface Operator {
  /** Throws a `Problem` for the operator's mistakes, `Unavailable` if it cannot be performed now. */
  call<Name extends OperationName>(name: Name, args: ArgsOf<Name>): Promise<ResultOf<Name>>;
  /** Does the same with an operation of the API; the caller names the record that it answers. */
  ask<Body>(operationId: string, asked?: AskedOf): Promise<Body>;
  close(): Promise<void>;
}

/** The input of an operation of the API; undefined members are left out. */
export interface AskedOf {
  /** Name or id of the account; without it, the account of the object in `params`, or `default`. */
  account?: string | undefined;
  params?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, string | number | undefined>>;
  body?: object;
}

/** Writes the values of the query as texts. */
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

/**
 * The first call finds out whether a server runs; all later and concurrent calls go the same way. `openReportParser` is for
 * operations that read mails while no server runs.
 */
export function reachOperator(config: Config, openReportParser: OpenReportParser = noReportParser): Operator {
  const file = socketPath(config.dataDir);
  let isServed = false;
  /** Opened once: a second database would keep the program from ending. */
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
    return openDirect(config, name, openReportParser);
  }

  return {
    ask: <Body>(operationId: string, asked: AskedOf = {}) => call(operationId, withText(asked)) as Promise<Body>,
    // The answer is the result of the operation with this name.
    call: <Name extends OperationName>(name: Name, args: ArgsOf<Name>) => call(name, args) as Promise<ResultOf<Name>>,
    async close() {
      // If it could not be opened, its caller has got the error.
      const opened = await direct?.catch(() => null);
      await opened?.close();
    },
  };
}
