/** The header of one message: RFC 5322 section 3.6. Fields in a fixed order; Bcc has no place in it. */
import { addressHeader, headerLine } from './header.ts';
import type { Mailbox } from './address.ts';

export interface HeadInput {
  from: Mailbox;
  to: readonly Mailbox[];
  cc: readonly Mailbox[];
  replyTo: readonly Mailbox[];
  subject: string;
  date: Date;
  /** With or without its angle brackets. */
  messageId: string;
  /** Further fields in the order in which they are written: X-Message-Id, Feedback-ID, the customer's own, List-Unsubscribe. */
  extra: readonly (readonly [name: string, value: string])[];
}

/** Returns the header lines, each ended by CRLF; those of the content (MIME-Version, Content-*) and the empty line come after it. */
export function writeHead(input: HeadInput): string {
  let head = `Date: ${dateTime(input.date)}\r\n`;
  head += addressHeader('From', [input.from]);
  head += addressHeader('Reply-To', input.replyTo);
  head += addressHeader('To', input.to);
  head += addressHeader('Cc', input.cc);
  head += headerLine('Subject', input.subject);
  head += headerLine('Message-ID', input.messageId.startsWith('<') ? input.messageId : `<${input.messageId}>`);
  for (const [name, value] of input.extra) if (name.toLowerCase() !== 'bcc') head += headerLine(name, value);
  return head;
}

/** Returns the date as header fields have it (RFC 5322 section 3.3), in UTC. */
export const dateTime = (date: Date): string => date.toUTCString().replace('GMT', '+0000');
