/** An SMTP listener (RFC 5321) on smtp-server, with deadlines, limits, enhanced codes (RFC 2034) and an orderly end. Handlers decide the rest. */
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerDataStream, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { listenOn, logAcceptErrors } from '../net/listening.ts';
import { isStorageTrouble } from '../storage/commit.ts';
import { feedDirectly, readData, withCrlfLines } from './data-mode.ts';
import { listenerLimits, takeMail, Tally } from './mail-intake.ts';
import type { LimitName, ListenerLimits, MailHold, ReadMail, TakenMail } from './mail-intake.ts';
import { OpenSessions, STOPPING } from './open-sessions.ts';
import {
  endConnection,
  findConnection,
  greetAtOnce,
  guardSockets,
  JOKES,
  keepEnhancedCodes,
  refuseCommand,
} from './smtp-connection.ts';
import { noKeyInClear, refuse, type SmtpRefusal } from './smtp-refusal.ts';

export interface Session<User> {
  readonly id: string;
  readonly ip: string;
  readonly isSecure: boolean;
  /** The name that the client gave in EHLO. */
  readonly helo: string;
  /** `ESMTPS`, `ESMTPSA`, ... for Received (RFC 3848). */
  readonly protocol: string;
  readonly user: User | null;
  readonly sender: string;
  /** Octets of the mail, as MAIL announced them; 0 if it did not. */
  readonly announced: number;
  readonly recipients: readonly string[];
  /** The mail must have TLS all the way (RFC 8689). */
  readonly requireTls: boolean;
}

interface Accepted {
  /** The mail of ours that the address proves this to answer. A session with a proof does not give way to others, and each is good for one at a time. */
  proof: string | null;
  /** How a mail whose first recipient this is is held while it arrives, if it is not as others are. */
  hold: MailHold | null;
}

export interface Handlers<User> {
  /** True for an address of a trusted network. Others may not sign in before TLS, and are not offered it, so that they send no key in the clear. */
  isTrusted?(ip: string): boolean;
  /** Checks a sign-in; a refusal slows the session down. */
  authenticate?(session: Session<User>, name: string, password: string): Promise<{ user: User } | SmtpRefusal>;
  sender(session: Session<User>, address: string): Promise<SmtpRefusal | null>;
  /** Null for a recipient that is taken as any other. */
  recipient(session: Session<User>, address: string): Promise<SmtpRefusal | Accepted | null>;
  /** Takes the mail, cut at `keepBytes`; `size` is that of all of it. Returns the text of the 250, or the refusal. */
  data(session: Session<User>, mail: Buffer, size: number): Promise<string | SmtpRefusal>;
  /** Called when a mail was refused for its size, which MAIL announced or DATA showed. */
  tooLarge?(session: Session<User>, step: 'MAIL' | 'DATA'): void;
  /** Called when a session was refused, or had to give way, because of this limit; `hold`: of its recipient. */
  overLimit?(limit: LimitName, hold: MailHold | null): void;
  /** Called with 250 for each mail that was taken, and with the code of each refusal of a sign-in, a sender, a recipient or a mail. */
  ended?(code: number): void;
}

interface ListenerOptions {
  host: string;
  port: number;
  hostname: string;
  /** TLS from the first octet. */
  isSecure: boolean;
  certificate: { cert: string; key: string };
  /** Largest mail, in octets; EHLO announces it. */
  size: number;
  /** Octets of a mail that are kept. */
  keepBytes: number;
  maxRecipients: number;
  /** SMTPUTF8 (RFC 6531) is offered. */
  smtputf8: boolean;
  limits?: Partial<ListenerLimits>;
  /** Returns whether an operator takes this server out of service, so that new sessions have to go to another one. */
  isDraining?: () => boolean;
  /** Counts the octets in memory; listeners that share it share `heldBytes`. */
  memory?: Tally;
}

const TAKEN = 250;
/** RFC 4954 section 6. */
const WRONG_KEY = 535;
/** A refusal that ends the session (RFC 5321 section 3.8). */
const CLOSING = 421;
/** A failed sign-in waits so long, times the session's failures (five at most). Others do not: 256 random bits cannot be guessed. */
const SLOW_DOWN_MS = 1000;
const LONGEST_COMMAND = 4096;
const CLOSE_MS = 10_000;
/** The factor for smtp-server's limit of connections, which counts those that it greets only after 100 ms. */
const UNGREETED = 1;

