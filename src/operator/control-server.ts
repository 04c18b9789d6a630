/** The server of the control socket: it performs the operations that the command line asks for. */
import { chmodSync, rmSync } from 'node:fs';
import http from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { logAcceptErrors } from '../net/accept-errors.ts';
import { Problem } from '../base/problem.ts';
import { jsonInSlices } from '../base/slices.ts';
import { awaitDatabase } from './await-database.ts';
import { answerOf } from './control-answer.ts';
import { LARGEST_COMMAND_BYTES, lookAtSocket, socketPath, tooLarge } from './control-socket.ts';
import { commandLine } from '../operations/act.ts';
import { isAct, perform, type OperatorDeps } from './operations.ts';
import { agentOf } from './system-user.ts';
import { Unavailable } from './unavailable.ts';

const MOST_CONNECTIONS = 64;
const REQUEST_TIMEOUT_MS = 30_000;
const CLOSE_TIMEOUT_MS = 5_000;
const target = /^\/([a-zA-Z]{1,40}(?:\.[a-zA-Z]{1,32})?)$/;

/** Throws `Unavailable` (already_running) if another server uses the data folder. It must be called before the database is opened. */
export async function refuseSecondServer(dataDir: string): Promise<void> {
  const found = await lookAtSocket(socketPath(dataDir));
  if (found === 'live') throw new Unavailable('already_running', `another server is running on ${dataDir}`);
}

export type Control = Awaited<ReturnType<typeof serveControl>>;

/** Throws as `refuseSecondServer` does. Replaces the socket that a dead server left. */
export async function serveControl(deps: OperatorDeps, dataDir: string) {
  await refuseSecondServer(dataDir);
  const file = socketPath(dataDir);
  rmSync(file, { force: true });

  const server = http.createServer(
    {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: REQUEST_TIMEOUT_MS,
      maxHeaderSize: 8192,
      keepAliveTimeout: 1,
    },
    (request, response) => void answer(deps, request, response),
  );
  server.maxConnections = MOST_CONNECTIONS;
  logAcceptErrors(deps, server, 'control');
  await listen(server, file);
  let closed: Promise<void> | null = null;
  return {
    /** The socket's path. */
    path: file,
    /** Lets running operations end, for 5 s at most, and removes the socket. Safe to call twice. */
    close: (): Promise<void> => (closed ??= close(deps, server)),
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

async function close({ clock }: Pick<OperatorDeps, 'clock'>, server: http.Server): Promise<void> {
  const timer = clock.after(CLOSE_TIMEOUT_MS, () => {
    server.closeAllConnections();
  });
  await new Promise<void>((resolve) => {
    server.close(() => {
      resolve();
    });
    server.closeIdleConnections();
  });
  timer.cancel();
}

async function answer(deps: OperatorDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const name = target.exec(request.url ?? '')?.[1] ?? '';
  const { status, answer: body } = await answerOf(deps, name, async () => {
    if (request.method !== 'POST') throw new Problem('method_not_allowed', 'the control socket takes POST only');
    const user = request.headers['x-system-user'];
    const acting = { ...commandLine, user_agent: agentOf(typeof user === 'string' ? user : undefined) };
    const args = await readArgs(request);
    if (isAct(name)) await awaitDatabase(deps);
    return await perform(deps, name, args, { acting });
  });
  const bytes = await jsonInSlices(body);
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': bytes.length,
    // Without it the rest of a refused body would be read as the next request.
    connection: 'close',
  });
  response.end(bytes);
}

async function readArgs(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > LARGEST_COMMAND_BYTES) throw tooLarge();
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8')) as unknown;
  } catch (error) {
    throw new Problem('invalid_json', 'the arguments are not JSON', { cause: error });
  }
}
