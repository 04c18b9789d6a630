/**
 * Mail hosts on addresses of 127.0.0.0/8, all on one port, each with a behaviour that a scenario may change while they run. They
 * write down what a sender does to them: dials, attempts, deliveries. They read the dialogue with their own few lines, so that a
 * fault in our parsers cannot hide itself.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { systemClock, type Clock } from '../../src/base/clock.ts';
import { newMemory, type Behaviour, type Memory } from './behaviour.ts';
import { Dialogue } from './dialogue.ts';

export interface Dial {
  at: number;
  host: string;
  /** Turned away at the greeting, in words or by a broken connection. */
  refused: boolean;
  /** The words. */
  reply: string;
}

export interface Attempt {
  at: number;
  host: string;
  /** Empty if the sender did not come that far. */
  to: string;
  end: 'open' | 'taken' | 'refused' | 'broken' | 'broken_behind_dot';
  reply: string;
}

export interface Host {
  readonly address: string;
  behaviour: Behaviour;
  readonly memory: Memory;
  /** Connections that stand, by client; those turned away at the greeting are none. */
  standing: number;
  /** Breaks every open connection, as a restart does. */
  restart(): void;
}

export interface Receiver {
  readonly port: number;
  readonly dials: Dial[];
  readonly attempts: Attempt[];
  /** Command lines read so far. */
  commands: number;
  /** Replies that wait for the host's latency. */
  pending: number;
  /** When each recipient's mail was taken: more than one time is a duplicate. */
  readonly taken: Map<string, number[]>;
  /** Real, or a test's. */
  readonly clock: Clock;
  /** Milliseconds since some epoch. */
  now(): number;
  /** Adds a host; the port is the same for all. */
  host(address: string, behaviour?: Behaviour): Promise<Host>;
  close(): Promise<void>;
}

export async function startReceiver(clock: Clock = systemClock): Promise<Receiver> {
  const servers: Server[] = [];
  const sockets = new Set<Socket>();
  let port = 0;
  const listen = async (address: string, found: Host, own: Set<Socket>): Promise<void> => {
    const server = createServer({ noDelay: true }, (socket) => {
      sockets.add(socket);
      own.add(socket);
      socket.on('close', () => {
        sockets.delete(socket);
        own.delete(socket);
      });
      new Dialogue(socket, found, receiver).start();
    });
    server.listen(port, address, 1024);
    await once(server, 'listening');
    servers.push(server);
    // A TCP server listening on an IP address has an AddressInfo.
    port = (server.address() as AddressInfo).port;
  };
  const receiver: Receiver = {
    get port() {
      return port;
    },
    dials: [],
    attempts: [],
    commands: 0,
    pending: 0,
    taken: new Map(),
    clock,
    now: () => clock.monotonic(),
    async host(address, behaviour = {}) {
      const own = new Set<Socket>();
      const restart = (): void => {
        for (const socket of own) socket.resetAndDestroy();
      };
      const found: Host = { address, behaviour, memory: newMemory(), standing: 0, restart };
      await listen(address, found, own);
      return found;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
    },
  };
  await receiver.host('127.0.0.1');
  return receiver;
}
