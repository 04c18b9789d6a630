/**
 * One socket to a mail server: writes bytes, returns replies in order, and puts a time limit on each wait. It does not know the
 * commands of SMTP. A fault is a value (`Broken`) that names the phase; after it the wire cannot be used again.
 */
import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../base/clock.ts';
import { ReplyReader } from '../../mail/smtp-reply.ts';
import { isTlsFault, tlsFaultText } from '../../net/tls-fault.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import type { Phase } from './phases.ts';

export interface Broken {
  kind: 'broken';
  phase: Phase;
  text: string;
  /** `tls`: a fault of TLS, such as an alert; `cut`: closed or reset; `silent`: nothing came in the time of the phase. Absent for all else. */
  how?: 'tls' | 'cut' | 'silent';
}

export function isBroken(answer: SmtpReply | Broken): answer is Broken {
  return 'kind' in answer;
}

/** Records each line of the dialogue, but not the message; `>` is our side. */
export interface Trace {
  /** False while no operator watches: then no line is handed over. */
  readonly on: boolean;
  line(side: '<' | '>', line: string): void;
  /** Notes that the dialogue is about this message from now on. */
  begin?(lane: string, messageId: string): void;
}

/** More replies than anything we pipeline can have caused: the server floods. */
const MOST_UNREAD = 256;

export class Wire {
  /** The end of all waits, on `clock.monotonic()`. */
  deadline = Infinity;
  /** Is called once when the server speaks or closes while no reply is awaited. */
  onUpset: (() => void) | null = null;
  /** Since when the server keeps us waiting, on `clock.monotonic()`; null while nothing is awaited. */
  waitingSince: number | null = null;
  private readonly clock: Clock;
  readonly trace: Trace | undefined;
  private socket: Socket;
  private reader = new ReplyReader();
  private unread: SmtpReply[] = [];
  private waiting: ((answer: SmtpReply | Broken) => void) | null = null;
  private draining: ((broken: Broken | null) => void) | null = null;
  private timer: Timer | null = null;
  private phase: Phase = 'banner';
  private broken: Broken | null = null;

  constructor(deps: { clock: Clock; trace?: Trace | undefined }, socket: Socket) {
    this.clock = deps.clock;
    this.trace = deps.trace;
    this.socket = socket;
    this.listen();
  }

  /** True while nothing has gone wrong and the server has said nothing that was not asked for. */
  get calm(): boolean {
    return this.broken === null && this.unread.length === 0 && !this.reader.partial;
  }

  /** Writes commands. On a broken wire it does nothing: the next `read` returns the fault. `shown` replaces secrets in the trace. */
  write(text: string, shown = text): void {
    if (this.broken !== null) return;
    if (this.trace?.on === true) for (const line of shown.split('\r\n')) if (line !== '') this.trace.line('>', line);
    this.socket.write(text);
  }

  note(text: string): void {
    if (this.trace?.on === true) this.trace.line('>', text);
  }

  /** Writes a block. Waits at most `timeoutMs` for a slow server; with null (the last block) not at all. Returns a promise only if it waits. */
  writeBlock(block: readonly Buffer[], timeoutMs: number | null): Promise<Broken | null> | Broken | null {
    if (this.broken !== null) return this.broken;
    this.phase = 'block';
    const { socket } = this;
    socket.cork();
    for (const piece of block) socket.write(piece);
    socket.uncork();
    if (!socket.writableNeedDrain || timeoutMs === null) return null;
    this.limit('block', timeoutMs, 'the server takes no data');
    return new Promise((resolve) => (this.draining = resolve));
  }

  /** True if the system has all that was written: a server may answer before that. */
  get isWritten(): boolean {
    return this.socket.writableLength === 0;
  }

  /** Returns the next reply, or the fault. A reply that came before the connection broke is still returned. */
  read(phase: Phase, timeoutMs: number): Promise<SmtpReply | Broken> {
    const ready = this.unread.shift();
    if (ready !== undefined) return Promise.resolve(ready);
    if (this.broken !== null) return Promise.resolve({ ...this.broken, phase });
    this.phase = phase;
    this.limit(phase, timeoutMs, 'no answer');
    return new Promise((resolve) => (this.waiting = resolve));
  }

  /** Returns a reply that was not awaited, such as a refusal in the middle of the body. */
  takeUnread(): SmtpReply | null {
    return this.unread.shift() ?? null;
  }

