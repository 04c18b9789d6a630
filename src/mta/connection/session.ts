/**
 * One open SMTP session (RFC 5321) that carries messages, one after the other. States:
 *
 *   ready ── send() ──> envelope (MAIL, RCPT, DATA) ── 354 ──> body, dot ── reply ──> ready
 *     │                    └── refused ──> ready (RSET goes with the next MAIL if the server may hold a transaction, as after a refused dot)
 *     └── close(), 421, a connection that is broken, talkative or out of step ──> done: `usable()` is false for good
 *
 * With PIPELINING (RFC 2920) the envelope is one write and one round trip, body and dot the second. open-session.ts makes it.
 */
import { giveBack } from '../../base/bytes.ts';
import type { Clock } from '../../base/clock.ts';
import type { Extensions, SmtpReply } from '../../mail/smtp-reply.ts';
import { noTimings, type PhaseTimeouts, type Timings } from './phases.ts';
import type { TlsResult } from './tls-policy.ts';
import { isBroken, type Broken, type Trace, type Wire } from './wire.ts';

/** The server closes the connection, whatever was asked (RFC 5321 section 3.8). */
const CLOSING = 421;
/** A mail of 100 KB is one. The server has the time of a block for each. */
const BLOCK_BYTES = 131_072;
const QUIT_GRACE_MS = 2000;

export interface Opened {
  wire: Wire;
  extensions: Extensions;
  tls: TlsResult | null;
  timings: Timings;
  timeouts: PhaseTimeouts;
  /** The banner's text, which often names the operator. */
  banner: string;
  /** Called if the server answered the first of several commands, and was silent on the next for the time of its phase. */
  lostCommands?: () => void;
}

export class Session {
  readonly extensions: Extensions;
  readonly tls: TlsResult | null;
  readonly banner: string;
  readonly trace: Trace | undefined;
  private readonly clock: Clock;
  private readonly maySend: () => boolean;
  private readonly wire: Wire;
  private readonly timeouts: PhaseTimeouts;
  private readonly lostCommands: (() => void) | undefined;
  private opening: Timings | null;
  private tried = 0;
  /** Messages whose MAIL was accepted. */
  private begun = 0;
  private finished = false;
  private needsReset = false;
  private pastDot = false;

  constructor(deps: { clock: Clock; maySend?: (() => boolean) | undefined }, opened: Opened) {
    this.clock = deps.clock;
    this.maySend = deps.maySend ?? (() => true);
    this.wire = opened.wire;
    this.extensions = opened.extensions;
    this.tls = opened.tls;
    this.banner = opened.banner;
    this.trace = opened.wire.trace;
    this.timeouts = opened.timeouts;
    this.lostCommands = opened.lostCommands;
    this.opening = opened.timings;
  }

  /** Since when the server keeps us waiting, on `clock.monotonic()`; null while it does not, or behind the final dot. */
  get waitingSince(): number | null {
    return this.pastDot ? null : this.wire.waitingSince;
  }

  get messages(): number {
    return this.tried;
  }

  /** Returns false once the server said goodbye, hung up or spoke out of turn; check just before each use. */
  usable(): boolean {
    return !this.finished && this.wire.calm;
  }

  /** Calls `gone` once if the server hangs up or speaks while no message is under way; `null` removes it. */
  watch(gone: (() => void) | null): void {
    this.wire.onUpset = gone;
  }

  /** Says QUIT without waiting for the answer; resolves when the socket is gone. Never rejects. */
  close(): Promise<void> {
    this.finished = true;
    return this.wire.quit(QUIT_GRACE_MS);
  }

  destroy(why?: string): void {
    this.finished = true;
    this.wire.destroy(why);
  }

  /** Drops the connection at once, but behind the final dot only if `evenPastDot`: there only the answer keeps a taken message from going twice. */
  abandon(evenPastDot = false, why = 'given up: the program stops'): void {
    if (!this.pastDot || evenPastDot) this.destroy(why);
  }

