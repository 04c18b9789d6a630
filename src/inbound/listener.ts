/**
 * An SMTP listener (RFC 5321) on smtp-server, with what that leaves open: deadlines of our own (its timeout counts only
 * idleness, so one octet a second would live for ever), limits for each address and in all, replies with the enhanced status
 * codes we mean (RFC 2034), and an end. What a session may do is asked of the handlers.
 */
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerSession } from 'smtp-server';
import { logAcceptErrors } from '../net/accept-errors.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { Crowds } from '../net/crowds.ts';
import { addressBucket, networkOf, siteOf } from '../net/ip.ts';
import { isStorageTrouble } from '../storage/commit.ts';
import type { Log } from '../base/log.ts';
import { LOOKS, Patience } from '../net/patience.ts';
import { Tally } from './tally.ts';
import { RateWindows } from '../scheduling/rate-windows.ts';
import { checkMailParameters, checkRecipientParameters, type EsmtpParameters } from './esmtp-parameters.ts';
import { refuse, type SmtpRefusal } from './smtp-refusal.ts';

/** What a handler sees of a session. */
export interface Session<User> {
  readonly id: string;
  readonly ip: string;
  readonly isSecure: boolean;
  /** As the client named itself. */
  readonly helo: string;
  /** `ESMTPS`, `ESMTPSA`, ... for Received (RFC 3848). */
  readonly protocol: string;
  readonly user: User | null;
  readonly sender: string;
  readonly recipients: readonly string[];
  /** The mail must have TLS all the way (RFC 8689). */
  readonly requireTls: boolean;
}

export interface Handlers<User> {
  /** Whether this address may sign in before TLS; others are not offered it, lest they send a key in the clear. */
  maySignInClear?(ip: string): boolean;
  /** Who signs in; a refusal slows the session down. */
  authenticate?(session: Session<User>, name: string, password: string): Promise<{ user: User } | SmtpRefusal>;
  sender(session: Session<User>, address: string): Promise<SmtpRefusal | null>;
  recipient(session: Session<User>, address: string): Promise<SmtpRefusal | null>;
  /** The mail, cut at `keepBytes`; `size` is that of all of it. The text of the 250, or the refusal. */
  data(session: Session<User>, mail: Buffer, size: number): Promise<string | SmtpRefusal>;
  /** A mail was refused for its size, which the client announced or showed. */
  tooLarge?(session: Session<User>, step: 'MAIL' | 'DATA'): void;
  /**
   * What an accepted recipient proves: a name for the mail of ours that this is an answer to, or null. A session with such a proof
   * does not have to give way to others, and each proof is good for one session at a time.
   */
  proofOf?(address: string): string | null;
  /** Somebody was refused, or had to give way, because of this limit. */
  overLimit?(limit: LimitName): void;
}

/** Limits on what is held for everybody and for one network. */
export type LimitName = 'connections' | 'connectionsPerNetwork' | 'heldBytes' | 'heldBytesPerNetwork';

export interface ListenerOptions {
  host: string;
  port: number;
  hostname: string;
  /** TLS from the first octet. */
  isSecure: boolean;
  certificate: { cert: string; key: string };
  /** Largest mail; it is told in EHLO. */
  size: number;
  /** How much of a mail is kept. */
  keepBytes: number;
  maxRecipients: number;
  limits?: Partial<ListenerLimits>;
  /** What is counted as held; listeners that share it share `heldBytes`. */
  held?: HeldMail;
}

export interface ListenerLimits {
  /** When so many are there, the network that has most sessions without a proof or a user gives way to the next. */
  connections: number;
  connectionsPerAddress: number;
  /** Of a /24 or /64. */
  connectionsPerNetwork: number;
  connectionsPerMinute: number;
  /** Refused commands of one session until it is ended. */
  errors: number;
  /** Failed sign-ins of one session until it is ended. */
  signIns: number;
  /** Octets of mails in memory that are being received. */
  heldBytes: number;
  /** Of them, what one network may have. */
  heldBytesPerNetwork: number;
  idleMs: number;
  greetingToMailMs: number;
  commandMs: number;
  dataMs: number;
  /** How long a mail may fall behind `dataPace`. */
  dataIdleMs: number;
  /** Octets of a mail a second. */
  dataPace: number;
  sessionMs: number;
}

