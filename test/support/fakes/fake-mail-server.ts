/**
 * A receiving mail server on loopback that does what a script says, stage by stage, with real TLS. It reads the dialogue
 * with its own few lines, so that a fault in our parsers cannot hide itself.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { TLSSocket, createSecureContext } from 'node:tls';
import type { SecureContext, SecureContextOptions } from 'node:tls';

/** `data` is the answer to DATA, `message` the one to the final dot. */
export type Stage =
  'connect' | 'ehlo' | 'helo' | 'starttls' | 'auth' | 'mail' | 'rcpt' | 'data' | 'message' | 'rset' | 'quit';

/**
 * A string is a reply (CRLF is added). `raw` goes out as it is. `drop` closes, `reset` sends RST, `hang` never answers
 * again. `then` comes after the reply is out.
 */
export type Action = string | { raw: string; then?: 'drop' | 'hang' | 'reset' | 'tls' | 'garbage' };

export type Script = Partial<Record<Stage, Action | ((line: string, session: ServerSession) => Action)>>;

export interface ReceivedMail {
  from: string;
  to: string[];
  /** As sent, dots unstuffed, without the final dot. */
  data: string;
}

export interface ServerSession {
  /** The address it came from. */
  from: string;
  /** Command lines as received. */
  lines: string[];
  /** Each entry lists the commands, or `(data)`, that came in one piece: shows pipelining. */
  bursts: string[][];
  mails: ReceivedMail[];
  /** Protocol once TLS stands. */
  tls: string | null;
  resumed: boolean;
  /** The name the client asked for in its hello. */
  servername: string | null;
  /** Sends a text that is not an answer to a command. */
  say(raw: string): void;
  /** Reads no more, so that the client's writes run into a full window. */
  pause(): void;
  resume(): void;
  end(): void;
  reset(): void;
  readonly closed: Promise<void>;
}

export interface MailServerOptions {
  script?: Script;
  /** Keywords offered after EHLO; STARTTLS is added while it can be used. */
  extensions?: string[];
  tls?: 'starttls' | 'implicit' | 'none';
  certificate?: SecureContextOptions;
  /** A mail that is refused at its end leaves its transaction open, as in Postfix with a policy service: until RSET another MAIL gets 503. */
  keepsTransactions?: true;
  /** Refuses clients that show no certificate: with TLS 1.3 its alert comes behind their side of the handshake. */
  wantsClientCertificate?: true;
  /** Where to listen; 127.0.0.1 and a free port where not given. All of 127.0.0.0/8 is ours, so several servers can share a port. */
  listen?: { host?: string; port?: number };
}

export interface FakeMailServer {
  port: number;
  options: MailServerOptions;
  sessions: ServerSession[];
  /** Resolves when a stage was reached so many times in all sessions together. */
  reached(stage: Stage, count?: number): Promise<void>;
  close(): Promise<void>;
}

export async function startMailServer(options: MailServerOptions = {}): Promise<FakeMailServer> {
  const counts = new Map<Stage, number>();
  let waiters: { stage: Stage; count: number; resolve: () => void }[] = [];
  const sockets = new Set<Socket>();
  const listener = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    const dialogue = new Dialogue(socket, server.options, note);
    server.sessions.push(dialogue.session);
    dialogue.start();
  });
  function note(stage: Stage): void {
    counts.set(stage, (counts.get(stage) ?? 0) + 1);
    const arrived = (waiter: { stage: Stage; count: number }): boolean =>
      (counts.get(waiter.stage) ?? 0) >= waiter.count;
    for (const waiter of waiters) if (arrived(waiter)) waiter.resolve();
    waiters = waiters.filter((waiter) => !arrived(waiter));
  }
  listener.listen(options.listen?.port ?? 0, options.listen?.host ?? '127.0.0.1');
  await once(listener, 'listening');
  const server: FakeMailServer = {
    // A TCP server listening on an IP address has an AddressInfo.
    port: (listener.address() as AddressInfo).port,
    options,
    sessions: [],
    reached: (stage, count = 1) =>
      new Promise((resolve) => {
        if ((counts.get(stage) ?? 0) >= count) resolve();
        else waiters.push({ stage, count, resolve });
      }),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
  return server;
}