  /** Hands the socket over to TLS and forgets what came before: nothing injected may pass for an answer after the handshake (CVE-2011-0411). */
  release(): Socket {
    this.silence();
    this.reader = new ReplyReader();
    this.unread = [];
    return this.socket;
  }

  adopt(socket: Socket): void {
    this.socket = socket;
    this.listen();
  }

  /** Says QUIT and closes; resolves when the socket is gone, at the latest after `graceMs`. */
  quit(graceMs: number): Promise<void> {
    const { socket } = this;
    if (socket.destroyed) return Promise.resolve();
    if (this.broken === null) this.write('QUIT\r\n');
    this.fail('closed by us');
    return new Promise((resolve) => {
      const timer = this.clock.after(graceMs, () => socket.destroy(), { background: true });
      socket.once('close', () => {
        timer.cancel();
        resolve();
      });
      // Unread bytes would keep the end of the stream from being seen.
      socket.resume();
      socket.end();
    });
  }

  /** Drops the connection without QUIT; a read that waits gets `why`. */
  destroy(why = 'closed by us'): void {
    this.fail(why);
    this.socket.destroy();
  }

  private listen(): void {
    this.socket.on('data', this.take);
    this.socket.on('drain', this.drained);
    this.socket.on('error', this.failed);
    this.socket.on('end', this.ended);
    this.socket.on('close', this.ended);
  }

  private silence(): void {
    this.socket.off('data', this.take);
    this.socket.off('drain', this.drained);
    this.socket.off('end', this.ended);
    this.socket.off('close', this.ended);
    // 'error' stays: without a listener an error would end the process.
  }

  private readonly take = (chunk: Buffer): void => {
    for (const reply of this.reader.push(chunk)) this.deliver(reply);
    if (this.reader.fault !== null) this.fail(this.reader.fault.why);
    else if (this.waiting === null && this.reader.partial) this.upset();
  };

  private deliver(reply: SmtpReply): void {
    if (this.trace?.on === true)
      for (const [at, line] of reply.lines.entries())
        this.trace.line('<', `${String(reply.code)}${at < reply.lines.length - 1 ? '-' : ' '}${line}`);
    const { waiting } = this;
    if (waiting !== null) {
      this.waiting = null;
      this.waitingSince = null;
      this.timer?.cancel();
      waiting(reply);
    } else if (this.broken === null) this.keep(reply);
  }

  /** Keeps a reply that is not awaited yet. */
  private keep(reply: SmtpReply): void {
    this.unread.push(reply);
    if (this.unread.length > MOST_UNREAD) {
      this.fail('the server floods us with replies');
      this.socket.destroy();
    } else this.upset();
  }

  private readonly drained = (): void => {
    const { draining } = this;
    if (draining === null) return;
    this.draining = null;
    this.waitingSince = null;
    this.timer?.cancel();
    draining(null);
  };

  private readonly failed = (error: Error): void => this.fail(tlsFaultText(error), isTlsFault(error) ? 'tls' : 'cut');

  private readonly ended = (): void =>
    this.fail(
      this.reader.partial ? 'connection closed in the middle of a reply' : 'connection closed by the server',
      'cut',
    );

  /** Behind the final dot only its own limit holds: the server may have taken the mail, and one that is cut off there is sent twice. */
  private limit(phase: Phase, timeoutMs: number, what: string): void {
    this.waitingSince = this.clock.monotonic();
    const left = phase === 'dot' ? Infinity : this.deadline - this.waitingSince;
    const ms = Math.max(0, Math.min(timeoutMs, left));
    this.timer = this.clock.after(ms, () => {
      if (left < timeoutMs) this.fail('the time for the whole attempt is over');
      else this.fail(`${what} within ${String(ms / 1000)} s`, 'silent');
      this.socket.destroy();
    });
  }

  private fail(text: string, how?: Broken['how']): void {
    if (this.broken !== null) return;
    const broken: Broken = { kind: 'broken', phase: this.phase, text, ...(how === undefined ? {} : { how }) };
    this.note(`(${text})`);
    this.broken = broken;
    this.waitingSince = null;
    this.timer?.cancel();
    const { waiting, draining } = this;
    this.waiting = null;
    this.draining = null;
    waiting?.(broken);
    draining?.(broken);
    if (waiting === null && draining === null) this.upset();
  }

  private upset(): void {
    const { onUpset } = this;
    this.onUpset = null;
    onUpset?.();
  }
}
