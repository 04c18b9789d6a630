/**
 * One open SMTP session (RFC 5321) that carries messages, one after the other. States:
 *
 *   ready ── send() ──> envelope (MAIL, RCPT, DATA) ── 354 ──> body, dot ── reply ──> ready
 *     │                    └── refused ──> ready (RSET goes with the next MAIL if the server still holds a transaction)
 *     └── close(), 421, a broken or talkative connection ──> done: `usable()` is false for good
 *
 * With PIPELINING (RFC 2920) the envelope is one write and one round trip, body and dot the second. open-session.ts makes it.
 */
import type { Clock } from '../../base/clock.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import { dotStuffed, inBlocks } from './dot-stuffing.ts';
import type { Extensions } from './extensions.ts';
import { noTimings } from './phases.ts';
import type { PhaseTimeouts, Timings } from './phases.ts';
import type { TlsResult } from './tls-policy.ts';
import { isBroken } from './wire.ts';
import type { Broken, Trace, Wire } from './wire.ts';

export interface Mail {
  /** The return path; empty for `<>`. */
  envelopeFrom: string;
  /** At most 100. */
  recipients: readonly string[];
  /** The message with CRLF line ends, cut anywhere; not dot-stuffed. */
  data: readonly Buffer[];
  /** Octets in all of `data`. */
  size: number;
  /** The envelope or a header has characters beyond ASCII (RFC 6531). */
  smtpUtf8: boolean;
  /** The body has octets beyond ASCII (RFC 6152). */
  eightBit: boolean;
  /** Hand on only over TLS, all the way (RFC 8689). */
  requireTls?: boolean;
  /** On `clock.monotonic()`; `timeouts.attempt` from now where it is not given. */
  deadline?: number;
}

interface TransferFacts {
  timings: Timings;
  tls: TlsResult | null;
  /** Messages this connection tried to carry before: a break or 421 on the first word then says little about the host. */
  earlier: number;
}

export interface RefusedRecipient {
  recipient: string;
  reply: SmtpReply;
}

export type Transfer = TransferFacts &
  (
    | { kind: 'accepted'; reply: SmtpReply; refusedRecipients: readonly RefusedRecipient[] }
    /** The server said no: 4xx or 5xx, a 421 included (after which the session is not usable). */
    | {
        kind: 'refused';
        phase: 'mail' | 'rcpt' | 'data' | 'dot';
        reply: SmtpReply;
        refusedRecipients: readonly RefusedRecipient[];
      }
    /** No answer, or none that makes sense. `uncertain`: the final dot was sent, so the message may have been taken. */
    | { kind: 'broken'; phase: BrokenPhase; text: string; reply: SmtpReply | null; uncertain: boolean }
    | Unsupported
  );

/** Not tried: the server cannot take such a message. `limit` in octets; `text` says why where the usual words would be wrong. */
interface Unsupported {
  kind: 'unsupported';
  what: 'size' | 'smtputf8' | '8bitmime' | 'requiretls';
  limit: number | null;
  text?: string;
}

type BrokenPhase = Broken['phase'];

/** The server closes the connection, whatever was asked (RFC 5321 section 3.8). */
const CLOSING = 421;
const MOST_RECIPIENTS = 100;
const BLOCK_BYTES = 65_536;
const QUIT_GRACE_MS = 2000;

/** What the opening of the connection found out. */
export interface Opened {
  wire: Wire;
  extensions: Extensions;
  tls: TlsResult | null;
  timings: Timings;
  timeouts: PhaseTimeouts;
  /** The banner's text: it often names the operator. */
  banner: string;
}

export class Session {
  readonly extensions: Extensions;
  readonly tls: TlsResult | null;
  readonly banner: string;
  /** Who looks at the dialogue, where somebody may. */
  readonly trace: Trace | undefined;
  private readonly clock: Clock;
  private readonly wire: Wire;
  private readonly timeouts: PhaseTimeouts;
  private opening: Timings | null;
  private tried = 0;
  private finished = false;
  private needsReset = false;
  private pastDot = false;

  constructor(deps: { clock: Clock }, opened: Opened) {
    this.clock = deps.clock;
    this.wire = opened.wire;
    this.extensions = opened.extensions;
    this.tls = opened.tls;
    this.banner = opened.banner;
    this.trace = opened.wire.trace;
    this.timeouts = opened.timeouts;
    this.opening = opened.timings;
  }

  /** Since when the server keeps us waiting, on `clock.monotonic()`; null while it does not, or where nobody may hang up. */
  get waitingSince(): number | null {
    return this.pastDot ? null : this.wire.waitingSince;
  }

  /** Messages tried on this connection. */
  get messages(): number {
    return this.tried;
  }

  /** False once the server said goodbye, hung up or spoke out of turn; look just before each use. */
  usable(): boolean {
    return !this.finished && this.wire.calm;
  }

  /** Calls `gone` once if the server hangs up or speaks while nothing is under way; `null` takes it back. */
  watch(gone: (() => void) | null): void {
    this.wire.onUpset = gone;
  }