const usual: Record<Stage, string> = {
  connect: '220 mx.dest.test ESMTP',
  ehlo: '',
  helo: '250 mx.dest.test',
  starttls: '220 2.0.0 go ahead',
  auth: '235 2.7.0 welcome',
  mail: '250 2.1.0 ok',
  rcpt: '250 2.1.5 ok',
  data: '354 go ahead',
  message: '250 2.0.0 taken',
  rset: '250 2.0.0 reset',
  quit: '221 2.0.0 bye',
};

const stageOf: Record<string, Stage> = {
  EHLO: 'ehlo',
  HELO: 'helo',
  STARTTLS: 'starttls',
  AUTH: 'auth',
  MAIL: 'mail',
  RCPT: 'rcpt',
  DATA: 'data',
  RSET: 'rset',
  QUIT: 'quit',
};

/** One context per certificate: tickets of one connection have to open the next. */
const contexts = new WeakMap<SecureContextOptions, SecureContext>();

function contextOf(certificate: SecureContextOptions): SecureContext {
  const context = contexts.get(certificate) ?? createSecureContext(certificate);
  contexts.set(certificate, context);
  return context;
}

class Dialogue {
  readonly session: ServerSession;
  private readonly raw: Socket;
  private readonly options: MailServerOptions;
  private readonly note: (stage: Stage) => void;
  private socket: Socket;
  private received = '';
  private inMessage = false;
  /** True after 334: the next line is not a command. */
  private inAuth = false;
  private deaf = false;
  private isInTransaction = false;
  private mail: ReceivedMail = { from: '', to: [], data: '' };

  constructor(socket: Socket, options: MailServerOptions, note: (stage: Stage) => void) {
    this.raw = socket;
    this.socket = socket;
    this.options = options;
    this.note = note;
    this.session = {
      from: socket.remoteAddress ?? '',
      lines: [],
      bursts: [],
      mails: [],
      tls: null,
      resumed: false,
      servername: null,
      say: (text) => this.socket.write(text),
      pause: () => this.raw.pause(),
      resume: () => this.raw.resume(),
      end: () => this.socket.end(),
      reset: () => this.raw.resetAndDestroy(),
      closed: new Promise((resolve) =>
        socket.once('close', () => {
          resolve();
        }),
      ),
    };
  }

  start(): void {
    if (this.options.tls === 'implicit')
      this.secure(() => {
        this.perform('connect', '');
      });
    else {
      this.listen();
      this.perform('connect', '');
    }
  }

  private listen(): void {
    this.socket.on('error', () => undefined);
    this.socket.on('data', (chunk: Buffer) => {
      this.take(chunk.toString('latin1'));
    });
    this.socket.on('end', () => this.socket.end());
  }

  private take(text: string): void {
    if (this.deaf) return;
    const burst: string[] = [];
    this.session.bursts.push(burst);
    this.received += text;
    while (this.inMessage ? this.takeMessage(burst) : this.takeCommand(burst));
  }

  /** False when there is no whole line, or when the script says to listen no more. */
  private takeCommand(burst: string[]): boolean {
    const end = this.received.indexOf('\r\n');
    if (end < 0 || this.deaf) return false;
    const line = this.received.slice(0, end);
    this.received = this.received.slice(end + 2);
    burst.push(line);
    this.takeLine(line);
    return true;
  }

  private takeMessage(burst: string[]): boolean {
    if (this.received === '' || this.deaf) return false;
    if (!burst.includes('(data)')) burst.push('(data)');
    const all = `\r\n${this.received}`;
    const end = all.indexOf('\r\n.\r\n');
    if (end < 0) return false;
    this.received = all.slice(end + 5);
    this.inMessage = false;
    this.mail.data = all.slice(2, Math.max(2, end + 2)).replace(/(^|\r\n)\./g, '$1');
    this.session.mails.push(this.mail);
    this.perform('message', this.mail.data);
    return true;
  }

