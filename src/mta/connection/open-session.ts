/**
 * Opens an SMTP session with one mail host: connect, banner, EHLO (or HELO), STARTTLS (RFC 3207) and EHLO again, AUTH (RFC 4954) for smarthosts. Each
 * step is a function below, in this order; any may end the attempt with its phase. That says nothing about the message: the next host is tried.
 */
import type { Clock } from '../../base/clock.ts';
import {
  extensionsOf,
  loginLines,
  NO_KNOWN_LOGIN,
  noExtensions,
  type Extensions,
  type SmtpReply,
} from '../../mail/smtp-reply.ts';
import { connectFirst, type AddressMemory } from './connect.ts';
import { noTimings, type Phase, type PhaseTimeouts, type Timings } from './phases.ts';
import { Session } from './session.ts';
import { handshake, type Hello, type TlsClient } from './tls.ts';
import type { TlsNeed, TlsResult } from './tls-policy.ts';
import { isBroken, Wire, type Broken, type Trace } from './wire.ts';

/** The server does not take the mechanism (RFC 4954 section 4), although some offer it. */
const UNKNOWN_MECHANISM = 504;

export interface OpenDeps {
  clock: Clock;
  /** Returns false while another server may have taken over what this one sends; asked just before each final dot. True if left out. */
  maySend?: (() => boolean) | undefined;
  tls: TlsClient;
  /** Which addresses have failed lately; none are remembered if left out. */
  addresses?: AddressMemory | undefined;
  trace?: Trace | undefined;
}

export interface SessionTarget {
  /** The mail host's name: SNI, and the name its certificate is checked for. */
  host: string;
  /** Its addresses, in the order to try; at least one. */
  ips: readonly string[];
  port: number;
  /** The addresses to send from, each over its family; the system's choice if none is given. */
  localAddresses?: readonly string[];
  ehlo: string;
  need: TlsNeed;
  hello?: Hello;
  /** For smarthosts. Sent only over TLS, unless `inPlaintext` permits otherwise. */
  auth?: { user: string; password: string; inPlaintext?: boolean };
  timeouts: PhaseTimeouts;
  /** The end of the attempt that it belongs to, on the monotonic clock; `timeouts.attempt` from now if that is sooner. */
  deadline?: number;
  /** True if other hosts, or other addresses of this one, can be tried: the banner then gets less time. */
  otherHostsRemain: boolean;
  signal?: AbortSignal;
}

/** `ip` is the address that answered, or the last that did not. */
export type OpenResult = {
  ip: string;
} & (
  | { kind: 'open'; session: Session }
  | {
      kind: 'failed';
      phase: Phase;
      /** Nothing was dialled: this machine has no descriptor or memory left for a connection. */
      ours?: true;
      reply: SmtpReply | null;
      text: string;
      /** STARTTLS, the handshake or the first answer behind it failed: a reduced hello or plaintext may work. */
      tlsBroken: boolean;
      /** That failed because the connection was closed or reset, not by a fault of TLS. */
      tlsCut?: true;
      /** The server did not answer STARTTLS, so another hello does not help. */
      tlsUnanswered?: true;
      /** There was no TLS, or not as the need demands. */
      tlsUnsatisfied: boolean;
      tls: TlsResult | null;
      timings: Timings;
    }
);

type Failed = Extract<OpenResult, { kind: 'failed' }>;

/** Opens a session. Never throws for what network or server do; whatever fails, no socket stays open. */
export async function openSession(deps: OpenDeps, target: SessionTarget): Promise<OpenResult> {
  return new Opening(deps, target).run();
}

class Opening {
  private readonly deps: OpenDeps;
  private readonly target: SessionTarget;
  private readonly timings = noTimings();
  private readonly deadline: number;
  private lapStart: number;
  private extensions: Extensions = noExtensions;
  private tls: TlsResult | null = null;
  private ip = '';

  constructor(deps: OpenDeps, target: SessionTarget) {
    this.deps = deps;
    this.target = target;
    this.lapStart = deps.clock.monotonic();
    this.deadline = Math.min(this.lapStart + target.timeouts.attempt, target.deadline ?? Infinity);
  }

