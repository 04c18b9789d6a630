/** One message's transfer over a session: the mail, its envelope commands, the answers to them, and the result. */
import type { Clock } from '../../base/clock.ts';
import type { SmtpReply, Extensions } from '../../mail/smtp-reply.ts';
import type { Timings } from './phases.ts';
import type { TlsResult } from './tls-policy.ts';
import type { Broken } from './wire.ts';

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
  /** The message may only be handed on over TLS (RFC 8689). */
  requireTls?: boolean;
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

/** The answers to the commands of one message so far, and the transfer that they result in. */
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
    return { ...this.facts, kind: 'accepted', reply, refusedRecipients: this.refusedOnes ?? noRecipients };
  }

  refused(phase: 'mail' | 'rcpt' | 'data' | 'dot', reply: SmtpReply): Transfer {
    return { ...this.facts, kind: 'refused', phase, reply, refusedRecipients: this.refusedOnes ?? noRecipients };
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
