/** Opens and closes the servers of HTTP. */
import { once } from 'node:events';
import type http from 'node:http';
import type https from 'node:https';
import type { AddressInfo } from 'node:net';

type Server = http.Server | https.Server;

/** Listens on the address. Rejects if the port cannot be opened. */
export async function listenOn(server: Server, { host, port }: { host: string; port: number }): Promise<void> {
  server.listen(port, host);
  // An error before this event rejects.
  await once(server, 'listening');
}

/** Returns the address and the port of a server that listens, as a URL has them. */
export function authorityOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `${family === 'IPv6' ? `[${address}]` : address}:${String(port)}`;
}

/** Closes the server and all its connections, whatever they are doing. */
export function closeAtOnce(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => {
      resolve();
    });
    server.closeAllConnections();
  });
}