  async run(): Promise<OpenResult> {
    const { ips, port, localAddresses, timeouts, signal } = this.target;
    const { clock, trace } = this.deps;
    const connected = await connectFirst(this.deps, { ips, port, localAddresses, timeoutMs: timeouts.connect, signal });
    this.ip = connected.ip;
    if (connected.kind === 'failed') {
      const failed = this.failed('connect', null, connected.text);
      return connected.ours === true ? { ...failed, ours: true } : failed;
    }
    if (trace?.on === true) trace.line('>', `(connected to ${connected.ip}:${String(port)})`);
    const wire = new Wire({ clock, trace }, connected.socket);
    const abandon = (): void => wire.destroy(String(signal?.reason));
    signal?.addEventListener('abort', abandon);
    try {
      return await this.greet(wire);
    } finally {
      signal?.removeEventListener('abort', abandon);
    }
  }

  private async greet(wire: Wire): Promise<OpenResult> {
    const { timeouts, otherHostsRemain } = this.target;
    wire.deadline = this.deadline;
    this.lap('connect');
    const implicitFault = this.target.need.mode === 'implicit' ? await this.secure(wire) : null;
    if (implicitFault !== null) return implicitFault;
    const banner = await wire.read('banner', otherHostsRemain ? timeouts.bannerWithOthers : timeouts.banner);
    const fault =
      // An alert in answer to our side of an implicit handshake.
      (isBroken(banner) && banner.how === 'tls' ? this.brokenTls('banner', banner) : this.refusal('banner', banner)) ??
      (await this.hello(wire)) ??
      (await this.startTls(wire)) ??
      (await this.authenticate(wire));
    if (fault === null && !isBroken(banner)) return this.opened(wire, banner);
    // RFC 5321 section 4.1.1.10: a client ends with QUIT. A server that did not send 220 gets it as well, since it costs nothing.
    void wire.quit(1000);
    return fault ?? this.failed('banner', null, 'no banner');
  }

  private opened(wire: Wire, banner: SmtpReply): OpenResult {
    const { ip, tls, timings } = this;
    const { timeouts } = this.target;
    const { clock, addresses } = this.deps;
    const isOneByOne = addresses?.losesCommands(ip, clock.monotonic()) === true;
    const extensions = isOneByOne ? { ...this.extensions, pipelining: false } : this.extensions;
    const lostCommands = (): void => addresses?.lostCommands(ip, clock.monotonic());
    return {
      kind: 'open',
      ip: this.ip,
      session: new Session(this.deps, { wire, extensions, tls, timings, timeouts, banner: banner.text, lostCommands }),
    };
  }

  private async hello(wire: Wire): Promise<Failed | null> {
    const { ehlo, timeouts } = this.target;
    wire.write(`EHLO ${ehlo}\r\n`);
    let reply = await wire.read('ehlo', timeouts.ehlo);
    if (!isBroken(reply) && reply.code >= 500) {
      // RFC 5321 section 3.2: a server of before 1993.
      wire.write(`HELO ${ehlo}\r\n`);
      reply = await wire.read('ehlo', timeouts.ehlo);
      this.extensions = noExtensions;
    } else if (!isBroken(reply)) this.extensions = extensionsOf(reply);
    this.lap(this.tls === null ? 'banner' : 'tls');
    if (this.tls !== null && isBroken(reply)) return this.brokenTls('ehlo', reply);
    return this.refusal('ehlo', reply);
  }

  private async startTls(wire: Wire): Promise<Failed | null> {
    const { need, timeouts } = this.target;
    if (need.mode === 'none' || need.mode === 'implicit') return null;
    if (!this.extensions.startTls)
      return need.mode === 'required' ? this.unsatisfied(null, 'the server does not offer STARTTLS') : null;
    wire.write('STARTTLS\r\n');
    const reply = await wire.read('tls', timeouts.tls);
    if (isBroken(reply)) return this.brokenTls('tls', reply);
    if (reply.code !== 220) {
      if (need.mode === 'required') return this.unsatisfied(reply, 'the server refuses STARTTLS');
      return reply.code === 421 ? this.refusal('tls', reply) : null;
    }
    return (await this.secure(wire)) ?? this.hello(wire);
  }

