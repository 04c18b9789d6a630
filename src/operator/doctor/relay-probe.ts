/**
 * Tries a smarthost as the delivery does, and sends no mail: signs in with the route's password, or without one offers a sender
 * and a recipient. Many hosts greet everybody, and refuse only the recipient.
 */
import net from 'node:net';
import tls from 'node:tls';
import type { Clock } from '../../base/clock.ts';
import { extensionsOf, loginLines, NO_KNOWN_LOGIN, noExtensions, type Extensions } from '../../mail/smtp-extensions.ts';
import { ReplyReader, type SmtpReply } from '../../mail/smtp-reply.ts';
import { tlsFaultText } from '../../net/tls-fault.ts';
import type { RelayAnswer, SignIn, SmarthostAccess, SmarthostPlace } from './probes.ts';

const STEP_MS = 8_000;
/** How long an address is tried before the next one. */
const ADDRESS_MS = 2_000;
/** Replies that may come before they are asked for; a server without end would fill the memory. */
const MOST_UNREAD = 16;

/** Thrown inside this file when the dialogue cannot go on. */
class Broken extends Error {}

type Talk<T> = (replies: Replies, extensions: Extensions) => Promise<T>;

/** Offers a mail from and to `postmaster@<hostname>` and ends the session before its content. Never rejects. */
export const offerMail = (deps: { clock: Clock }, place: SmarthostPlace): Promise<RelayAnswer> =>
  inSession(deps, place, place.tls === 'required', (replies) => offered(replies, `postmaster@${place.hostname}`));

/** Signs in. Sends a password without TLS only if the route says so. Never rejects. */
export const signIn = (deps: { clock: Clock }, { auth, ...place }: SmarthostAccess): Promise<SignIn> =>
  inSession(deps, place, place.tls !== 'none', (replies, extensions) => signedIn(replies, extensions, auth));

async function inSession<T>(
  { clock }: { clock: Clock },
  place: SmarthostPlace,
  isTlsNeeded: boolean,
  talk: Talk<T>,
): Promise<T | { kind: 'unreachable' | 'failed'; why: string }> {
  let socket: net.Socket | null = null;
  try {
    socket = await opened(clock, dialled(place), 'connect');
    if (place.tls === 'implicit') socket = await secured(clock, socket, place);
    let replies = new Replies(clock, socket);
    await replies.next(null);
    let extensions = await hello(replies, place.hostname);
    const isPlain = place.tls === 'opportunistic' || place.tls === 'required';
    if (isPlain && (await startsTls(replies, extensions, isTlsNeeded))) {
      socket = await secured(clock, socket, place);
      replies = new Replies(clock, socket);
      extensions = await hello(replies, place.hostname);
    }
    const result = await talk(replies, extensions);
    replies.end();
    return result;
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    return { kind: socket === null ? 'unreachable' : 'failed', why: error.message };
  } finally {
    socket?.destroy();
  }
}

/** A server that knows no EHLO is greeted with HELO (RFC 5321 section 3.2). */
async function hello(replies: Replies, hostname: string): Promise<Extensions> {
  const reply = await replies.ask(`EHLO ${hostname}`);
  if (isGood(reply)) return extensionsOf(reply);
  if (reply.code < 500) throw new Broken(wordsOf(reply));
  await replies.next(`HELO ${hostname}`);
  return noExtensions;
}

async function startsTls(replies: Replies, { startTls }: Extensions, isNeeded: boolean): Promise<boolean> {
  const reply = startTls ? await replies.ask('STARTTLS') : null;
  if (reply?.code === 220) return true;
  if (reply?.code === 421) throw new Broken(wordsOf(reply));
  if (isNeeded)
    throw new Broken(
      reply === null ? 'the server does not offer STARTTLS' : `the server refuses STARTTLS: ${wordsOf(reply)}`,
    );
  return false;
}

async function signedIn(
  replies: Replies,
  { auth: mechanisms }: Extensions,
  auth: SmarthostAccess['auth'],
): Promise<SignIn> {
  const lines = loginLines(mechanisms, auth);
  if (lines === null) throw new Broken(NO_KNOWN_LOGIN);
  for (const line of lines) {
    const reply = await replies.ask(line);
    if (reply.code === 235) return { kind: 'signed_in' };
    if (reply.code !== 334) return { kind: reply.code >= 500 ? 'refused' : 'failed', why: wordsOf(reply) };
  }
  throw new Broken('the server asks for more than the credentials');
}

