/** Attaches mail to postmaster@ and abuse@ (RFC 2142) to mail of ours: else it fails SPF and DMARC, and we are an open relay. Pure. */
import { newId } from '../base/id.ts';
import { parseMailbox } from '../mail/address.ts';
import { isAutoSubmitted, isMarkedAutoReply } from '../mail/auto-reply.ts';
import { endOfHead, parseHeaders, withoutControls } from '../mail/header.ts';
import { fieldOf } from '../mail/mime-read.ts';
import type { OwnMail } from '../messages/accept/own-mail.ts';
import type { ReportRow } from '../storage/tables.ts';
import type { Finding } from './finding.ts';

export interface ForwardRule {
  /** `smtp.operatorAddress`, or null. */
  operatorAddress: string | null;
  hostname: string;
}

type Forwardable = Pick<ReportRow, 'received_at' | 'client_ip' | 'sender' | 'recipients_json' | 'size' | 'raw'>;

/** Forwarded mails in any hour at the most: a flood at these addresses must not reach the operator. */
export const FORWARDED_AN_HOUR = 20;

const PERSONS = /^(?:postmaster(?:@|$)|abuse@)/i;

/**
 * Returns whether a person should read this mail: it came to such an address, has a sender, and is neither a report nor a machine's answer.
 * Words do not make it one: people quote bounces, and send back the spam that they got. `isAboutOurs`: it names a mail of ours.
 */
export function isForOperator(row: Forwardable, finding: Finding, isAboutOurs: boolean): boolean {
  const { kind, token, messageId, feedback, isWellFormed } = finding;
  if (row.sender === '' || addressee(row) === null || kind === 'report') return false;
  if (kind === 'other') return true;
  if (kind === 'unsubscribe') return token === null;
  // Answers and delays are not looked for by the Message-ID of the mail that they answer, so they may be about one of ours.
  const mayBeOurs = isAboutOurs || ((kind === 'auto_reply' || kind === 'delay') && messageId !== null);
  const isReport = kind === 'complaint' ? feedback?.source !== 'other' : isWellFormed;
  return !mayBeOurs && !isReport && !isOfMachine(row.raw);
}

/** Returns whether the header of a mail says that a program wrote it (RFC 3834), or that it is a report (RFC 6522). */
function isOfMachine(raw: Buffer): boolean {
  const headers = parseHeaders(raw.subarray(0, endOfHead(raw)));
  const isReport = /^\s*multipart\/report\b/i.test(fieldOf(headers, 'content-type') ?? '');
  return isReport || isAutoSubmitted(headers) || isMarkedAutoReply(headers);
}

/** Returns the mail to the operator; null if there is none. */
export function forwardOf({ operatorAddress, hostname }: ForwardRule, row: Forwardable, now: number): OwnMail | null {
  const to = parseMailbox(operatorAddress ?? '', { smtputf8: true });
  const address = addressee(row);
  if (to.kind === 'bad' || address === null) return null;
  const name = { name: 'Posthorn', address: `postmaster@${hostname}`, local: 'postmaster', domain: hostname };
  return {
    id: newId('msg', now),
    from: name,
    to: to.mailbox,
    subject: `Mail to ${withoutControls(address).slice(0, 200)}`,
    content: {
      kind: 'text',
      text: words(row, address),
      headers: [['Auto-Submitted', 'auto-generated']],
      attachments: [
        {
          filename: 'mail.eml',
          contentType: 'message/rfc822',
          contentId: null,
          disposition: 'attachment',
          content: row.raw,
        },
      ],
    },
  };
}

function addressee({ recipients_json: recipients }: Forwardable): string | null {
  return (JSON.parse(recipients) as string[]).find((address) => PERSONS.test(address)) ?? null;
}

function words({ received_at: at, client_ip: ip, sender, size, raw }: Forwardable, address: string): string {
  const isCut = size > raw.length;
  return [
    `A mail to ${withoutControls(address)} came on ${new Date(at).toUTCString()} from ${ip}.`,
    `Its sender says to be <${withoutControls(sender)}>. It is attached${isCut ? `: the first ${String(raw.length)} of ${String(size)} octets` : ''}.`,
    '',
    'Nothing in it was checked. Replies to this mail do not reach its sender.',
    '',
  ].join('\n');
}