  /** Carries one message. Refusals are values; throws only on an envelope that could inject commands, which is a bug. */
  async send(mail: Mail): Promise<Transfer> {
    const facts: TransferFacts = { timings: this.opening ?? noTimings(), tls: this.tls, earlier: this.begun };
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

  /** Sends MAIL, RCPT and DATA. Returns null on 354: the server waits for the body. */
  private async sendEnvelope(envelope: Envelope, commands: readonly string[]): Promise<Transfer | null> {
    const { wire, timeouts } = this;
    const pipelining = this.extensions.pipelining;
    if (pipelining) wire.write((this.needsReset ? 'RSET\r\n' : '') + commands.join(''));
    let answered = 0;
    const ask = async (phase: 'mail' | 'rcpt' | 'data', command: string): Promise<SmtpReply | Broken> => {
      if (!pipelining) wire.write(command);
      const reply = await wire.read(phase, timeouts[phase]);
      if (pipelining && answered++ > 0 && isBroken(reply) && reply.how === 'silent') this.lostCommands?.();
      return reply;
    };
    if (this.needsReset) {
      const reply = await ask('mail', 'RSET\r\n');
      if (isBroken(reply) || reply.code === CLOSING) return this.end(envelope, 'mail', reply);
      if (reply.code >= 300) return this.outOfStep(envelope, 'mail', reply);
      this.needsReset = false;
    }
    for (const [at, command] of commands.entries()) {
      const phase = at === 0 ? 'mail' : at < commands.length - 1 ? 'rcpt' : 'data';
      const reply = await ask(phase, command);
      envelope.lap(phase);
      if (isBroken(reply) || reply.code === CLOSING) return this.end(envelope, phase, reply);
      const isUnexpected = phase === 'data' ? reply.code < 300 : reply.code >= 300 && reply.code < 400;
      if (isUnexpected || (isOutOfStep(reply) && !envelope.hopeless)) return this.outOfStep(envelope, phase, reply);
      if (phase === 'data') return this.answeredData(envelope, reply);
      if (phase === 'mail' && reply.code < 300) this.begun++;
      envelope.note(phase, at - 1, reply);
      // Without pipelining the commands that are left need not be sent when no recipient is left.
      if (!pipelining && (phase === 'mail' || at === commands.length - 2) && envelope.hopeless) {
        this.needsReset = phase === 'rcpt';
        return envelope.refusal();
      }
    }
    throw new Error('an envelope has at least MAIL and DATA');
  }

  private async answeredData(envelope: Envelope, reply: SmtpReply): Promise<Transfer | null> {
    if (reply.code >= 400) {
      this.needsReset = !envelope.mailRefused;
      return envelope.hopeless ? envelope.refusal() : envelope.refused('data', reply);
    }
    if (!envelope.hopeless) return null;
    // It holds another mail's transaction: a dot would send that one, empty, to the recipient of this one.
    if (envelope.mailRefused) {
      this.destroy('given up: the server takes data after it has refused the sender');
      return envelope.refusal();
    }
    // RFC 2920 section 3.1: a server that answers 354 although it refused everyone gets an empty message; the refusal counts.
    this.wire.write('.\r\n');
    const last = await this.wire.read('dot', this.timeouts.dot);
    if (isBroken(last) || last.code === CLOSING) this.finished = true;
    else this.needsReset = last.code >= 400;
    return envelope.refusal();
  }

  private async sendBody(envelope: Envelope, mail: Mail): Promise<Transfer> {
    const { wire, timeouts } = this;
    const blocks = inBlocks(dotStuffed(mail.data), BLOCK_BYTES);
    wire.note(`(${String(mail.size)} octets of message)`);
    for (const [at, block] of blocks.entries()) {
      const isLast = at === blocks.length - 1;
      if (isLast && !this.maySend()) return this.withhold(envelope);
      let early = wire.takeUnread();
      if (early === null) {
        if (isLast) this.pastDot = true;
        const broken = await wire.writeBlock(block, isLast ? null : timeouts.block);
        if (broken === null) continue;
        early = wire.takeUnread();
        envelope.lap('dot');
        if (early === null) return this.end(envelope, 'block', broken);
      }
      return this.spokeEarly(envelope, early);
    }
    const reply = await wire.read('dot', timeouts.dot);
    this.pastDot = false;
    envelope.lap('dot');
    if (isBroken(reply) || reply.code === CLOSING) return this.end(envelope, 'dot', reply);
    if (reply.code < 300 && mail.isOwn === true && wire.isWritten) giveBack(mail.data);
    if (reply.code < 300) return envelope.accepted(reply);
    if (reply.code < 400 || isOutOfStep(reply)) return this.outOfStep(envelope, 'dot', reply);
    // Some keep the transaction: Postfix, if a policy service refuses the mail.
    this.needsReset = true;
    return envelope.refused('dot', reply);
  }

  /**
   * Ends the session on a reply that came before the final dot. A refusal counts. Anything else says nothing about a mail that
   * the server does not have yet: were it taken for the answer to the dot, a mail could be lost, or sent again and again.
   */
  private spokeEarly(envelope: Envelope, reply: SmtpReply): Transfer {
    if (reply.code < 400 || isOutOfStep(reply)) return this.outOfStep(envelope, 'block', reply);
    this.destroy();
    return envelope.refused('dot', reply);
  }

  /** Drops the connection instead of sending the final dot: another server may be sending this mail by now. */
  private withhold(envelope: Envelope): Transfer {
    this.destroy('given up before the final dot: this server may have been replaced');
    return envelope.withheld();
  }

  /** Ends the session: the connection broke, or the server said 421. A refusal that was given before still counts. */
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

  /** Drops the connection on a reply that cannot belong to the command, or says that the command came out of order. */
  private outOfStep(envelope: Envelope, phase: 'mail' | 'rcpt' | 'data' | 'dot' | 'block', reply: SmtpReply): Transfer {
    this.destroy();
    return envelope.broken(phase, `the server is out of step: ${String(reply.code)} ${reply.text}`, reply);
  }
}

const DOT = Buffer.from('.');
const LINE_WITH_DOT = Buffer.from('\r\n.');
const END = Buffer.from('.\r\n');
const END_AFTER_TEXT = Buffer.from('\r\n.\r\n');
const CR = 0x0d;
const LF = 0x0a;
const FULL_STOP = 0x2e;

/**
 * Returns the pieces to write for a message whose lines end with CRLF, however it is cut into buffers, with the final dot and a dot
 * before each line that begins with one (RFC 5321 section 4.5.2). Nothing is copied: pieces are views of `data`. If no line begins with a dot the cost is one native search.
 */
export function dotStuffed(data: readonly Buffer[]): Buffer[] {
  const pieces: Buffer[] = [];
  // The last two bytes before the buffer at hand; a message begins at the start of a line.
  let beforeLast = CR;
  let last = LF;
  for (const buffer of data) {
    if (buffer.length === 0) continue;
    let start = 0;
    if (buffer[0] === FULL_STOP && last === LF && beforeLast === CR) pieces.push(DOT);
    else if (last === CR && buffer[0] === LF && buffer[1] === FULL_STOP) start = cut(pieces, buffer, 0, 1);
    for (let at = buffer.indexOf(LINE_WITH_DOT, start); at >= 0; at = buffer.indexOf(LINE_WITH_DOT, start))
      start = cut(pieces, buffer, start, at + 2);
    pieces.push(start === 0 ? buffer : buffer.subarray(start));
    beforeLast = buffer.length > 1 ? (buffer[buffer.length - 2] ?? 0) : last;
    last = buffer[buffer.length - 1] ?? 0;
  }
  pieces.push(last === LF && beforeLast === CR ? END : END_AFTER_TEXT);
  return pieces;
}

/** Adds the bytes up to the dot at `dot`, and a second dot. */
function cut(pieces: Buffer[], buffer: Buffer, start: number, dot: number): number {
  pieces.push(buffer.subarray(start, dot), DOT);
  return dot;
}

/** Up to this size the pieces are copied into one: a call of the system with several costs more. */
const COPIED_BYTES = 16 * 1024;

/** Returns blocks of at most `most` bytes from pieces of any size, each to be written in one go; only small messages are copied. */
export function inBlocks(pieces: readonly Buffer[], most: number): (readonly Buffer[])[] {
  const total = pieces.reduce((sum, piece) => sum + piece.length, 0);
  if (total <= Math.min(most, COPIED_BYTES)) return [[Buffer.concat(pieces, total)]];
  const blocks: Buffer[][] = [];
  let block: Buffer[] = [];
  let size = 0;
  for (const piece of pieces) {
    for (let at = 0; at < piece.length;) {
      const end = Math.min(piece.length, at + most - size);
      block.push(piece.subarray(at, end));
      size += end - at;
      at = end;
      if (size < most && block.length < MOST_PIECES) continue;
      blocks.push(block);
      block = [];
      size = 0;
    }
  }
  if (size > 0) blocks.push(block);
  return blocks;
}

/** Pieces of one block: a message of stuffed dots has one for each, and each is an object. */
const MOST_PIECES = 512;

const MOST_RECIPIENTS = 100;

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
  requireTls?: boolean;
  /** The memory of `data` may be given back once the mail is taken. */
  isOwn?: boolean;
  /** The end of the attempt on `clock.monotonic()`; `timeouts.attempt` from now if not given. */
  deadline?: number;
}

