/** Mail hosts that cannot be used, with real sockets: they accept slowly, not at all, or never answer. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import type { Clock } from '../../../src/base/clock.ts';

export interface BadHost {
  /** Connections that reached it, as far as it can know. */
  readonly connections: number;
  close(): Promise<void>;
}

/** Accepts and greets with one byte a second of the given clock, for ever. */
export async function startTarPit(clock: Clock, host: string, port: number): Promise<BadHost> {
  return startAccepting(host, port, (socket) => {
    let sent = 0;
    const drip = (): void => {
      if (socket.destroyed) return;
      socket.write('220-tarpit.test ESMTP wait for it\r\n'.charAt(sent++ % 36));
      clock.after(1000, drip);
    };
    drip();
  });
}

/** Accepts and never says a word. */
export function startSilentHost(host: string, port: number): Promise<BadHost> {
  return startAccepting(host, port, () => undefined);
}

async function startAccepting(host: string, port: number, greet: (socket: Socket) => void): Promise<BadHost> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    greet(socket);
  });
  server.listen(port, host);
  await once(server, 'listening');
  return {
    get connections() {
      return connections;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Listens in a thread that never accepts, with its backlog filled: a further connect gets no answer at all. */
export async function startBlackHole(host: string, port: number): Promise<BadHost> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
     const server = require('node:net').createServer();
     server.listen({ host: ${JSON.stringify(host)}, port: ${String(port)}, backlog: 1 }, () => {
       parentPort.postMessage('listening');
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
     });`,
    { eval: true },
  );
  await once(worker, 'message');
  // Linux lets one more in than the backlog says.
  const fillers = [connect(port, host), connect(port, host)];
  for (const filler of fillers) filler.on('error', () => undefined);
  await Promise.all(fillers.map((filler) => once(filler, 'connect')));
  return {
    connections: 0,
    async close() {
      for (const filler of fillers) filler.destroy();
      await worker.terminate();
    },
  };
}