export const listenerLimits: ListenerLimits = {
  connections: 500,
  connectionsPerAddress: 50,
  connectionsPerNetwork: 500,
  connectionsPerMinute: 600,
  errors: 20,
  signIns: 10,
  heldBytes: 256 * 1024 * 1024,
  heldBytesPerNetwork: 256 * 1024 * 1024,
  idleMs: 30_000,
  greetingToMailMs: 60_000,
  commandMs: 30_000,
  dataMs: 10 * 60_000,
  dataIdleMs: 30_000,
  dataPace: 1024,
  sessionMs: 30 * 60_000,
};

export interface Listener<User> {
  /** Resolves with the port. Rejects where it cannot be had. */
  listen(): Promise<number>;
  setCertificate(certificate: { cert: string; key: string }): void;
  /** Ends the sessions of users for whom this holds. */
  endWhere(isOver: (user: User) => Promise<boolean>): Promise<void>;
  close(): Promise<void>;
}

/** RFC 4954 section 6. */
const WRONG_KEY = 535;
/**
 * A failed sign-in is answered so late, times the failures of the session so far, five at most. Nobody else is held up by it: a key
 * has 256 random bits, so that guessing is no danger, and many programs may share an address with one that has a stale key.
 */
const SLOW_DOWN_MS = 1000;
const LONGEST_COMMAND = 4096;
const CLOSE_MS = 10_000;
/**
 * Connections that smtp-server has not greeted yet, for each that may stay: it waits 100 ms first, and refuses by itself what comes
 * when these are there too.
 */
const UNGREETED = 1;

/** One connection, as we follow it. */
interface Watch<User> {
  ip: string;
  bucket: string;
  network: string;
  errors: number;
  failedSignIns: number;
  site: string;
  user: User | null;
  /** See `Handlers.proofOf`. */
  proof: string | null;
  isReceiving: boolean;
  phase: Timer;
  session: Timer;
  end(code: number, text: string): void;
  /** Ends the connection and frees what it has, without waiting for the other side to close. */
  cut(code: number, text: string): void;
}

const ENHANCED = /^[245]\.\d{1,3}\.\d{1,3} /;

/** The octets of mails in memory that are being received, all together and by network. */
export class HeldMail {
  total = 0;
  readonly byNetwork = new Tally();

  add(network: string, bytes: number): void {
    this.total += bytes;
    this.byNetwork.add(network, bytes);
  }
}

