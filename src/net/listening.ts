/** Opens servers, by sockets of systemd if it has opened some, closes those of HTTP, and logs connections that none can accept. */
import { once } from 'node:events';
import type http from 'node:http';
import type https from 'node:https';
import { Socket, type AddressInfo, type Server as NetServer } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';

type Server = http.Server | https.Server;

/** Sockets that listen already, by their ports, until a server has them. */
const passed = new Map<number, Socket>();

/** Takes the sockets that systemd has opened for this process. */
export function takeSockets(descriptors: readonly number[]): void {
  for (const fd of descriptors) {
    const socket = new Socket({ fd, readable: false, writable: false });
    const { port } = socket.address() as AddressInfo;
    passed.set(port, socket);
  }
}

/** Listens on the address, or by the socket that was passed for its port. Rejects if the port cannot be opened. */
export async function listenOn(server: NetServer, { host, port }: { host: string; port: number }): Promise<void> {
  const socket = passed.get(port);
  if (passed.delete(port)) server.listen(socket);
  else server.listen(port, host);
  // An error before this event rejects.
  await once(server, 'listening');
}

/** Returns the address and the port of a server that listens, as a URL has them. */
export function authorityOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `${family === 'IPv6' ? `[${address}]` : address}:${String(port)}`;
}

export function closeAtOnce(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

/** Each new connection fails this way, so one line is written in this time. */
const QUIET_MS = 60_000;

/** Logs errors from when the server listens; those before belong to the caller of `listen`. `what` names the server in the log. */
export function logAcceptErrors(
  { clock, log }: { clock: Clock; log: Pick<Log, 'error'> },
  server: NetServer,
  what: string,
): void {
  let loggedAt = -Infinity;
  let unreported = 0;
  const logError = (error: Error): void => {
    if (clock.monotonic() - loggedAt < QUIET_MS) {
      unreported++;
      return;
    }
    log.error({ event: 'accept_failed', server: what, unreported, err: error }, 'a connection could not be accepted');
    loggedAt = clock.monotonic();
    unreported = 0;
  };
  server.once('listening', () => server.on('error', logError));
}