  /** Makes the handshake over the wire's socket. Extensions that the server offered before are void (RFC 3207 section 4.2). */
  private async secure(wire: Wire): Promise<Failed | null> {
    const { host, port, need, hello = 'full', timeouts } = this.target;
    const left = this.deadline - this.deps.clock.monotonic();
    const timeoutMs = Math.min(timeouts.tls, Math.max(0, left));
    const secured = await handshake(this.deps, wire.release(), { host, port, need, hello, timeoutMs });
    this.lap('tls');
    this.extensions = noExtensions;
    if (secured.kind === 'failed') {
      const failed = { ...this.failed('tls', null, secured.text), tlsBroken: true };
      return secured.isCut ? { ...failed, tlsCut: true } : failed;
    }
    wire.adopt(secured.socket);
    this.tls = secured.result;
    wire.note(`(TLS: ${secured.result.protocol} ${secured.result.cipher})`);
    if (need.verify !== 'no' && !secured.result.verified)
      return this.unsatisfied(null, secured.result.fault ?? 'the certificate does not satisfy the policy');
    return null;
  }

  private async authenticate(wire: Wire): Promise<Failed | null> {
    const { auth } = this.target;
    if (auth === undefined) return null;
    if (this.tls === null && auth.inPlaintext !== true)
      return this.unsatisfied(null, 'the server offers no TLS, and the credentials may not be sent without');
    const offered = this.extensions.auth;
    const lines = loginLines(offered, auth);
    if (lines === null) return this.failed('auth', null, NO_KNOWN_LOGIN);
    const fault = await this.credentials(wire, lines);
    if (fault?.reply?.code !== UNKNOWN_MECHANISM || !offered.includes('PLAIN')) return fault;
    const others = loginLines(
      offered.filter((name) => name !== 'PLAIN'),
      auth,
    );
    return others === null ? fault : this.credentials(wire, others);
  }

  /** Sends line after line while the server asks for more (334), until it says 235. */
  private async credentials(wire: Wire, lines: readonly string[]): Promise<Failed | null> {
    for (const [at, line] of lines.entries()) {
      wire.write(`${line}\r\n`, at === 0 ? `${line.split(' ', 2).join(' ')} ***` : '***');
      const reply = await wire.read('auth', this.target.timeouts.auth);
      if (isBroken(reply)) return this.refusal('auth', reply);
      if (reply.code === 235) return null;
      if (reply.code !== 334) return this.failed('auth', reply, reply.text);
    }
    wire.write('*\r\n');
    return this.failed('auth', null, 'the server asks for more than the credentials');
  }

  private refusal(phase: Phase, answer: SmtpReply | Broken): Failed | null {
    if (isBroken(answer)) return this.failed(phase, null, answer.text);
    return answer.code >= 200 && answer.code < 300 ? null : this.failed(phase, answer, answer.text);
  }

  /**
   * The server ended the connection at STARTTLS, left that unanswered, or ended it behind the handshake before it said anything: with TLS 1.3
   * its alert comes in answer to the first command. A server that is only silent behind the handshake has not broken TLS.
   */
  private brokenTls(phase: 'tls' | 'banner' | 'ehlo', { how, text }: Broken): Failed {
    const failed = this.failed(phase, null, text);
    if (how === 'silent' && phase === 'tls') return { ...failed, tlsBroken: true, tlsUnanswered: true };
    if (how === undefined || how === 'silent') return failed;
    const { host, port } = this.target;
    this.deps.tls.sessions.delete(`${host}:${String(port)}`);
    return { ...failed, tlsBroken: true, ...(how === 'cut' ? { tlsCut: true } : {}) };
  }

  private unsatisfied(reply: SmtpReply | null, text: string): Failed {
    return { ...this.failed('tls', reply, text), tlsUnsatisfied: true };
  }

  private failed(phase: Phase, reply: SmtpReply | null, text: string): Failed {
    const { tls, timings } = this;
    return {
      kind: 'failed',
      ip: this.ip,
      phase,
      reply,
      text,
      tlsBroken: false,
      tlsUnsatisfied: false,
      tls,
      timings,
    };
  }

  private lap(part: 'connect' | 'banner' | 'tls'): void {
    const now = this.deps.clock.monotonic();
    this.timings[part] += now - this.lapStart;
    this.lapStart = now;
  }
}