export function createListener<User>(
  { clock, log }: { clock: Clock; log: Log },
  options: ListenerOptions,
  handlers: Handlers<User>,
): Listener<User> {
  const limits = { ...listenerLimits, ...options.limits };
  const { held = new HeldMail() } = options;
  const watches = new Map<string, Watch<User>>();
  const perAddress = new Tally();
  const perNetwork = new Tally();
  const unproven = new Crowds<string>();
  const proofs = new Set<string>();
  const arrivals = new RateWindows();
  let closing = false;

  const server = new SMTPServer({
    ...options.certificate,
    secure: options.isSecure,
    name: options.hostname,
    banner: 'Posthorn',
    size: options.size,
    maxRecipients: options.maxRecipients,
    maxClients: limits.connections * (1 + UNGREETED),
    maxCommandLength: LONGEST_COMMAND,
    maxAllowedUnauthenticatedCommands: false,
    socketTimeout: limits.idleMs,
    closeTimeout: CLOSE_MS,
    authOptional: true,
    allowInsecureAuth: true,
    disabledCommands: handlers.authenticate === undefined ? ['AUTH'] : [],
    hideENHANCEDSTATUSCODES: false,
    hideREQUIRETLS: handlers.authenticate === undefined,
    disableReverseLookup: true,
    logger: false,
    onConnect(session, callback) {
      const refusal = come(session);
      callback(refusal === null ? null : asError(refusal));
    },
    onSecure(_socket, session, callback) {
      session.disabledCommands = handlers.authenticate === undefined ? ['AUTH'] : [];
      callback(null);
    },
    onAuth(auth, session, callback) {
      void signIn(session, auth.username ?? '', auth.password ?? '').then((result) => {
        if ('user' in result) callback(null, { user: result.user });
        else callback(asError(result));
      });
    },
    onMailFrom({ address, args }, session, callback) {
      const given = parametersOf(args);
      // smtp-server keeps what a MAIL that was refused had asked for, and would hold the next one to it.
      session.envelope.requireTLS = given['REQUIRETLS'] === true;
      const wrong = checkMailParameters(given, { isSubmission: handlers.authenticate !== undefined });
      answer(
        session,
        () => (wrong === null ? handlers.sender(viewOf(session), address) : Promise.resolve(wrong)),
        callback,
      );
    },
    onRcptTo({ address, args }, session, callback) {
      const wrong = checkRecipientParameters(parametersOf(args));
      answer(session, () => (wrong === null ? askRecipient(session, address) : Promise.resolve(wrong)), callback);
    },
    onData(stream, session, callback) {
      void receive(stream, session).then((result) => {
        if (typeof result === 'string') callback(null, result);
        else callback(asError(result));
      });
    },
    onClose(session) {
      leave(session.id);
    },
  });
  // smtp-server passes what its own server hears on to here, where single connections are told of as well.
  logAcceptErrors({ clock, log }, server.server, 'smtp');
  server.on('error', (error) => {
    log.debug({ event: 'smtp_connection_failed', err: error }, 'an SMTP connection failed');
  });

  /** Null where the client may stay. */
  function come(session: SMTPServerSession): SmtpRefusal | null {
    const ip = session.remoteAddress;
    const now = clock.now();
    const bucket = addressBucket(ip);
    if (closing) return refuse(421, '4.3.2 the service is stopping');
    const connection = [...server.connections].find(({ id }) => id === session.id);
    if (connection === undefined) return refuse(421, '4.3.0 the connection is gone');
    speakExactly(connection, session);
    if (arrivals.take(bucket, limits.connectionsPerMinute, now).over)
      return refuse(421, '4.7.0 too many connections: come back in a minute');
    if (perAddress.of(bucket) >= limits.connectionsPerAddress) return refuse(421, '4.7.0 too many connections at once');
    const network = networkOf(ip);
    if (perNetwork.of(network) >= limits.connectionsPerNetwork)
      return over('connectionsPerNetwork', 421, '4.7.0 too many connections at once from your network');
    if (watches.size >= limits.connections && !makeRoom())
      return over('connections', 421, '4.3.2 too many connections: try again later');
    const site = siteOf(ip);
    perAddress.add(bucket, 1);
    perNetwork.add(network, 1);
    watches.set(session.id, {
      ip,
      bucket,
      network,
      site,
      errors: 0,
      failedSignIns: 0,
      user: null,
      proof: null,
      isReceiving: false,
      phase: never,
      session: clock.after(limits.sessionMs, () => endSession(session.id, '4.4.2 the session took too long'), {
        background: true,
      }),
      end(code, text) {
        connection.send(code, text);
        connection.close();
      },
      cut(code, text) {
        connection.send(code, text);
        connection.close();
        connection._socket.destroySoon();
      },
    });
    unproven.add(site, session.id);
    wait(session.id, limits.greetingToMailMs);
    if (!options.isSecure && handlers.maySignInClear?.(ip) !== true) session.disabledCommands = ['AUTH'];
    return null;
  }

  /** Ends the oldest session of the network that has most without a proof. False where every session has one. */
  function makeRoom(): boolean {
    const [oldest] = unproven.largest();
    const watch = oldest === undefined ? undefined : watches.get(oldest);
    if (oldest === undefined || watch === undefined) return false;
    handlers.overLimit?.('connections');
    leave(oldest);
    watch.cut(421, '4.3.2 too many connections: try again later');
    return true;
  }

  /** Its own replies get a code by their number alone; where ours begins with one, that is the one. */
  function speakExactly(connection: Connection, session: SMTPServerSession): void {
    const send = connection.send.bind(connection);
    const coded = connection._getEnhancedStatusCode.bind(connection);
    let isCoded = false;
    connection._getEnhancedStatusCode = (code, context) => (isCoded ? '' : coded(code, context));
    connection.send = (code, data, context) => {
      isCoded = typeof data === 'string' && ENHANCED.test(data);
      send(code, data, context);
      // The size that MAIL announces is looked at by smtp-server itself, which asks nobody.
      if (code === 552 && !isCoded && !session.envelope.mailFrom) handlers.tooLarge?.(viewOf(session), 'MAIL');
      isCoded = false;
      if (code >= 500) fault(session.id);
    };
  }

  function fault(id: string): void {
    const watch = watches.get(id);
    if (watch === undefined || ++watch.errors !== limits.errors) return;
    watch.end(421, '4.7.0 too many errors');
  }

  function leave(id: string): void {
    const watch = watches.get(id);
    if (watch === undefined) return;
    watches.delete(id);
    unproven.remove(watch.site, id);
    if (watch.proof !== null) proofs.delete(watch.proof);
    watch.phase.cancel();
    watch.session.cancel();
    perAddress.add(watch.bucket, -1);
    perNetwork.add(watch.network, -1);
  }

  function over(limit: LimitName, code: number, text: string): SmtpRefusal {
    handlers.overLimit?.(limit);
    return refuse(code, text);
  }

  /** The next step must come within this time. */
  function wait(id: string, ms: number): void {
    const watch = watches.get(id);
    if (watch === undefined) return;
    watch.phase.cancel();
    watch.phase = clock.after(ms, () => endSession(id, '4.4.2 that took too long'), { background: true });
  }

  function endSession(id: string, text: string): void {
    watches.get(id)?.end(421, text);
  }

  async function signIn(
    session: SMTPServerSession,
    name: string,
    password: string,
  ): Promise<{ user: User } | SmtpRefusal> {
    const watch = watches.get(session.id);
    if (watch === undefined || handlers.authenticate === undefined)
      return refuse(502, '5.5.1 there is nothing to sign in to');
    const result = await guarded(
      async () =>
        (await handlers.authenticate?.(viewOf(session), name, password)) ??
        refuse(502, '5.5.1 there is nothing to sign in to'),
    );
    if ('user' in result) {
      watch.failedSignIns = 0;
      watch.user = result.user;
      unproven.remove(watch.site, session.id);
      wait(session.id, limits.greetingToMailMs);
      return result;
    }
    // Anything else than a wrong key (TLS first, say) is no guess.
    if (result.code !== WRONG_KEY) return result;
    watch.failedSignIns++;
    await clock.sleep(SLOW_DOWN_MS * Math.min(5, watch.failedSignIns));
    if (watch.failedSignIns >= limits.signIns) endSession(session.id, '4.7.0 too many failed sign-ins');
    return result;
  }

  async function askRecipient(session: SMTPServerSession, address: string): Promise<SmtpRefusal | null> {
    const refusal = await handlers.recipient(viewOf(session), address);
    const proof = refusal === null ? (handlers.proofOf?.(address) ?? null) : null;
    const watch = watches.get(session.id);
    if (proof === null || watch?.proof !== null || proofs.has(proof)) return refusal;
    watch.proof = proof;
    proofs.add(proof);
    unproven.remove(watch.site, session.id);
    return refusal;
  }

  function answer(
    session: SMTPServerSession,
    ask: () => Promise<SmtpRefusal | null>,
    callback: (error?: Error | null) => void,
  ): void {
    void guarded(ask).then((refusal) => {
      wait(session.id, limits.commandMs);
      callback(refusal === null ? null : asError(refusal));
    });
  }

  async function receive(stream: AsyncIterable<Buffer>, session: SMTPServerSession): Promise<string | SmtpRefusal> {
    const watch = watches.get(session.id);
    if (watch !== undefined) watch.isReceiving = true;
    wait(session.id, limits.dataMs);
    const chunks: Buffer[] = [];
    let size = 0;
    let kept = 0;
    let full: LimitName | null = null;
    const network = watch?.network ?? '';
    const pace = watchPace(session.id, () => size);
    try {
      for await (const chunk of stream) {
        size += chunk.length;
        const part = chunk.subarray(0, Math.max(0, options.keepBytes - kept));
        if (held.total + part.length > limits.heldBytes) full ??= 'heldBytes';
        else if (held.byNetwork.of(network) + part.length > limits.heldBytesPerNetwork) full ??= 'heldBytesPerNetwork';
        if (full !== null || part.length === 0) continue;
        chunks.push(part);
        kept += part.length;
        held.add(network, part.length);
      }
      pace.cancel();
      if (full !== null) return over(full, 452, '4.3.1 too much mail at once: try again later');
      if (size > options.size) handlers.tooLarge?.(viewOf(session), 'DATA');
      if (size > options.size) return refuse(552, `5.3.4 the mail is larger than ${String(options.size)} octets`);
      return await guarded(() => handlers.data(viewOf(session), Buffer.concat(chunks), size));
    } catch (error) {
      // The stream ends with an error where the client has gone in the middle of its mail: nobody hears the answer.
      log.debug({ event: 'smtp_mail_broken_off', err: error }, 'an SMTP client left in the middle of a mail');
      return refuse(451, '4.4.2 the mail did not arrive whole');
    } finally {
      pace.cancel();
      held.add(network, -kept);
      if (watch !== undefined) watch.isReceiving = false;
      if (closing) endSession(session.id, '4.3.2 the service is stopping');
      else wait(session.id, limits.greetingToMailMs);
    }
  }

  /** Ends a session whose mail comes too slowly. Time in which this process was too busy to look is not counted. */
  function watchPace(id: string, bytes: () => number): Timer {
    const step = limits.dataIdleMs / LOOKS;
    const patience = new Patience({ idleMs: limits.dataIdleMs, leastPace: limits.dataPace });
    const look = (): void => {
      if (patience.isOver(step, bytes())) watches.get(id)?.cut(421, '4.4.2 the mail came too slowly');
      else timer = clock.after(step, look, { background: true });
    };
    let timer = clock.after(step, look, { background: true });
    return { cancel: () => timer.cancel() };
  }

  /** A bug must not reach the client, nor end the listener. */
  async function guarded<Result>(ask: () => Promise<Result>): Promise<Result | SmtpRefusal> {
    try {
      return await ask();
    } catch (error) {
      log.error({ event: 'smtp_failed', err: error }, 'an SMTP command failed');
      if (isStorageTrouble(error)) return refuse(452, '4.3.1 there is no room now: try again later');
      return refuse(451, '4.3.0 something went wrong here: try again later');
    }
  }

  function viewOf(session: SMTPServerSession): Session<User> {
    const { mailFrom, rcptTo, requireTLS } = session.envelope;
    return {
      id: session.id,
      ip: session.remoteAddress,
      isSecure: session.secure,
      helo: session.hostNameAppearsAs || '',
      protocol: session.transmissionType,
      user: watches.get(session.id)?.user ?? null,
      sender: mailFrom === false ? '' : mailFrom.address,
      recipients: rcptTo.map(({ address }) => address),
      requireTls: requireTLS === true,
    };
  }

  return {
    listen: () =>
      new Promise((resolve, reject) => {
        server.server.once('error', reject);
        const inner = server.listen(options.port, options.host, () => {
          server.server.off('error', reject);
          resolve((inner.address() as AddressInfo).port);
        });
      }),
    setCertificate(certificate) {
      server.updateSecureContext(certificate);
    },
    async endWhere(isOver) {
      for (const watch of watches.values())
        if (watch.user !== null && (await isOver(watch.user))) watch.end(421, '4.7.0 your key is no longer good');
    },
    async close() {
      closing = true;
      for (const watch of watches.values()) if (!watch.isReceiving) watch.end(421, '4.3.2 the service is stopping');
      await new Promise<void>((resolve) => {
        server.close(resolve);
      });
      for (const id of [...watches.keys()]) leave(id);
    },
  };
}

/** The part of a connection of smtp-server that is changed here; a test holds that it is still as it is used. */
type Connection = SMTPServer['connections'] extends Set<infer One> ? One : never;

const never: Timer = { cancel: () => undefined };

/** Its types promise strings only; a parameter without a value is `true`. */
const parametersOf = (args: object | false): EsmtpParameters => (args === false ? {} : (args as EsmtpParameters));

const asError = ({ code, text }: SmtpRefusal): Error => Object.assign(new Error(text), { responseCode: code });
