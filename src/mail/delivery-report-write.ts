/**
 * Writes a delivery report: RFC 3464 in the frame of RFC 6522 (multipart/report), with the header of its mail. All is ASCII, addresses too (RFC 6533
 * section 3), so that it passes every server on its way back.
 */
import { createHash } from 'node:crypto';
import { fold, dateTime } from './header.ts';
import type { EncodedContent } from './mime-write.ts';
import { BOUNDARY_MARK, encodeText, measureText } from './transfer-encoding.ts';

export interface ReportedRecipient {
  address: string;
  /** Enhanced status code (RFC 3463), `5.1.1`. */
  status: string;
  /** The words of the remote (`smtp`), or ours (`x-posthorn`), and who said them; null if there are none. */
  diagnostic: { type: 'smtp' | 'x-posthorn'; text: string; host: string | null } | null;
  /** Milliseconds since the epoch; null if it was never tried. */
  lastAttemptAt: number | null;
}

export interface DeliveryReportInput {
  /** Name of the host that gives up: us. */
  reportingMta: string;
  /** Milliseconds since the epoch. */
  arrivedAt: number;
  /** Our name of the mail. */
  messageId: string;
  /** The part for people. Line ends are LF. */
  text: string;
  /** At least one; all of them have failed. */
  recipients: readonly ReportedRecipient[];
  /** The original header of the mail, or null if it is not kept any more; cut at `MOST_HEAD`. */
  originalHead: Buffer | null;
}

/** Octets of the returned header at the most. */
export const MOST_HEAD = 16 * 1024;
/** Of a quoted reply, in characters: it goes into one field, which is folded. */
const MOST_DIAGNOSTIC = 900;

/** Returns the Content-* lines and the body of the report; its other fields are those of any mail (header.ts). */
export function writeDeliveryReport(input: DeliveryReportInput): EncodedContent {
  const parts = [textPart('text/plain', input.text), fieldsPart(input)];
  if (input.originalHead !== null) parts.push(textPart('text/rfc822-headers', headText(input.originalHead)));
  const seed = createHash('sha256');
  for (const part of parts) seed.update(part);
  const boundary = `${BOUNDARY_MARK}${seed.digest('base64url').slice(0, 24)}`;
  const body = Buffer.concat([
    ...parts.flatMap((part) => [Buffer.from(`--${boundary}\r\n`), part, Buffer.from('\r\n')]),
    Buffer.from(`--${boundary}--\r\n`),
  ]);
  const type = `Content-Type: multipart/report; report-type=delivery-status;\r\n boundary="${boundary}"\r\n`;
  return { headers: `MIME-Version: 1.0\r\n${type}`, body };
}

function textPart(type: string, text: string): Buffer {
  const measured = measureText(text);
  const head = `Content-Type: ${type}; charset=utf-8\r\nContent-Transfer-Encoding: ${measured.encoding}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), encodeText(measured, 'part')]);
}

/** Returns whole lines only: half a field would read as another one. */
function headText(head: Buffer): string {
  if (head.length <= MOST_HEAD) return head.toString('utf8');
  const text = head.toString('utf8', 0, MOST_HEAD);
  return text.slice(0, text.lastIndexOf('\n') + 1);
}

/** Writes the part of RFC 3464 section 2.1: the fields of the message, then those of each recipient, groups separated by an empty line. */
function fieldsPart({ reportingMta, arrivedAt, messageId, recipients }: DeliveryReportInput): Buffer {
  const ofMessage = [
    field('Reporting-MTA', `dns; ${ascii(reportingMta)}`),
    field('X-Posthorn-Message-Id', ascii(messageId)),
    field('Arrival-Date', dateTime(new Date(arrivedAt))),
  ].join('');
  const groups = [ofMessage, ...recipients.map(recipientFields)].join('\r\n');
  return Buffer.from(`Content-Type: message/delivery-status\r\n\r\n${groups}`);
}

function recipientFields({ address, status, diagnostic, lastAttemptAt }: ReportedRecipient): string {
  let fields = field('Final-Recipient', typedAddress(address));
  fields += field('Action', 'failed');
  fields += field('Status', status);
  if (diagnostic !== null) {
    if (diagnostic.host !== null) fields += field('Remote-MTA', `dns; ${ascii(diagnostic.host)}`);
    fields += field('Diagnostic-Code', `${diagnostic.type}; ${ascii(diagnostic.text).slice(0, MOST_DIAGNOSTIC)}`);
  }
  return lastAttemptAt === null ? fields : fields + field('Last-Attempt-Date', dateTime(new Date(lastAttemptAt)));
}

/** RFC 6533 section 3: `utf-8-addr-xtext`, the form that is good in ASCII. */
function typedAddress(address: string): string {
  if (/^[\x21-\x7e]*$/.test(address)) return `rfc822; ${address}`;
  const escaped = Array.from(address, (character) =>
    /^[!-*,-<>-[\]-~]$/.test(character)
      ? character
      : `\\x{${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(2, '0')}}`,
  );
  return `utf-8; ${escaped.join('')}`;
}

const ascii = (text: string): string => text.replace(/[^\x20-\x7e]+/g, (run) => (/^\s+$/.test(run) ? ' ' : '?')).trim();

const field = (name: string, value: string): string =>
  fold(
    name,
    value.split(' ').filter((one) => one !== ''),
  );
