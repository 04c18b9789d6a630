/** A receiver that takes everything and remembers which message came how often. Plain sockets, no code of the product. */
import net from 'node:net';

/** A moment of a session, seen from the receiver, which has not yet answered except at `claim` (after EHLO) and `after 250`. */
export type Moment = 'dial' | 'claim' | 'MAIL' | 'RCPT' | 'DATA' | 'mid-body' | 'after the dot' | 'after 250';

/** A mail that the receiver took. */
export interface Taken {
  /** X-Mark, or X-Message-Id. */
  id: string;
  /** The address of MAIL FROM, to which a bounce goes. */
  returnPath: string;
  recipient: string;
}

export interface Receiver {
  port: number;
  /** Copies received, by `id`. */
  copies: Map<string, number>;
  /** True if sessions offer PIPELINING; without it each command comes alone. */
  isPipelining: boolean;
  /** Called at each moment; where it returns true the connection is cut instead of answered. */
  onMoment: (moment: Moment, session: Session) => boolean;
  /** Called with a mail when its connection goes on with the next one, before which its outcome was written. */
  onSettled: (mail: Taken) => void;
  /** Called when a connection was opened, and when it takes a mail. */
  onOpened: (session: Session) => void;
  onTaken: (session: Session, mail: Taken) => void;
  /** Returns how long the answer to a final dot takes, in ms. */
  slowness: () => number;
  /** Connections that are open. */
  open(): number;
  /**
   * Returns the last mail of each connection that was open at the time (of `performance.now()`) or later and that did not go on with
   * another mail: the sender may not have written their outcome. Forgets the connections.
   */
  unsettledSince(time: number): string[];
  stop(): void;
}

/** A connection to the receiver. Times are of `performance.now()`. */
export interface Session {
  /** The name of EHLO; null before it has come. */
  name: string | null;
  last: Taken | null;
  readonly openedAt: number;
  /** Infinity while it is open. */
  closedAt: number;
}

export async function startReceiver(): Promise<Receiver> {
  const sockets = new Set<net.Socket>();
  let sessions: Session[] = [];
  const server = net.createServer((socket) => {
    const session: Session = { name: null, last: null, openedAt: performance.now(), closedAt: Infinity };
    sessions.push(session);
    sockets.add(socket);
    receiver.onOpened(session);
    socket
      .on('close', () => {
        sockets.delete(socket);
        session.closedAt = performance.now();
      })
      .on('error', () => socket.destroy());
    serve(socket, session, receiver);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no port');
  const receiver: Receiver = {
    port: address.port,
    copies: new Map(),
    isPipelining: true,
    onMoment: () => false,
    onSettled: () => undefined,
    onOpened: () => undefined,
    onTaken: () => undefined,
    slowness: () => 0,
    open: () => sockets.size,
    unsettledSince(time) {
      const found = sessions.flatMap(({ last, closedAt }) => (last !== null && closedAt >= time ? [last.id] : []));
      sessions = [];
      return found;
    },
    stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
  return receiver;
}

/** Of mail that came by SMTP the client's own mark, as no id of it is taken over. */
const markOf = /^X-Mark: (\S+)/im;
const idOf = /^X-Message-Id: (\S+)/im;

/** Copies a part of a text. V8 keeps the whole text for as long as a part of it, here a mail for as long as its id. */
const ownText = (part: string): string => Buffer.from(part, 'latin1').toString('latin1');

function serve(socket: net.Socket, session: Session, receiver: Receiver): void {
  let text = '';
  let inData = false;
  let returnPath = '';
  let recipient = '';
  /** Returns whether the session ends here. */
  const ends = (moment: Moment): boolean => {
    if (!receiver.onMoment(moment, session)) return false;
    socket.destroy();
    return true;
  };
  /** Reads a whole body, if it is there; returns whether there may be more to read. */
  const takeBody = (): boolean => {
    const end = text.indexOf('\r\n.\r\n');
    if (end < 0) {
      if (text !== '') ends('mid-body');
      return false;
    }
    const id = ownText((markOf.exec(text.slice(0, end)) ?? idOf.exec(text.slice(0, end)))?.[1] ?? '?');
    // Counted before the answer is sent: a sender that never hears it may send a second copy, and that must show.
    receiver.copies.set(id, (receiver.copies.get(id) ?? 0) + 1);
    const taken = { id, returnPath: ownText(returnPath), recipient: ownText(recipient) };
    session.last = taken;
    receiver.onTaken(session, taken);
    text = text.slice(end + 5);
    inData = false;
    if (ends('after the dot')) return false;
    const ms = receiver.slowness();
    // A sender waits for this answer before it says anything else.
    if (ms > 0) setTimeout(() => void socket.write('250 2.0.0 taken\r\n'), ms);
    else socket.write('250 2.0.0 taken\r\n');
    return !ends('after 250');
  };
  const takeCommand = (command: string): boolean => {
    const verb = command.slice(0, 4).toUpperCase();
    if (verb === 'EHLO') {
      session.name = command.slice(4).trim();
      socket.write(`250-receiver.torture.test\r\n${receiver.isPipelining ? '250-PIPELINING\r\n' : ''}250 8BITMIME\r\n`);
      return !ends('claim');
    }
    if (verb === 'QUIT') {
      socket.end('221 bye\r\n');
      return true;
    }
    if (verb === 'MAIL') {
      if (session.last !== null) receiver.onSettled(session.last);
      session.last = null;
      returnPath = /<([^>]*)>/.exec(command)?.[1] ?? '';
    }
    if (verb === 'RCPT') recipient = /<([^>]*)>/.exec(command)?.[1] ?? '';
    if ((verb === 'MAIL' || verb === 'RCPT' || verb === 'DATA') && ends(verb)) return false;
    inData = verb === 'DATA';
    socket.write(inData ? '354 go\r\n' : '250 2.1.0 ok\r\n');
    return true;
  };
  if (ends('dial')) return;
  socket.write('220 receiver.torture.test ESMTP\r\n');
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    for (;;) {
      if (inData) {
        if (takeBody()) continue;
        return;
      }
      const line = text.indexOf('\r\n');
      if (line < 0) return;
      const command = text.slice(0, line);
      text = text.slice(line + 2);
      if (!takeCommand(command)) return;
    }
  });
}
