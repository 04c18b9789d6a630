/** One connection to a host of the zoo: reads commands, asks the host's behaviour, answers, and notes what happened. */
import type { Socket } from 'node:net';
import { judge, type Stage } from './behaviour.ts';
import type { Attempt, Dial, Host, Receiver } from './receiver.ts';

const ordinary: Record<Stage, string> = {
  connect: '220 mx.example.net ESMTP',
  ehlo: '250-mx.example.net\n250-PIPELINING\n250-8BITMIME\n250-SIZE 52428800\n250 ENHANCEDSTATUSCODES',
  mail: '250 2.1.0 Ok',
  rcpt: '250 2.1.5 Ok',
  data: '354 End data with <CR><LF>.<CR><LF>',
  message: '250 2.0.0 Ok: queued',
};

const stages: Partial<Record<string, Stage>> = { EHLO: 'ehlo', HELO: 'ehlo', MAIL: 'mail', RCPT: 'rcpt', DATA: 'data' };

type Next = 'mail' | 'rcpt' | 'data' | 'message';

export class Dialogue {
  private readonly socket: Socket;
  private readonly host: Host;
  private readonly receiver: Receiver;
  private readonly client: string;
  private received = '';
  /** A reply is on its way: what came after it waits. */
  private isBusy = false;
  private isDeaf = false;
  /** Counts among the connections that stand. */
  private isStanding = true;
  private next: Next = 'mail';
  private attempt: Attempt | null = null;
  private dial: Dial | null = null;

  constructor(socket: Socket, host: Host, receiver: Receiver) {
    this.socket = socket;
    this.host = host;
    this.receiver = receiver;
    this.client = (socket.remoteAddress ?? '').replace('::ffff:', '');
  }

  start(): void {
    this.host.standing++;
    this.dial = { at: this.receiver.now(), host: this.host.address, refused: false, reply: '' };
    this.receiver.dials.push(this.dial);
    this.socket
      .on('error', () => undefined)
      .on('data', (chunk: Buffer) => {
        this.received += chunk.toString('latin1');
        this.work();
      })
      .on('end', () => this.socket.end())
      .on('close', () => {
        this.leave();
        if (this.attempt?.end === 'open') this.attempt.end = 'broken';
      });
    this.dial.refused = !this.answer('connect');
    if (this.dial.refused) this.leave();
  }

  private leave(): void {
    if (this.isStanding) this.host.standing--;
    this.isStanding = false;
  }

  private work(): void {
    while (!this.isBusy && !this.isDeaf && (this.next === 'message' ? this.takeMessage() : this.takeLine()));
  }

  private takeLine(): boolean {
    const end = this.received.indexOf('\r\n');
    if (end < 0) return false;
    const line = this.received.slice(0, end);
    this.received = this.received.slice(end + 2);
    this.command(line);
    return true;
  }

  private takeMessage(): boolean {
    const end = `\r\n${this.received}`.indexOf('\r\n.\r\n');
    if (end < 0) return false;
    this.received = this.received.slice(end + 3);
    this.next = 'mail';
    const { attempt } = this;
    if (attempt === null) return true;
    if (this.answer('message')) {
      attempt.end = 'taken';
      const times = this.receiver.taken.get(attempt.to) ?? [];
      this.receiver.taken.set(attempt.to, [...times, this.receiver.now()]);
    } else if (attempt.end === 'broken') attempt.end = 'broken_behind_dot';
    return true;
  }

  private command(line: string): void {
    this.receiver.commands++;
    const verb = (line.split(/[ :]/)[0] ?? '').toUpperCase();
    const stage = stages[verb];
    if (stage === 'ehlo') this.answer('ehlo');
    else if (stage === 'mail') this.mail();
    else if (stage === 'rcpt' || stage === 'data') this.inTransaction(stage, line);
    else if (verb === 'QUIT') this.say('221 2.0.0 Bye', true);
    else if (verb === 'RSET' || verb === 'NOOP') {
      this.next = verb === 'RSET' ? 'mail' : this.next;
      this.say('250 2.0.0 Ok');
    } else this.say('502 5.5.2 Error: command not recognized');
  }

  private mail(): void {
    this.attempt = { at: this.receiver.now(), host: this.host.address, to: '', end: 'open', reply: '' };
    this.receiver.attempts.push(this.attempt);
    if (this.answer('mail')) this.next = 'rcpt';
  }

  private inTransaction(stage: 'rcpt' | 'data', line: string): void {
    // Pipelined behind a refused MAIL it still says whose mail it was.
    if (stage === 'rcpt' && this.attempt?.to === '') this.attempt.to = /<(.*?)>/.exec(line)?.[1] ?? '';
    const isInTurn = stage === 'rcpt' ? this.next === 'rcpt' || this.next === 'data' : this.next === 'data';
    if (!isInTurn) this.say('503 5.5.1 Error: bad sequence of commands');
    else if (this.answer(stage)) this.next = stage === 'rcpt' ? 'data' : 'message';
  }

  /** True if the host lets the sender go on. */
  private answer(stage: Stage): boolean {
    const verdict = judge(this.host.behaviour, this.host.memory, {
      stage,
      client: this.client,
      to: this.attempt?.to ?? '',
      standing: this.host.standing,
      now: this.receiver.now(),
    });
    if (verdict.kind === 'go') {
      this.say(ordinary[stage], false, stage === 'message' ? this.host.behaviour.answerMs : undefined);
      return true;
    }
    const { attempt } = this;
    if (attempt?.end === 'open' && stage !== 'connect' && stage !== 'ehlo') {
      attempt.end = verdict.kind === 'break' ? 'broken' : 'refused';
      attempt.reply = verdict.kind === 'break' ? verdict.how : verdict.words;
    }
    if (stage === 'connect' && this.dial !== null && verdict.kind === 'say') this.dial.reply = verdict.words;
    if (verdict.kind === 'say') this.say(verdict.words, verdict.closes);
    else this.break(verdict.how);
    return false;
  }

  private break(how: 'drop' | 'reset' | 'hang'): void {
    this.isDeaf = true;
    if (how === 'drop') this.socket.destroy();
    if (how === 'reset') this.socket.resetAndDestroy();
  }

  private say(words: string, closes = false, latencyMs = this.host.behaviour.latencyMs ?? 0): void {
    if (closes) this.isDeaf = true;
    const send = (): void => {
      if (this.socket.destroyed) return;
      const text = `${words.replaceAll('\n', '\r\n')}\r\n`;
      if (closes) this.socket.end(text);
      else this.socket.write(text);
    };
    // A host turns a client away at once, so a sender that dials again at once comes very often.
    if (latencyMs === 0 || closes) {
      send();
      return;
    }
    this.isBusy = true;
    this.receiver.pending++;
    this.receiver.clock.after(latencyMs, () => {
      this.receiver.pending--;
      send();
      this.isBusy = false;
      this.work();
    });
  }
}