export interface TransferFacts {
  timings: Timings;
  tls: TlsResult | null;
  /** Messages before this one on this connection whose MAIL was accepted: a refusal of MAIL then says little about this one. */
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
    /** There was no answer, or none that makes sense. `uncertain`: the final dot was sent, so the message may have been accepted. */
    | { kind: 'broken'; phase: BrokenPhase; text: string; reply: SmtpReply | null; uncertain: boolean }
    /** Nothing was taken: this server may have been replaced (`OpenDeps.maySend`), so the connection was dropped before the final dot. */
    | { kind: 'withheld' }
    | Unsupported
  );

/** Nothing was sent: the server cannot take such a message. `limit` is in octets; `text` replaces the usual text. */
export interface Unsupported {
  kind: 'unsupported';
  what: 'size' | 'smtputf8' | '8bitmime' | 'requiretls';
  limit: number | null;
  text?: string;
}

export type BrokenPhase = Broken['phase'];

/** The server does not know the command, or did not expect it now (RFC 5321 section 4.2.4). */
const OUT_OF_STEP: ReadonlySet<number> = new Set([500, 502, 503]);

/** Returns whether the enhanced code speaks of an address, a mailbox or the content (RFC 3463), which no other session changes. */
export const isAboutMail = ({ enhanced }: SmtpReply): boolean => /^[45]\.[126]\./.test(enhanced ?? '');

