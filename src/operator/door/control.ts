/** Opens the control socket: the server of the API whose caller is the operator. */
import { chmodSync, rmSync } from 'node:fs';
import type http from 'node:http';
import { createApi, type ApiDeps } from '../../api/server.ts';
import type { Inside } from '../../api/inside.ts';
import type { Route } from '../../api/route.ts';
import type { OperatorDeps } from '../server-route.ts';
import { callerOf } from './operator-caller.ts';
import { lookAtSocket, socketPath, agentOf } from './socket.ts';
import { Problem } from '../../base/problem.ts';
import { Unavailable } from '../../base/unavailable.ts';
import { isStorageTrouble } from '../../storage/commit.ts';
import { machineFault } from '../machine-fault.ts';
import type { Clock } from '../../base/clock.ts';
import type { Database } from '../../storage/database.ts';

const MOST_CONNECTIONS = 64;
const CLOSE_TIMEOUT_MS = 5_000;

/** Throws `Unavailable` (already_running) if another server uses the data folder. It must be called before the database is opened. */
export async function refuseSecondServer(dataDir: string): Promise<void> {
  const found = await lookAtSocket(socketPath(dataDir));
  if (found === 'live') throw new Unavailable('already_running', `another server is running on ${dataDir}`);
}

export type Control = Awaited<ReturnType<typeof serveControl>>;

/** The parts that the socket serves: the routes of the API and of the server, and `inside`, which has both. */
export interface Served {
  api: ApiDeps;
  routes: readonly Route[];
  inside: Inside;
}

/** Throws as `refuseSecondServer` does. Replaces the socket that a dead server left. */
export async function serveControl(deps: OperatorDeps, { api, routes, inside }: Served) {
  const { dataDir } = deps.config;
  await refuseSecondServer(dataDir);
  const file = socketPath(dataDir);
  rmSync(file, { force: true });
  const { publicUrl, version, trustedProxies, body = {} } = api.settings;
  const settings = { publicUrl, version, trustedProxies, body, drainMs: CLOSE_TIMEOUT_MS };
  const socket = createApi({ ...api, settings }, routes, {
    inside,
    callerOf: ({ header, params }, { scope }) =>
      callerOf(deps, scope === 'server', { account: header('posthorn-account'), params }),
    agentOf: ({ header }) => agentOf(header('posthorn-user')),
    ready: () => awaitDatabase(deps),
    problemOf: (operation, error) => problemOf(deps, operation, error),
  });
  socket.server.maxConnections = MOST_CONNECTIONS;
  await listen(socket.server, file);
  return {
    path: file,
    /** Lets running operations end, for 5 s at most, and removes the socket. Safe to call twice. */
    close: (): Promise<void> => socket.close(),
  };
}

/** Creates the socket with its final rights: if they were changed afterwards, others could open it in between. */
async function listen(server: http.Server, file: string): Promise<void> {
  const before = process.umask(0o177);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(file, () => {
        server.off('error', reject);
        resolve();
      });
      process.umask(before); // the socket is bound by now
    });
  } finally {
    process.umask(before);
  }
  chmodSync(file, 0o600);
}

/** Returns the problem that an error is answered as. An error that is not the caller's mistake is logged, and is an `internal_error`. */
function problemOf({ log, config }: OperatorDeps, operation: string | null, error: unknown): Problem {
  if (error instanceof Problem) return error;
  log.error({ event: 'operation_failed', operation, err: error }, 'an operation of the operator failed');
  const fault = machineFault(error, config.dataDir);
  if (fault === null) return new Problem('internal_error', error instanceof Error ? error.message : String(error));
  const code = isStorageTrouble(error) && fault.kind !== 'damaged' ? 'service_unavailable' : 'internal_error';
  return new Problem(code, `${fault.line}. ${fault.cure}`);
}

/** A failover that takes no longer than this is not noticed. */
const PATIENCE_MS = 5000;
const PAUSE_MS = 250;

/** Resolves when the database answers. Throws `Problem` if it does not within five seconds. A file of SQLite is not asked. */
async function awaitDatabase({ db, clock }: { db: Database; clock: Clock }): Promise<void> {
  if (db.engine === 'sqlite') return;
  const until = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    const fault = await faultOf(db, clock, Math.max(0, until - clock.monotonic()));
    if (fault === null) return;
    if (clock.monotonic() >= until)
      throw new Problem('service_unavailable', `the database does not answer, and nothing was done: ${fault}`);
    await clock.sleep(PAUSE_MS);
  }
}

/** Asks the database; returns why it does not answer, or null if it does. If the network is cut, a question has no answer at all. */
async function faultOf(db: Database, clock: Clock, patienceMs: number): Promise<string | null> {
  const answer = db.prepared.all('SELECT 1 AS one').then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
  return await new Promise((resolve) => {
    const timer = clock.after(patienceMs, () => resolve(`no answer within ${String(PATIENCE_MS / 1000)} seconds`));
    void answer.then((fault) => {
      timer.cancel();
      resolve(fault);
    });
  });
}