  /** Says QUIT without waiting for the answer; resolves when the socket is gone. Never rejects. */
  close(): Promise<void> {
    this.finished = true;
    return this.wire.quit(QUIT_GRACE_MS);
  }

  destroy(): void {
    this.finished = true;
    this.wire.destroy();
  }

  /**
   * Drops the connection in the middle of whatever it does, but behind the final dot only where `evenPastDot` says so: there
   * the server may have taken the message, and only its answer keeps it from being sent twice.
   */
  abandon(evenPastDot = false, why = 'given up: the program stops'): void {
    if (this.pastDot && !evenPastDot) return;
    this.finished = true;
    this.wire.destroy(why);
  }

  /** Carries one message. The world's refusals are values; throws only on an envelope that could inject commands: a bug. */
  async send(mail: Mail): Promise<Transfer> {
    const facts: TransferFacts = { timings: this.opening ?? noTimings(), tls: this.tls, earlier: this.tried };
    const unsupported = this.unsupported(mail);
    if (unsupported !== null) return { ...facts, ...unsupported };
    const commands = envelopeCommands(mail, this.extensions);
    this.opening = null;
    this.tried++;
    this.wire.deadline = mail.deadline ?? this.clock.monotonic() + this.timeouts.attempt;
    const envelope = new Envelope(this.clock, facts, mail);
    const stopped = await this.sendEnvelope(envelope, commands);
    return stopped ?? this.sendBody(envelope, mail);
  }

  private unsupported(mail: Mail): Unsupported | null {
    const { extensions } = this;
    if (mail.smtpUtf8 && !extensions.smtpUtf8) return { kind: 'unsupported', what: 'smtputf8', limit: null };
    if (mail.eightBit && !extensions.eightBitMime) return { kind: 'unsupported', what: '8bitmime', limit: null };
    if (mail.requireTls === true && !(extensions.requireTls && this.tls !== null))
      return { kind: 'unsupported', what: 'requiretls', limit: null };
    if (extensions.sizeLimit !== null && mail.size > extensions.sizeLimit)
      return { kind: 'unsupported', what: 'size', limit: extensions.sizeLimit };
    return null;
  }

  /** MAIL, RCPT and DATA. Null means 354: the body is awaited. */
  private async sendEnvelope(envelope: Envelope, commands: readonly string[]): Promise<Transfer | null> {
    const { wire, timeouts } = this;
    const pipelining = this.extensions.pipelining;
    if (pipelining) wire.write((this.needsReset ? 'RSET\r\n' : '') + commands.join(''));
    const ask = (phase: 'mail' | 'rcpt' | 'data', command: string): Promise<SmtpReply | Broken> => {
      if (!pipelining) wire.write(command);
      return wire.read(phase, timeouts[phase]);
    };
    if (this.needsReset) {
      const reply = await ask('mail', 'RSET\r\n');
      if (isBroken(reply) || reply.code === CLOSING) return this.end(envelope, 'mail', reply);
      this.needsReset = false;
    }
    for (const [at, command] of commands.entries()) {
      const phase = at === 0 ? 'mail' : at < commands.length - 1 ? 'rcpt' : 'data';
      const reply = await ask(phase, command);
      envelope.lap(phase);
      if (isBroken(reply) || reply.code === CLOSING) return this.end(envelope, phase, reply);
      if (phase === 'data') return this.answeredData(envelope, reply);
      if (reply.code < 400 && reply.code >= 300) return this.outOfStep(envelope, phase, reply);
      envelope.note(phase, at - 1, reply);
      // Without pipelining there is no need to go on after the last hope is gone.
      if (!pipelining && (phase === 'mail' || at === commands.length - 2) && envelope.hopeless) {
        this.needsReset = phase === 'rcpt';
        return envelope.refusal();
      }
    }
    throw new Error('an envelope has at least MAIL and DATA');
  }

  private async answeredData(envelope: Envelope, reply: SmtpReply): Promise<Transfer | null> {
    if (reply.code < 300) return this.outOfStep(envelope, 'data', reply);
    if (reply.code >= 400) {
      this.needsReset = !envelope.mailRefused;
      return envelope.hopeless ? envelope.refusal() : envelope.refused('data', reply);
    }
    if (!envelope.hopeless) return null;
    // RFC 2920 section 3.1: told to go ahead although it refused everyone, we send an empty message and believe the refusal.
    this.wire.write('.\r\n');
    const last = await this.wire.read('dot', this.timeouts.dot);
    if (isBroken(last) || last.code === CLOSING) this.finished = true;
    return envelope.refusal();
  }

  private async sendBody(envelope: Envelope, mail: Mail): Promise<Transfer> {
    const { wire, timeouts } = this;
    const blocks = inBlocks(dotStuffed(mail.data), BLOCK_BYTES);
    wire.note(`(${String(mail.size)} octets of message)`);
    for (const [at, block] of blocks.entries()) {
      const isLast = at === blocks.length - 1;
      if (isLast) this.pastDot = true;
      const broken = await wire.writeBlock(block, isLast ? null : timeouts.block);
      if (broken === null) continue;
      const early = wire.takeUnread();
      return early !== null && early.code >= 400
        ? this.end(envelope, 'dot', early)
        : this.end(envelope, 'block', broken);
    }
    const reply = await wire.read('dot', timeouts.dot);
    this.pastDot = false;
    envelope.lap('dot');
    if (isBroken(reply) || reply.code === CLOSING) return this.end(envelope, 'dot', reply);
    if (reply.code < 300) return envelope.accepted(reply);
    if (reply.code >= 400) return envelope.refused('dot', reply);
    return this.outOfStep(envelope, 'dot', reply);
  }

