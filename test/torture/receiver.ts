/** A receiver that takes everything and remembers which message came how often. Plain sockets, no code of the product. */
import net from 'node:net';

export interface Receiver {
  port: number;
  /** Copies received, by X-Message-Id. */
  copies: Map<string, number>;
  stop(): void;
}

export async function startReceiver(): Promise<Receiver> {
  const copies = new Map<string, number>();
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => socket.destroy());
    serve(socket, copies);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no port');
  return {
    port: address.port,
    copies,
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

function serve(socket: net.Socket, copies: Map<string, number>): void {
  let text = '';
  let inData = false;
  socket.write('220 receiver.torture.test ESMTP\r\n');
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    for (;;) {
      if (inData) {
        const end = text.indexOf('\r\n.\r\n');
        if (end < 0) return;
        const id = /^X-Message-Id: (\S+)/im.exec(text.slice(0, end))?.[1] ?? '?';
        // Counted before the answer is sent: whoever never hears it may send a second copy, and that must show.
        copies.set(id, (copies.get(id) ?? 0) + 1);
        text = text.slice(end + 5);
        inData = false;
        socket.write('250 2.0.0 taken\r\n');
        continue;
      }
      const line = text.indexOf('\r\n');
      if (line < 0) return;
      const command = text.slice(0, line);
      text = text.slice(line + 2);
      const verb = command.slice(0, 4).toUpperCase();
      if (verb === 'EHLO') socket.write('250-receiver.torture.test\r\n250-PIPELINING\r\n250 8BITMIME\r\n');
      else if (verb === 'DATA') {
        inData = true;
        socket.write('354 go\r\n');
      } else if (verb === 'QUIT') socket.end('221 bye\r\n');
      else socket.write('250 2.1.0 ok\r\n');
    }
  });
}