export class Listener<User> {
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly options: ListenerOptions;
  private readonly handlers: Handlers<User>;
  private readonly limits: ListenerLimits;
  private readonly memory: Tally;
  private readonly sessions: OpenSessions<User>;
  private readonly server: SMTPServer;
  private isClosing = false;

  constructor({ clock, log }: { clock: Clock; log: Log }, options: ListenerOptions, handlers: Handlers<User>) {
    this.clock = clock;
    this.log = log;
    this.options = options;
    this.handlers = handlers;
    this.limits = { ...listenerLimits, ...options.limits };
    this.memory = options.memory ?? new Tally();
    this.sessions = new OpenSessions({
      clock,
      limits: this.limits,
      isTrusted: (ip) => handlers.isTrusted?.(ip) === true,
      overLimit: (limit) => handlers.overLimit?.(limit, null),
    });
    this.server = new SMTPServer({ ...this.serverSettings(), ...this.sessionSteps(), ...this.mailSteps() });
    if (options.isSecure) guardSockets(this.server, (socket) => this.sessions.admitSocket(socket));
    // Programs that submit sign in or are trusted, so that waiting for those that speak before the greeting tells nothing.
    if (this.isSubmission) greetAtOnce(this.server);
    // smtp-server hands on the errors of its net.Server here, and reports those of single connections here as well.
    logAcceptErrors({ clock, log }, this.server.server, 'smtp');
    this.server.on('error', (error) => {
      log.debug({ event: 'smtp_connection_failed', err: error }, 'an SMTP connection failed');
    });
  }

  private get isSubmission(): boolean {
    return this.handlers.authenticate !== undefined;
  }

  /** Commands that no session of this listener has. */
  private get commandsOff(): string[] {
    return [...JOKES, ...(this.isSubmission ? [] : ['AUTH'])];
  }

  /** Parameters of MAIL. AUTH (RFC 4954) and REQUIRETLS (RFC 8689): who submits has them, other mail hosts have not. */
  private get offered(): string[] {
    const { smtputf8 } = this.options;
    return ['SIZE', 'BODY', ...(smtputf8 ? ['SMTPUTF8'] : []), ...(this.isSubmission ? ['AUTH', 'REQUIRETLS'] : [])];
  }

  private serverSettings(): SMTPServerOptions {
    const { options, limits } = this;
    return {
      ...options.certificate,
      secure: options.isSecure,
      name: options.hostname,
      banner: 'Posthorn',
      size: options.size,
      maxRecipients: options.maxRecipients,
      maxClients: (limits.connections + limits.clientConnections) * (1 + UNGREETED),
      maxCommandLength: LONGEST_COMMAND,
      maxAllowedUnauthenticatedCommands: false,
      socketTimeout: limits.idleMs,
      closeTimeout: CLOSE_MS,
      authOptional: true,
      allowInsecureAuth: true,
      // Mailboxes such as <foo.@docomo.ne.jp> exist, and programs send as <root@web_1>. Recipients are checked by our own address rule.
      lenientAddressParsing: true,
      disabledCommands: this.commandsOff,
      hideENHANCEDSTATUSCODES: false,
      hideSMTPUTF8: !options.smtputf8,
      hideREQUIRETLS: !this.isSubmission,
      disableReverseLookup: true,
      logger: false,
    };
  }

  private sessionSteps(): SMTPServerOptions {
    return {
      onConnect: (session, callback) => {
        const refusal = this.admit(session);
        callback(refusal === null ? null : asError(refusal));
      },
      onSecure: (_socket, session, callback) => {
        session.disabledCommands = this.commandsOff;
        this.sessions.signedOut(session.id);
        // Programs are known that send no second EHLO after STARTTLS; Postfix serves them too.
        const connection = findConnection(this.server, session.id);
        if (connection !== undefined && !this.options.isSecure) connection.hostNameAppearsAs = 'unknown';
        callback(null);
      },
      onAuth: (auth, session, callback) => {
        void this.signIn(session, auth.username ?? '', auth.password ?? '').then((result) => {
          if ('user' in result) callback(null, { user: result.user });
          else callback(asError(result));
        });
      },
      onClose: (session) => {
        this.sessions.remove(session.id);
      },
    };
  }

