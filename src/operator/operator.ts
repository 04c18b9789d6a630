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
    // What comes back has gone through the operation of this name, whose result this is.
    call: <Name extends OperationName>(name: Name, args: ArgsOf<Name>) => call(name, args) as Promise<ResultOf<Name>>,
    async close() {
      // One that cannot be opened has told its caller why.
      const opened = await direct?.catch(() => null);
      await opened?.close();
    },
  };
}
