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
  close(): Promise<void>;
}

/** The first call finds out whether a server runs; the way stays the same for all that follow. */
export function reachOperator(config: Config): Operator {
  const file = socketPath(config.dataDir);
  let way: 'unknown' | 'server' | Direct = 'unknown';

  async function call(name: string, args: unknown): Promise<unknown> {
    if (typeof way === 'object') return way.call(name, args);
    const called = await callServer(file, name, args);
    if (called.kind === 'result') {
      way = 'server';
      return called.result;
    }
    if (way === 'server') throw new Unavailable('not_running', 'the server has stopped');
    // The store and its packages take longer to load than a whole call to the server.
    const { openDirect } = await import('./direct.ts');
    way = await openDirect(config, name);
    return way.call(name, args);
  }

  return {
    // What comes back has gone through the operation of this name, whose result this is.
    call: <Name extends OperationName>(name: Name, args: ArgsOf<Name>) => call(name, args) as Promise<ResultOf<Name>>,
    async close() {
      if (typeof way === 'object') await way.close();
    },
  };
}