/** Returns whether a refusal is about the order of the commands, and so about the session and not about the mail. */
export const isOutOfStep = (reply: SmtpReply): boolean => OUT_OF_STEP.has(reply.code) && !isAboutMail(reply);

const noRecipients: readonly RefusedRecipient[] = [];

export class Envelope {
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

  /** True when no recipient is left who could take the message. */
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
    return { kind: 'accepted', reply, refusedRecipients: this.refusedOnes ?? noRecipients, ...this.facts };
  }

  refused(phase: 'mail' | 'rcpt' | 'data' | 'dot', reply: SmtpReply): Transfer {
    return { kind: 'refused', phase, reply, refusedRecipients: this.refusedOnes ?? noRecipients, ...this.facts };
  }

  /** Returns the refusal of the sender or, if that was accepted, of the first recipient. */
  refusal(): Transfer {
    if (this.mailReply !== null) return this.refused('mail', this.mailReply);
    const first = this.refusedOnes?.[0];
    if (first === undefined) throw new Error('nothing was refused');
    return this.refused('rcpt', first.reply);
  }

  withheld(): Transfer {
    return { ...this.facts, kind: 'withheld' };
  }

  broken(phase: BrokenPhase, text: string, reply: SmtpReply | null): Transfer {
    return {
      ...this.facts,
      kind: 'broken',
      phase,
      text,
      reply,
      uncertain: phase === 'dot' && !(reply !== null && reply.code >= 400),
    };
  }
}

/** Returns MAIL, a RCPT for each recipient, and DATA. */
export function envelopeCommands(mail: Mail, extensions: Extensions): string[] {
  const { envelopeFrom, recipients } = mail;
  if (recipients.length === 0 || recipients.length > MOST_RECIPIENTS)
    throw new Error('1 to 100 recipients can be sent to');
  let parameters = '';
  if (extensions.size) parameters += ` SIZE=${String(mail.size)}`;
  if (mail.eightBit) parameters += ' BODY=8BITMIME';
  if (mail.smtpUtf8) parameters += ' SMTPUTF8';
  if (mail.requireTls === true) parameters += ' REQUIRETLS';
  const commands = [`MAIL FROM:<${checkAddress(envelopeFrom, mail.smtpUtf8)}>${parameters}\r\n`];
  for (const recipient of recipients) commands.push(`RCPT TO:<${checkAddress(recipient, mail.smtpUtf8)}>\r\n`);
  commands.push('DATA\r\n');
  return commands;
}

/** Addresses were parsed long before; this is the last check before the wire. A quoted local part may contain `>`. */
function checkAddress(address: string, smtpUtf8: boolean): string {
  const forbidden = smtpUtf8 ? /[\x00-\x1f\x7f]/ : /[^\x20-\x7e]/;
  if (address.length > 1000 || forbidden.test(address) || (/[<> ]/.test(address) && !address.startsWith('"')))
    throw new Error('an invalid envelope address reached the SMTP client');
  return address;
}