  private mailSteps(): SMTPServerOptions {
    const { handlers } = this;
    return {
      onMailFrom: ({ address, args }, session, callback) => {
        const given = parametersOf(args);
        // smtp-server keeps what a MAIL that was refused had asked for, and would apply it to the next one.
        session.envelope.requireTLS = given['REQUIRETLS'] === true;
        const wrong = checkParameters(given, this.offered);
        const ask = async (): Promise<SmtpRefusal | null> => wrong ?? handlers.sender(this.viewOf(session), address);
        this.answer(session, ask, callback);
      },
      onRcptTo: ({ address, args }, session, callback) => {
        const wrong = checkParameters(parametersOf(args), []);
        this.answer(session, async () => wrong ?? this.askRecipient(session, address), callback);
      },
      onData: (stream, session, callback) => {
        void this.receive(stream, session).then((result) => {
          if (typeof result === 'string') callback(null, result);
          else callback(asError(result));
          this.sessions.replied(session.id, { isClosing: this.isClosing });
        });
      },
    };
  }

  /** Returns null for a client that may stay. */
  private admit(session: SMTPServerSession): SmtpRefusal | null {
    const { id, remoteAddress: ip } = session;
    if (this.isClosing) return refuse(421, STOPPING);
    if (this.options.isDraining?.() === true) return refuse(421, '4.3.2 this server is being taken out of service');
    const connection = findConnection(this.server, id);
    if (connection === undefined) return refuse(421, '4.3.0 the connection is gone');
    feedDirectly(connection);
    keepEnhancedCodes(connection, (code, { isCoded }) => {
      // smtp-server itself refuses a size that MAIL announces, and asks no handler.
      if (code === 552 && !isCoded && !session.envelope.mailFrom)
        this.handlers.tooLarge?.(this.viewOf(session), 'MAIL');
      if (code >= 500) this.sessions.countError(id);
    });
    const refusal = this.sessions.admit(id, ip, connection);
    if (refusal === null && this.isSubmission && !this.options.isSecure && this.handlers.isTrusted?.(ip) !== true) {
      session.disabledCommands = [...JOKES, 'AUTH'];
      refuseCommand(connection, 'AUTH', noKeyInClear);
    }
    return refusal;
  }

  private async signIn(
    session: SMTPServerSession,
    name: string,
    password: string,
  ): Promise<{ user: User } | SmtpRefusal> {
    const { handlers, sessions } = this;
    const open = sessions.get(session.id);
    const nothing = refuse(502, '5.5.1 there is nothing to sign in to');
    if (open === undefined) return nothing;
    const ask = handlers.authenticate?.(this.viewOf(session), name, password) ?? Promise.resolve(nothing);
    const result = await this.guarded(() => ask);
    if ('user' in result) return sessions.signedIn(session.id, result.user) ?? result;
    handlers.ended?.(result.code);
    // Any other refusal (TLS first, say) is not a guess.
    if (result.code !== WRONG_KEY && result.code !== CLOSING) return result;
    open.failedSignIns++;
    await this.clock.sleep(SLOW_DOWN_MS * Math.min(5, open.failedSignIns));
    if (result.code === CLOSING) sessions.end(session.id, result.text);
    else if (open.failedSignIns >= this.limits.signIns) sessions.end(session.id, '4.7.0 too many failed sign-ins');
    return result;
  }

  private async askRecipient(session: SMTPServerSession, address: string): Promise<SmtpRefusal | null> {
    const view = this.viewOf(session);
    const result = await this.handlers.recipient(view, address);
    if (result === null || 'code' in result) return result;
    const open = this.sessions.get(session.id);
    if (view.recipients.length === 0 && open !== undefined) open.hold = result.hold;
    if (result.proof !== null) this.sessions.noteProof(session.id, result.proof);
    return null;
  }

  private answer(
    session: SMTPServerSession,
    ask: () => Promise<SmtpRefusal | null>,
    callback: (error?: Error | null) => void,
  ): void {
    void this.guarded(ask).then((refusal) => {
      this.sessions.expectStep(session.id, this.limits.commandMs);
      if (refusal !== null) this.handlers.ended?.(refusal.code);
      callback(refusal === null ? null : asError(refusal));
    });
  }