  /** The connection is over: it broke, or the server said 421. A refusal that was given before still counts. */
  private end(
    envelope: Envelope,
    phase: BrokenPhase & ('mail' | 'rcpt' | 'data' | 'dot' | 'block'),
    last: SmtpReply | Broken,
  ): Transfer {
    this.finished = true;
    if (envelope.hopeless) return envelope.refusal();
    if (!isBroken(last)) return envelope.refused(phase === 'block' ? 'dot' : phase, last);
    return envelope.broken(phase, last.text, null);
  }

  /** A reply that cannot belong to the command: from here on nothing can be matched. */
  private outOfStep(envelope: Envelope, phase: 'mail' | 'rcpt' | 'data' | 'dot', reply: SmtpReply): Transfer {
    this.finished = true;
    return envelope.broken(phase, `the server is out of step: ${String(reply.code)} in answer to ${phase}`, reply);
  }
}

const nobody: readonly RefusedRecipient[] = [];

/** The answers to one message's commands so far, and what they come to. */
class Envelope {
  private readonly clock: Clock;
  private readonly facts: TransferFacts;
  private readonly recipients: readonly string[];
  private mailReply: SmtpReply | null = null;
  private refusedOnes: RefusedRecipient[] | null = null;
  private lapStart: number;

  constructor(clock: Clock, facts: TransferFacts, mail: Mail) {
    this.clock = clock;
    this.facts = facts;
    this.recipients = mail.recipients;
    this.lapStart = clock.monotonic();
  }

  get mailRefused(): boolean {
    return this.mailReply !== null;
  }

  /** Nobody is left to take the message. */
  get hopeless(): boolean {
    return this.mailReply !== null || this.refusedOnes?.length === this.recipients.length;
  }

  lap(phase: 'mail' | 'rcpt' | 'data' | 'dot'): void {
    const now = this.clock.monotonic();
    this.facts.timings[phase] += now - this.lapStart;
    this.lapStart = now;
  }

  note(phase: 'mail' | 'rcpt', index: number, reply: SmtpReply): void {
    if (reply.code < 300) return;
    if (phase === 'mail') this.mailReply = reply;
    else (this.refusedOnes ??= []).push({ recipient: this.recipients[index] ?? '', reply });
  }

  accepted(reply: SmtpReply): Transfer {
    return { ...this.facts, kind: 'accepted', reply, refusedRecipients: this.refusedOnes ?? nobody };
  }

  refused(phase: 'mail' | 'rcpt' | 'data' | 'dot', reply: SmtpReply): Transfer {
    return { ...this.facts, kind: 'refused', phase, reply, refusedRecipients: this.refusedOnes ?? nobody };
  }

  /** The refusal of the sender or, if that was taken, of the first recipient. */
  refusal(): Transfer {
    if (this.mailReply !== null) return this.refused('mail', this.mailReply);
    const first = this.refusedOnes?.[0];
    if (first === undefined) throw new Error('nothing was refused');
    return this.refused('rcpt', first.reply);
  }

  broken(phase: BrokenPhase, text: string, reply: SmtpReply | null): Transfer {
    return { ...this.facts, kind: 'broken', phase, text, reply, uncertain: phase === 'dot' };
  }
}

/** MAIL, a RCPT for each recipient, DATA. */
function envelopeCommands(mail: Mail, extensions: Extensions): string[] {
  const { envelopeFrom, recipients } = mail;
  if (recipients.length === 0 || recipients.length > MOST_RECIPIENTS)
    throw new Error('1 to 100 recipients can be sent to');
  let parameters = '';
  if (extensions.size) parameters += ` SIZE=${String(mail.size)}`;
  if (mail.eightBit) parameters += ' BODY=8BITMIME';
  if (mail.smtpUtf8) parameters += ' SMTPUTF8';
  if (mail.requireTls === true) parameters += ' REQUIRETLS';
  const commands = [`MAIL FROM:<${checked(envelopeFrom, mail.smtpUtf8)}>${parameters}\r\n`];
  for (const recipient of recipients) commands.push(`RCPT TO:<${checked(recipient, mail.smtpUtf8)}>\r\n`);
  commands.push('DATA\r\n');
  return commands;
}

/** Addresses were parsed long before; this is the last door before the wire. A quoted local part may hold `>`. */
function checked(address: string, smtpUtf8: boolean): string {
  const forbidden = smtpUtf8 ? /[\x00-\x1f\x7f]/ : /[^\x20-\x7e]/;
  if (address.length > 1000 || forbidden.test(address) || (/[<> ]/.test(address) && !address.startsWith('"')))
    throw new Error('an envelope address that is no address reached the SMTP client');
  return address;
}
