/** Opens the control socket: the server of the API whose caller is the operator. */
import { chmodSync, rmSync } from 'node:fs';
import type http from 'node:http';
import { createApi, type ApiDeps } from '../../api/server.ts';
import type { Inside } from '../../api/inside.ts';
import type { Route } from '../../api/route.ts';
import { awaitDatabase } from './await-database.ts';
import type { OperatorDeps } from '../deps.ts';
import { callerOf } from './operator-caller.ts';
import { lookAtSocket, socketPath } from './socket.ts';
import { agentOf } from './system-user.ts';
import type { Log } from '../../base/log.ts';
import { Problem } from '../../base/problem.ts';
import { Unavailable } from '../../base/unavailable.ts';
import { isDamage, isStorageTrouble } from '../../storage/commit.ts';

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
    /** The socket's path. */
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
function problemOf({ log }: { log: Pick<Log, 'error'> }, operation: string | null, error: unknown): Problem {
  if (error instanceof Problem) return error;
  log.error({ event: 'operation_failed', operation, err: error }, 'an operation of the operator failed');
  const message = error instanceof Error ? error.message : String(error);
  if (isDamage(error))
    return new Problem(
      'internal_error',
      `the database is damaged (${String(Reflect.get(error, 'code'))}): stop the server, keep a copy of the database as it is, and restore the last backup with \`posthorn backup restore\` (docs/backup.md)`,
    );
  if (isStorageTrouble(error))
    return new Problem('service_unavailable', `the database cannot take this now: ${message}`);
  return new Problem('internal_error', message);
}
