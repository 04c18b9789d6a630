/** Tracks the connections with running requests, which a stop waits for. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';

export class Running {
  private readonly busy = new Map<Socket, number>();
  private readonly known = new WeakSet<Socket>();
  private readonly open = new Set<Socket>();
  private idle = (): void => undefined;

  constructor(server: Server) {
    const begin = (req: IncomingMessage, res: ServerResponse): void => {
      this.begin(req.socket, res);
    };
    server.prependListener('request', begin);
    server.prependListener('checkExpectation', begin);
    server.on('connection', (socket: Socket) => {
      this.open.add(socket);
      socket.once('close', () => this.open.delete(socket));
    });
  }

  /** Resolves when nothing runs any more, or after `ms` milliseconds. */
  end(clock: Clock, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const late = clock.after(ms, resolve);
      this.idle = () => {
        late.cancel();
        resolve();
      };
      if (this.busy.size === 0) this.idle();
    });
  }

  /** Closes every connection, also those still in the TLS handshake. */
  cut(): void {
    for (const socket of this.open) socket.destroy();
  }

  private begin(socket: Socket, res: ServerResponse): void {
    if (!this.known.has(socket)) this.watch(socket);
    this.busy.set(socket, (this.busy.get(socket) ?? 0) + 1);
    res.once('close', () => {
      this.set(socket, (this.busy.get(socket) ?? 1) - 1);
    });
  }

  /** Watches the socket: a response queued behind another one gets no `close` event of its connection. */
  private watch(socket: Socket): void {
    this.known.add(socket);
    socket.once('close', () => {
      this.set(socket, 0);
    });
  }

  private set(socket: Socket, count: number): void {
    if (count > 0) this.busy.set(socket, count);
    else this.busy.delete(socket);
    if (this.busy.size === 0) this.idle();
  }
}