  private takeLine(line: string): void {
    this.session.lines.push(line);
    const stage = this.inAuth ? 'auth' : stageOf[(line.split(' ')[0] ?? '').toUpperCase()];
    if (stage === undefined) this.socket.write('500 5.5.2 what?\r\n');
    else if (stage === 'mail' && this.isInTransaction) this.socket.write('503 5.5.1 Error: nested MAIL command\r\n');
    else {
      if (stage === 'mail') this.mail = { from: /<(.*)>/.exec(line)?.[1] ?? '', to: [], data: '' };
      if (stage === 'rcpt') this.mail.to.push(/<(.*)>/.exec(line)?.[1] ?? '');
      this.perform(stage, line);
    }
  }

  private perform(stage: Stage, line: string): void {
    const scripted = this.options.script?.[stage];
    const action = typeof scripted === 'function' ? scripted(line, this.session) : (scripted ?? this.ordinary(stage));
    this.act(stage, action);
    this.note(stage);
  }

  private ordinary(stage: Stage): string {
    if (stage !== 'ehlo') return usual[stage];
    const offers = [
      ...(this.options.extensions ?? ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES', 'SIZE 1000000']),
    ];
    if (this.options.tls === 'starttls' && this.session.tls === null) offers.push('STARTTLS');
    return ['mx.dest.test', ...offers].map((text, at) => `250${at === offers.length ? ' ' : '-'}${text}`).join('\r\n');
  }

  private act(stage: Stage, action: Action): void {
    const then = typeof action === 'object' ? action.then : undefined;
    const what = action === 'drop' || action === 'hang' || action === 'reset' ? action : then;
    if (what !== undefined) this.deaf = true;
    if (typeof action === 'object') this.socket.write(action.raw);
    else if (what === undefined) this.answer(stage, action);
    if (what === 'drop') this.socket.end();
    // A reset in the same turn would take the reply with it.
    if (what === 'reset') setImmediate(() => setImmediate(() => this.raw.resetAndDestroy()));
    if (what === 'tls') this.secure();
    if (what === 'garbage') this.socket.end('this is not TLS, whatever was agreed upon\r\n'.repeat(10));
  }

  private answer(stage: Stage, reply: string): void {
    this.socket.write(`${reply}\r\n`);
    this.inAuth = stage === 'auth' && reply.startsWith('334');
    if (stage === 'data' && reply.startsWith('354')) this.inMessage = true;
    if (this.options.keepsTransactions === true) this.noteTransaction(stage, reply.startsWith('2'));
    if (stage === 'quit') this.socket.end();
    if (stage === 'starttls' && reply.startsWith('220')) this.secure();
  }

  private noteTransaction(stage: Stage, isTaken: boolean): void {
    if (stage === 'mail') this.isInTransaction = isTaken;
    else if (stage === 'message' && !isTaken) this.mail = { from: this.mail.from, to: [], data: '' };
    else if (isTaken && (stage === 'message' || stage === 'rset' || stage === 'ehlo')) this.isInTransaction = false;
  }

  private secure(ready?: () => void): void {
    this.socket.removeAllListeners('data');
    this.deaf = false;
    this.received = '';
    const secured = new TLSSocket(this.raw, {
      isServer: true,
      ...(this.options.wantsClientCertificate === true ? { requestCert: true, rejectUnauthorized: true } : {}),
      secureContext: contextOf(this.options.certificate ?? {}),
      SNICallback: (name, done) => {
        this.session.servername = name;
        done(null);
      },
    });
    this.socket = secured;
    this.listen();
    secured.once('secure', () => {
      this.session.tls = secured.getProtocol();
      this.session.resumed = secured.isSessionReused();
      ready?.();
    });
  }
}
