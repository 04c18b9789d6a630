/**
 * Reads a mail for people: its addresses, subject, text, html and the names of its files, by mailparser. Programs read reports with
 * `mime-read.ts`, which has bounds of its own; this reader has none but those of mailparser (1,000 parts, 1 MiB of header in a part),
 * so it works in a thread with a time limit (`messages/store/mail-viewer.ts`).
 *
 * mailparser makes no html from text and no text from html here: with that, 2 MB of `<div>` took it a minute
 * (`npm run bench -- packages`), and without it 0.2 s.
 */
import { simpleParser, type AddressObject } from 'mailparser';

export interface MailView {
  subject: string;
  /** Addresses as the mail has them, with encoded words decoded; empty without the field. */
  from: string;
  to: string;
  cc: string;
  /** RFC 3339, or null without a date that can be read. */
  date: string | null;
  /** Text parts, with those of a delivery status and of mails inside the mail. */
  text: string | null;
  /** From a stranger: show it in a sandboxed frame only. */
  html: string | null;
  /** The first 100. */
  attachments: FileView[];
}

export interface FileView {
  filename: string;
  content_type: string;
  content_id: string | null;
  disposition: 'attachment' | 'inline';
  /** Decoded bytes. */
  size: number;
}

const MOST_FILES = 100;

/** Throws if mailparser gives up. */
export async function readMailView(bytes: Buffer): Promise<MailView> {
  const mail = await simpleParser(bytes, {
    skipHtmlToText: true,
    skipTextToHtml: true,
    skipTextLinks: true,
    keepCidLinks: true,
  });
  return {
    subject: mail.subject ?? '',
    from: addressText(mail.from),
    to: addressText(mail.to),
    cc: addressText(mail.cc),
    date: mail.date === undefined || Number.isNaN(mail.date.getTime()) ? null : mail.date.toISOString(),
    text: nonEmpty(mail.text),
    html: nonEmpty(mail.html),
    attachments: mail.attachments.slice(0, MOST_FILES).map((file) => ({
      filename: file.filename ?? '',
      content_type: file.contentType,
      content_id: file.cid ?? null,
      disposition: file.contentDisposition === 'inline' ? 'inline' : 'attachment',
      size: file.size,
    })),
  };
}

const addressText = (field: AddressObject | AddressObject[] | undefined): string =>
  [field ?? []]
    .flat()
    .map(({ text }) => text)
    .join(', ');

const nonEmpty = (text: string | false | undefined): string | null =>
  text === undefined || text === false || text === '' ? null : text;
