/** An SMTP client typed by hand: it says exactly what it is told to, and hands back the whole reply to each line. */
import net from 'node:net';
import tls from 'node:tls';

export interface SmtpClient {
  /** The next whole reply, its lines joined by LF; `(closed)` where the server has gone. */
  reply(): Promise<string>;
  /** Sends a line (CRLF is added) and gives the reply. */
  say(line: string): Promise<string>;
  /** Sends octets as they are. */
  write(octets: string): void;
  /** Begins TLS on the connection, after the server has said that it may; gives the fingerprint of its certificate. */
  startTls(): Promise<string>;
  end(): void;
  readonly closed: Promise<void>;
}

/** Connects; the greeting has not been read yet. `from`: the local address, of which 127.0.0.0/8 has plenty. */
export function smtpClient(port: number, options: { isSecure?: boolean; from?: string } = {}): SmtpClient {
  const place = { port, host: '127.0.0.1', ...(options.from === undefined ? {} : { localAddress: options.from }) };
  let socket = options.isSecure === true ? tls.connect({ ...place, rejectUnauthorized: false }) : net.connect(place);
  let text = '';
  let wake: () => void = () => undefined;
  const heard = (part: Buffer): void => {
    text += part.toString('latin1');
    wake();
  };
  socket.on('data', heard);
  socket.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => {
      resolve();
      wake();
    });
  });
  const client: SmtpClient = {
    async reply() {
      for (;;) {
        const end = /^(?:\d{3}-[^\n]*\n)*\d{3}(?: [^\n]*)?\r\n/.exec(text);
        if (end !== null) {
          text = text.slice(end[0].length);
          return end[0].trimEnd().replaceAll('\r\n', '\n');
        }
        if (socket.destroyed) return '(closed)';
        await new Promise<void>((resolve) => (wake = resolve));
      }
    },
    say(line) {
      socket.write(`${line}\r\n`, 'latin1');
      return client.reply();
    },
    write: (octets) => void socket.write(octets, 'latin1'),
    async startTls() {
      socket.off('data', heard);
      const secure = tls.connect({ socket, rejectUnauthorized: false });
      secure.on('error', () => undefined);
      secure.on('data', heard);
      await new Promise((resolve) => secure.once('secureConnect', resolve));
      socket = secure;
      return secure.getPeerCertificate().fingerprint256;
    },
    end: () => void socket.destroy(),
    closed,
  };
  return client;
}

/** The argument of AUTH PLAIN (RFC 4616). */
export const plainAuth = (user: string, password: string): string =>
  `AUTH PLAIN ${Buffer.from(`\0${user}\0${password}`).toString('base64')}`;
