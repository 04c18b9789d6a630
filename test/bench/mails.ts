/** The mails that benchmarks send: the same content as the body of a POST and as a MIME file for `smtp-source`. */
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';

/** A larger mail is a short text with a file. */
const LARGEST_HTML = 512 * 1024;
/** A sixth of it is text for a reader; of the larger HTML mails in the corpora it is a tenth. */
const LINE =
  '<tr><td align="left" valign="top" width="600" bgcolor="#ffffff" style="padding:12px 24px 12px 24px;font-family:Helvetica,Arial,sans-serif;' +
  'font-size:16px;line-height:24px;color:#333333;border-bottom:1px solid #dddddd;mso-line-height-rule:exactly">\n' +
  '<a href="https://shop.bench.test/orders/4711/items/42" target="_blank" style="color:#0055aa;text-decoration:underline;font-weight:bold">' +
  '<span style="color:#0055aa">Your order</span></a> is on its way to you.</td></tr>\n';

export interface MailFiles {
  /** The members of a request behind those of its own: `"html":"..."}`. */
  json: string;
  /** Header and body, with LF line ends. */
  mime: string;
}

/** Writes a mail of about `bytes` in both forms to a folder. A mail with an attachment has as many octets when it is encoded. */
export function writeMail(folder: string, bytes: number): MailFiles {
  const files = { json: path.join(folder, `${String(bytes)}.json`), mime: path.join(folder, `${String(bytes)}.eml`) };
  const { members, headers, body } = bytes > LARGEST_HTML ? withFile(bytes) : htmlOnly(bytes);
  writeFileSync(files.json, JSON.stringify(members).slice(1));
  const head = [
    'From: Bench <hi@bench.test>',
    'To: r@dest.test',
    'Subject: Your order',
    'MIME-Version: 1.0',
    ...headers,
  ];
  writeFileSync(files.mime, `${head.join('\n')}\n\n${body}`);
  return files;
}

interface Content {
  members: object;
  headers: readonly string[];
  body: string;
}

export const htmlOf = (bytes: number): string =>
  `<html><body><table>${LINE.repeat(Math.ceil(bytes / LINE.length))}`.slice(0, bytes);

function htmlOnly(bytes: number): Content {
  const html = htmlOf(bytes);
  return { members: { html }, headers: ['Content-Type: text/html; charset=utf-8'], body: `${html}\n` };
}

function withFile(bytes: number): Content {
  const content = randomBytes(Math.floor((bytes * 3) / 4)).toString('base64');
  const text = 'Good day, here is your invoice.';
  const [filename, type] = ['invoice.pdf', 'application/pdf'];
  const part = (headers: readonly string[], body: string): string => `--bench\n${headers.join('\n')}\n\n${body}\n`;
  return {
    members: { text, attachments: [{ filename, content, content_type: type }] },
    headers: ['Content-Type: multipart/mixed; boundary=bench'],
    body: [
      part(['Content-Type: text/plain'], text),
      part(
        [
          `Content-Type: ${type}; name=${filename}`,
          'Content-Transfer-Encoding: base64',
          `Content-Disposition: attachment; filename=${filename}`,
        ],
        content.replaceAll(/.{76}/g, '$&\n'),
      ),
      '--bench--\n',
    ].join(''),
  };
}
