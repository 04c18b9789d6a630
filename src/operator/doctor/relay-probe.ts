/**
 * Asks a smarthost whether it takes our mail without a login: it is offered a sender and a recipient, and no mail. Many hosts
 * greet everybody, and refuse only the recipient.
 */
import net from 'node:net';
import tls from 'node:tls';
import type { Clock } from '../../base/clock.ts';
import { tlsFaultText } from '../../net/tls-fault.ts';
import type { RelayAnswer, SmarthostPlace } from './probes.ts';

const STEP_MS = 8_000;
const MOST_REPLY = 16 * 1024;

/** Thrown inside this file when the dialogue cannot go on. */
class Broken extends Error {}

/** Offers a mail from and to `postmaster@<hostname>` and ends the session before its content. Never rejects. */
export async function offerMail(
  { clock }: { clock: Clock },
  { ip, host, port, tls: wanted, hostname }: SmarthostPlace,
): Promise<RelayAnswer> {
  let socket: net.Socket | null = null;
  try {
    socket = await opened(clock, net.connect({ host: ip, port }), 'connect');
    if (wanted === 'implicit') socket = await secured(clock, socket, host);
    let replies = new Replies(clock, socket);
    await replies.next(null);
    const hello = await replies.next(`EHLO ${hostname}`);
    if (wanted !== 'none' && wanted !== 'implicit' && /^250[ -]STARTTLS/im.test(hello)) {
      await replies.next('STARTTLS');
      socket = await secured(clock, socket, host);
      replies = new Replies(clock, socket);
      await replies.next(`EHLO ${hostname}`);
    }
    return await offered(replies, `postmaster@${hostname}`);
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    return { kind: 'failed', why: error.message };
  } finally {
    socket?.destroy();
  }
}

async function offered(replies: Replies, address: string): Promise<RelayAnswer> {
  for (const command of [`MAIL FROM:<${address}>`, `RCPT TO:<${address}>`]) {
    const reply = await replies.ask(command);
    if (!isRefusalForLogin(reply)) {
      if (reply.startsWith('2')) continue;
      break;
    }
    replies.end();
    return { kind: 'login_wanted', why: lineOf(reply) };
  }
  replies.end();
  return { kind: 'taken' };
}

/** RFC 4954 section 6 names 530; others say 5.7.1 and mention relaying, access or authentication. */
const isRefusalForLogin = (reply: string): boolean =>
  reply.startsWith('530') ||
  (reply.startsWith('5') && /auth|log ?in|relay|access denied|5\.7\.(?:0|1|3)\b/i.test(reply));

const lineOf = (reply: string): string =>
  (reply.split('\n')[0] ?? '')
    .replaceAll(/[^\x20-\x7e]/g, '')
    .slice(0, 512)
    .trimEnd();

/** Reads whole replies, each within a time limit. */
class Replies {
  private readonly clock: Clock;
  private readonly socket: net.Socket;
  private text = '';
  private ended: string | null = null;
  private wake: () => void = () => undefined;

  constructor(clock: Clock, socket: net.Socket) {
    this.clock = clock;
    this.socket = socket;
    socket.setEncoding('latin1');
    const over = (why: string): void => {
      this.ended ??= why;
      this.wake();
    };
    socket.on('data', (more: string) => {
      this.text += more;
      if (this.text.length > MOST_REPLY) over('a reply without an end');
      this.wake();
    });
    socket.on('error', (error) => {
      over(tlsFaultText(error));
    });
    socket.on('close', () => {
      over('it closes the connection');
    });
  }

  /** Sends the command, if there is one, and returns a positive reply. */
  async next(command: string | null): Promise<string> {
    const reply = await this.ask(command);
    if (!reply.startsWith('2')) throw new Broken(lineOf(reply));
    return reply;
  }

  async ask(command: string | null): Promise<string> {
    if (command !== null) this.socket.write(`${command}\r\n`);
    const timer = this.clock.after(STEP_MS, () => {
      this.ended ??= `no answer within ${String(STEP_MS / 1000)} s`;
      this.wake();
    });
    try {
      for (;;) {
        const [reply] = /^(?:\d{3}-[^\n]*\n)*\d{3}(?: [^\n]*|\r)?\n/.exec(this.text) ?? [];
        if (reply !== undefined) {
          this.text = this.text.slice(reply.length);
          return reply;
        }
        if (this.ended !== null) throw new Broken(this.ended);
        await new Promise<void>((resolve) => (this.wake = resolve));
      }
    } finally {
      timer.cancel();
    }
  }

  end(): void {
    this.socket.write('QUIT\r\n');
  }
}

/** The certificate does not matter here: no secret is sent. */
async function secured(clock: Clock, socket: net.Socket, host: string): Promise<net.Socket> {
  socket.removeAllListeners('data');
  const servername = net.isIP(host) === 0 ? { servername: host } : {};
  return opened(clock, tls.connect({ socket, ...servername, rejectUnauthorized: false }), 'secureConnect');
}

function opened<S extends net.Socket>(clock: Clock, socket: S, event: 'connect' | 'secureConnect'): Promise<S> {
  return new Promise((resolve, reject) => {
    const timer = clock.after(STEP_MS, () => {
      socket.destroy();
      reject(new Broken(`no answer within ${String(STEP_MS / 1000)} s`));
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      timer.cancel();
      const said = tlsFaultText(error);
      reject(new Broken(said === error.message ? (error.code ?? said) : said));
    });
    socket.once(event, () => {
      timer.cancel();
      resolve(socket);
    });
  });
}
