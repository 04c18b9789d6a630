/** The corpus of mails from other projects' tests, read into what they say, so that we can send it as our own. */
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { simpleParser } from 'mailparser';
import type { Attachment, ParsedMail } from 'mailparser';
import type { SampleAttachment, SampleMail } from './odd-mails.ts';

export interface CorpusMails {
  mails: SampleMail[];
  /** Files that hold nothing to send, with the reason. */
  unusable: string[];
}

/** Every `.eml` and `.txt` file below the folder but licences and notes. */
export async function readCorpusMails(folder: string): Promise<CorpusMails> {
  const mails: SampleMail[] = [];
  const unusable: string[] = [];
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((name) => /\.(?:eml|txt)$/.test(name) && !/SOURCE|LICENSE/.test(name)).sort()) {
    // Their html is taken as it stands, and no part is made from another.
    const options = { skipHtmlToText: true, skipTextToHtml: true, skipImageLinks: true };
    const mail = sampleOf(file, await simpleParser(readFileSync(path.join(folder, file)), options));
    if (mail === null) unusable.push(`${file}: no text, html or attachment`);
    else mails.push(mail);
  }
  return { mails, unusable };
}

/** A subject, a text beside the attachments or a file name is made up where a send needs it and the mail lacks it. */
function sampleOf(file: string, parsed: ParsedMail): SampleMail | null {
  const html = given(parsed.html);
  const text = given(parsed.text);
  const attachments = parsed.attachments.map(attachmentOf);
  if (html === null && text === null && attachments.length === 0) return null;
  const to = Array.isArray(parsed.to) ? parsed.to[0] : parsed.to;
  return {
    label: file,
    fromName: given(parsed.from?.value[0]?.name),
    toName: given(to?.value[0]?.name),
    subject: given(parsed.subject) ?? file,
    html,
    text: html === null && text === null ? 'See the attachment.' : text,
    attachments,
  };
}

function given(text: string | false | undefined): string | null {
  return text === undefined || text === false || text === '' ? null : text;
}

function attachmentOf(
  { filename, content, contentType, cid, contentDisposition }: Attachment,
  at: number,
): SampleAttachment {
  return {
    filename: filename ?? `part-${String(at + 1)}`,
    content,
    contentType,
    contentId: cid ?? null,
    disposition: contentDisposition === 'inline' || contentDisposition === 'attachment' ? contentDisposition : null,
  };
}