async function offered(replies: Replies, address: string): Promise<RelayAnswer> {
  for (const command of [`MAIL FROM:<${address}>`, `RCPT TO:<${address}>`]) {
    const reply = await replies.ask(command);
    if (!isGood(reply)) return { kind: isOfRelaying(reply) ? 'login_wanted' : 'refused', why: wordsOf(reply) };
  }
  return { kind: 'taken' };
}

/**
 * RFC 4954 section 6 names 530; others say 5.7.1 and mention relaying, access or authentication. Postfix defers relaying by
 * default (454 4.7.1), and 4.7.1 without these words is what greylisting says.
 */
const isOfRelaying = ({ code, text }: SmtpReply): boolean =>
  code === 530 || /auth|log ?in|relay|access denied/i.test(text) || (code >= 500 && /\b5\.7\.(?:0|1|3)\b/.test(text));

const isGood = ({ code }: SmtpReply): boolean => code >= 200 && code < 300;

const wordsOf = ({ code, text }: SmtpReply): string => `${String(code)} ${text}`.trimEnd();

/** Reads whole replies, each within a time limit. */
class Replies {
  private readonly clock: Clock;
  private readonly socket: net.Socket;
  private readonly reader = new ReplyReader();
  private readonly unread: SmtpReply[] = [];
  private ended: string | null = null;
  private wake: () => void = () => undefined;

  constructor(clock: Clock, socket: net.Socket) {
    this.clock = clock;
    this.socket = socket;
    const over = (why: string): void => {
      this.ended ??= why;
      this.wake();
    };
    socket.on('data', (more: Buffer) => {
      this.unread.push(...this.reader.push(more));
      if (this.reader.fault !== null) over(this.reader.fault.why);
      if (this.unread.length > MOST_UNREAD) {
        this.unread.length = 0;
        over('it sends replies that nothing asked for');
        socket.destroy();
      }
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
  async next(command: string | null): Promise<SmtpReply> {
    const reply = await this.ask(command);
    if (!isGood(reply)) throw new Broken(wordsOf(reply));
    return reply;
  }

  async ask(command: string | null): Promise<SmtpReply> {
    if (command !== null) this.socket.write(`${command}\r\n`);
    const timer = this.clock.after(STEP_MS, () => {
      this.ended ??= `no answer within ${String(STEP_MS / 1000)} s`;
      this.wake();
    });
    try {
      for (;;) {
        const reply = this.unread.shift();
        if (reply !== undefined) return reply;
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

/** Dials the addresses one after the other, until one answers. */
function dialled({ host, ips, port }: SmarthostPlace): net.Socket {
  const all = ips.map((address) => ({ address, family: net.isIP(address) }));
  return net.connect({
    host,
    port,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ADDRESS_MS,
    lookup: (_name, _options, done) => {
      done(null, all);
    },
  });
}

/** The delivery checks the certificate only if TLS is there from the start. */
async function secured(clock: Clock, socket: net.Socket, { host, tls: mode }: SmarthostPlace): Promise<net.Socket> {
  socket.removeAllListeners('data');
  const servername = net.isIP(host) === 0 ? { servername: host } : {};
  return opened(
    clock,
    tls.connect({ socket, host, ...servername, rejectUnauthorized: mode === 'implicit' }),
    'secureConnect',
  );
}

function opened<S extends net.Socket>(clock: Clock, socket: S, event: 'connect' | 'secureConnect'): Promise<S> {
  return new Promise((resolve, reject) => {
    const timer = clock.after(STEP_MS, () => {
      socket.destroy();
      reject(new Broken(`no answer within ${String(STEP_MS / 1000)} s`));
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      timer.cancel();
      reject(new Broken(event === 'connect' ? (error.code ?? error.message) : tlsFaultText(error)));
    });
    socket.once(event, () => {
      timer.cancel();
      resolve(socket);
    });
  });
}
