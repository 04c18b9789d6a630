/** A mail as its recipient's program reads it: by mailparser, which is none of our code. */
import { simpleParser } from 'mailparser';

export interface ReadMail {
  html: string;
  text: string;
  /** The raw value of a header, unfolded, or null. */
  header(name: string): string | null;
}

export async function readMail(data: string): Promise<ReadMail> {
  const parsed = await simpleParser(Buffer.from(data, 'latin1'), { skipTextToHtml: true, skipHtmlToText: true });
  const lines = new Map(parsed.headerLines.map(({ key, line }) => [key, line]));
  return {
    html: parsed.html === false ? '' : parsed.html,
    text: parsed.text ?? '',
    header(name) {
      const line = lines.get(name.toLowerCase());
      return line === undefined
        ? null
        : line
            .slice(line.indexOf(':') + 1)
            .replaceAll(/\r\n[ \t]+/g, ' ')
            .trim();
    },
  };
}

/** The href of every link, in order, entities decoded as far as tests use them. */
export const hrefsOf = (html: string): string[] =>
  [...html.matchAll(/<a\b[^>]*?\shref="([^"]*)"/gi)].map(([, href = '']) => href.replaceAll('&amp;', '&'));

/** Address of the pixel, or null. */
export const pixelOf = (html: string): string | null => /<img src="([^"]*\/t\/o\/[^"]*)"/.exec(html)?.[1] ?? null;