  private async receive(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<string | SmtpRefusal> {
    const { sessions, limits, clock, options } = this;
    const { id } = session;
    const open = sessions.get(id);
    if (open !== undefined) open.isReceiving = true;
    sessions.expectStep(id, limits.dataMs);
    const { announced } = this.viewOf(session);
    const read: ReadMail = (take) => readData(stream, take);
    const tooSlow = (): void => sessions.cut(id, '4.4.2 the mail came too slowly');
    try {
      const hold = open?.hold ?? null;
      return await takeMail(
        { clock, limits, memory: this.memory, keepBytes: options.keepBytes, ...hold },
        // The reader of submitted mail looks at each octet by itself.
        { read: this.isSubmission ? read : withCrlfLines(read), network: open?.network ?? '', announced, tooSlow },
        async (mail) => {
          const result = await this.handleMail(session, mail, hold);
          this.handlers.ended?.(typeof result === 'string' ? TAKEN : result.code);
          return result;
        },
      );
    } catch (error) {
      // The stream ends with an error if the client has gone in the middle of its mail, so no client reads the answer.
      this.log.debug({ event: 'smtp_mail_broken_off', err: error }, 'an SMTP client left in the middle of a mail');
      return refuse(451, '4.4.2 the mail did not arrive whole');
    }
  }

  private async handleMail(
    session: SMTPServerSession,
    { bytes, size, full }: TakenMail,
    hold: MailHold | null,
  ): Promise<string | SmtpRefusal> {
    const open = this.sessions.get(session.id);
    if (open !== undefined) open.isStoring = true;
    if (full !== null) {
      this.handlers.overLimit?.(full, hold);
      return refuse(452, '4.3.1 too much mail at once: try again later');
    }
    if (size > this.options.size) {
      this.handlers.tooLarge?.(this.viewOf(session), 'DATA');
      return refuse(552, `5.3.4 the mail is larger than ${String(this.options.size)} octets`);
    }
    return this.guarded(() => this.handlers.data(this.viewOf(session), bytes(), size));
  }

  /** Turns what a handler throws into a refusal: a bug must neither reach the client nor end the listener. */
  private async guarded<Result>(ask: () => Promise<Result>): Promise<Result | SmtpRefusal> {
    try {
      return await ask();
    } catch (error) {
      this.log.error({ event: 'smtp_failed', err: error }, 'an SMTP command failed');
      if (isStorageTrouble(error)) return refuse(452, '4.3.1 there is no room now: try again later');
      return refuse(451, '4.3.0 something went wrong here: try again later');
    }
  }

  private viewOf(session: SMTPServerSession): Session<User> {
    const { mailFrom, rcptTo, requireTLS } = session.envelope;
    return {
      id: session.id,
      ip: session.remoteAddress,
      isSecure: session.secure,
      helo: session.hostNameAppearsAs || '',
      protocol: session.transmissionType,
      user: this.sessions.get(session.id)?.user ?? null,
      sender: mailFrom === false ? '' : mailFrom.address,
      announced: mailFrom === false ? 0 : Number(parametersOf(mailFrom.args)['SIZE'] ?? 0),
      recipients: rcptTo.map(({ address }) => address),
      requireTls: requireTLS === true,
    };
  }

  /** Resolves with the port. Rejects if it is in use or not allowed; then it may be called again. */
  async listen(): Promise<number> {
    const { server } = this.server;
    await listenOn(server, this.options);
    return (server.address() as AddressInfo).port;
  }

  setCertificate(certificate: { cert: string; key: string }): void {
    this.server.updateSecureContext(certificate);
  }

  /** Ends the sessions of users for whom `isOver` returns true. */
  async endWhere(isOver: (user: User) => Promise<boolean>): Promise<void> {
    for (const [id, { user }] of this.sessions.all())
      if (user !== null && (await isOver(user))) this.sessions.end(id, '4.7.0 your key is no longer good');
  }

  async close(): Promise<void> {
    this.isClosing = true;
    for (const [, { isReceiving, connection }] of this.sessions.all())
      if (!isReceiving) endConnection(connection, 421, STOPPING);
    await new Promise<void>((resolve) => {
      this.server.close(resolve);
    });
    this.sessions.removeAll();
  }
}

/** Parameters of MAIL and RCPT in the form of smtp-server, whose types promise strings only: names in capitals, `true` for one without a value. */
type EsmtpParameters = Readonly<Record<string, string | true>>;

const parametersOf = (args: object | false): EsmtpParameters => (args === false ? {} : (args as EsmtpParameters));

const asError = ({ code, text }: SmtpRefusal): Error => Object.assign(new Error(text), { responseCode: code });

/** Refuses parameters of extensions that we do not offer (RFC 5321 section 4.1.1.11): a client that relies on one must not get 250. */
export function checkParameters(given: EsmtpParameters, offered: readonly string[]): SmtpRefusal | null {
  const unknown = Object.keys(given).find((name) => !offered.includes(name));
  if (unknown === undefined) return null;
  const shown = /^[A-Z0-9][A-Z0-9-]{0,63}$/.test(unknown) ? ` ${unknown}` : '';
  return refuse(555, `5.5.4 the parameter${shown} is not known here`);
}
