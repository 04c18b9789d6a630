/** A mail host that is far away: it answers each burst of commands at once, one round trip after it came. */
import { createServer, type AddressInfo, type Socket } from 'node:net';

export interface FarReceiver {
  port: number;
  /** The counts so far; the first mail of a connection pays for its opening and is not among the warm ones. */
  seen: { mails: number; warmMails: number; warmTurns: number; connections: number; open: number; most: number };
  close(): Promise<void>;
}

export async function startFarReceiver(roundTripMs: number): Promise<FarReceiver> {
  const seen = { mails: 0, warmMails: 0, warmTurns: 0, connections: 0, open: 0, most: 0 };
  const server = createServer((socket) => {
    receive(socket, roundTripMs, seen);
  }).listen(0, '127.0.0.1', 2048);
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** Bytes that come while an answer is on its way belong to the next turn. */
function receive(socket: Socket, roundTripMs: number, seen: FarReceiver['seen']): void {
  let text = '';
  let inMessage = false;
  let turns = 0;
  let mails = 0;
  let timer: NodeJS.Timeout | null = null;
  seen.connections++;
  seen.open++;
  seen.most = Math.max(seen.most, seen.open);
  const answer = (): void => {
    timer = null;
    turns++;
    let out = '';
    for (;;) {
      const mark = inMessage ? '\r\n.\r\n' : '\r\n';
      const end = text.indexOf(mark);
      if (end < 0) break;
      const line = text.slice(0, end);
      text = text.slice(end + mark.length);
      if (inMessage) {
        inMessage = false;
        out += '250 2.0.0 taken\r\n';
        // The first mail of a connection pays for its opening.
        if (mails++ > 0) {
          seen.warmMails++;
          seen.warmTurns += turns;
        }
        seen.mails++;
        turns = 0;
      } else if (line.startsWith('EHLO')) out += '250-mx\r\n250-PIPELINING\r\n250 8BITMIME\r\n';
      else if (line === 'DATA') {
        inMessage = true;
        out += '354 go ahead\r\n';
      } else if (line === 'QUIT') {
        socket.end('221 2.0.0 bye\r\n');
        return;
      } else out += '250 2.0.0 ok\r\n';
    }
    if (out !== '') socket.write(out);
  };
  socket.setNoDelay(true);
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    timer ??= setTimeout(answer, roundTripMs);
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    seen.open--;
    if (timer !== null) clearTimeout(timer);
  });
  setTimeout(() => socket.write('220 mx ESMTP\r\n'), roundTripMs);
}
