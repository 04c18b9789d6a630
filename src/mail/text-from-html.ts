/**
 * A plain text part made from html, for messages that come without one. For reading, not for rendering: paragraphs,
 * lists, links with their address, tables row by row.
 *
 * One pass over the source, each character looked at a bounded number of times: `tokens` cuts it up, `TextWriter` keeps
 * track of white space and blocks.
 */
import { decodeEntities } from './html-entities.ts';

/** Elements whose content is no text. */
const UNREAD = new Set(['script', 'style', 'title', 'template', 'iframe', 'object']);
/** Elements with an empty line before and after. */
const PARAGRAPHS = new Set('p h1 h2 h3 h4 h5 h6 ul ol dl table blockquote pre figure fieldset address hr'.split(' '));
/** Elements that begin on a line of their own. */
const LINES = new Set(
  'div li tr dt dd section article header footer main aside nav form caption center figcaption'.split(' '),
);
const DEEPEST_LIST = 8;
const SPACE = 0x20;
const DOUBLE_QUOTE = 0x22;
const SINGLE_QUOTE = 0x27;
const EQUALS = 0x3d;
const GREATER = 0x3e;
const RULE = '-'.repeat(40);

type Token =
  { kind: 'text'; text: string } | { kind: 'open'; name: string; attributes: string } | { kind: 'close'; name: string };

/** Plain text with LF line ends. Never throws; time grows linearly with the length. */
export function textFromHtml(html: string): string {
  const writer = new TextWriter();
  let hidden: { name: string; depth: number } | null = null;
  for (const token of tokens(html)) {
    if (hidden !== null) {
      // Preview texts and their padding: what the reader of the html does not see.
      if (token.kind !== 'text' && token.name === hidden.name) hidden.depth += token.kind === 'open' ? 1 : -1;
      if (hidden.depth === 0) hidden = null;
    } else if (token.kind === 'text') writer.text(decodeEntities(token.text));
    else if (token.kind === 'close') writer.close(token.name);
    else if (isHidden(token)) hidden = { name: token.name, depth: 1 };
    else writer.open(token.name, token.attributes);
  }
  return writer.end();
}

/** Only elements whose end tag cannot be left out: otherwise the rest of the mail would be hidden with them. */
function isHidden(tag: { name: string; attributes: string }): boolean {
  if ((tag.name !== 'div' && tag.name !== 'span') || !/display/i.test(tag.attributes)) return false;
  return /display\s{0,9}:\s{0,9}none/i.test(attribute(tag.attributes, 'style'));
}

/** As browsers cut it (WHATWG HTML 13.2.5), as far as text needs it. An end that is missing is the end of the source. */
function* tokens(html: string): Generator<Token> {
  let position = 0;
  while (position < html.length) {
    const open = html.indexOf('<', position);
    if (open < 0) break;
    if (open > position) yield { kind: 'text', text: html.slice(position, open) };
    const next = html[open + 1] ?? '';
    if (html.startsWith('<!--', open)) position = after(html, '-->', open + 4);
    else if (next === '!' || next === '?') position = after(html, '>', open);
    else if (/[a-z]/i.test(next) || (next === '/' && /[a-z]/i.test(html[open + 2] ?? ''))) {
      const end = endOfTag(html, open);
      const tag = readTag(html.slice(open, end));
      yield tag;
      position = tag.kind === 'open' && UNREAD.has(tag.name) ? endOfUnread(html, tag.name, end) : end;
    } else {
      yield { kind: 'text', text: '<' };
      position = open + 1;
    }
  }
  if (position < html.length) yield { kind: 'text', text: html.slice(position) };
}

function after(html: string, mark: string, from: number): number {
  const found = html.indexOf(mark, from);
  return found < 0 ? html.length : found + mark.length;
}

function endOfUnread(html: string, name: string, from: number): number {
  const close = new RegExp(`</${name}[\\s/>]`, 'gi');
  close.lastIndex = from;
  return close.exec(html)?.index ?? html.length;
}

/** Just after the `>` that ends the tag; one inside a quoted value does not. A quote is one only where a value begins. */
function endOfTag(html: string, open: number): number {
  let quote = 0;
  let valueBegins = false;
  for (let index = open; index < html.length; index++) {
    const code = html.charCodeAt(index);
    if (quote !== 0) {
      if (code === quote) quote = 0;
    } else if (code === GREATER) return index + 1;
    else if (valueBegins && (code === DOUBLE_QUOTE || code === SINGLE_QUOTE)) quote = code;
    if (code > SPACE) valueBegins = code === EQUALS;
  }
  return html.length;
}

function readTag(source: string): Token {
  const name = /^<\/?([a-z][a-z0-9:-]*)/i.exec(source)?.[1] ?? '';
  if (source.startsWith('</')) return { kind: 'close', name: name.toLowerCase() };
  return { kind: 'open', name: name.toLowerCase(), attributes: source.slice(name.length + 1).replace(/\/?>$/, '') };
}

/** An attribute's value with its entities decoded, or the empty string. */
function attribute(attributes: string, wanted: string): string {
  for (const match of attributes.matchAll(/([^\s"'=/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+)))?/g)) {
    if (match[1]?.toLowerCase() === wanted) return decodeEntities(match[2] ?? match[3] ?? match[4] ?? '').trim();
  }
  return '';
}

class TextWriter {
  private out = '';
  /** Line ends and a space that are owed, written once more text comes. */
  private breaks = 0;
  private space = false;
  private prefix = '';
  private preformatted = 0;
  private readonly lists: { next: number | null }[] = [];
  private link: { address: string; text: string } | null = null;

  text(text: string): void {
    if (this.preformatted > 0) {
      this.verbatim(text);
      return;
    }
    const reduced = /[\t\r\n\f]| {2}/.test(text) ? text.replace(/[ \t\r\n\f]+/g, ' ') : text;
    if (reduced.startsWith(' ')) this.space = true;
    const words = reduced.slice(reduced.startsWith(' ') ? 1 : 0, reduced.endsWith(' ') ? -1 : undefined);
    if (words !== '') this.write(words);
    if (reduced.endsWith(' ')) this.space = true;
  }

  open(name: string, attributes: string): void {
    this.block(name);
    if (name === 'br') this.lineEnd();
    else if (name === 'hr') this.write(RULE);
    else if (name === 'img') this.text(attribute(attributes, 'alt'));
    else if (name === 'td' || name === 'th') this.cell();
    else if (name === 'ul' || name === 'ol') this.lists.push({ next: name === 'ol' ? 1 : null });
    else if (name === 'li') this.bullet();
    else if (name === 'pre') this.preformatted++;
    else if (name === 'a') this.openLink(attribute(attributes, 'href'));
    if (name === 'hr') this.block(name);
  }

  close(name: string): void {
    if (name === 'a') this.closeLink();
    else if (name === 'ul' || name === 'ol') this.lists.pop();
    else if (name === 'pre') this.preformatted = Math.max(0, this.preformatted - 1);
    this.block(name);
  }

  end(): string {
    this.closeLink();
    return this.out;
  }

  private write(word: string): void {
    if (this.breaks > 0) this.out += this.out === '' ? this.prefix : '\n'.repeat(this.breaks) + this.prefix;
    else if (this.out === '') this.out = this.prefix;
    else if (this.space) this.out += ' ';
    if (this.link !== null) this.link.text += (this.space ? ' ' : '') + word;
    this.out += word;
    this.breaks = 0;
    this.space = false;
    this.prefix = '';
  }

  private verbatim(text: string): void {
    for (const [index, line] of text.split(/\r\n|\r|\n/).entries()) {
      if (index > 0) this.lineEnd();
      if (line !== '') this.write(line);
    }
  }

  private lineEnd(): void {
    this.breaks = Math.min(this.breaks + 1, 3);
    this.space = false;
  }

  private block(name: string): void {
    const paragraph = PARAGRAPHS.has(name);
    if (!paragraph && !LINES.has(name)) return;
    // A paragraph or list inside a list item takes no empty lines.
    this.breaks = Math.max(this.breaks, paragraph && this.lists.length === 0 ? 2 : 1);
    this.space = false;
  }

  private cell(): void {
    if (this.breaks === 0 && this.out !== '') this.space = true;
  }

  private bullet(): void {
    const list = this.lists.at(-1);
    const indent = '  '.repeat(Math.min(Math.max(this.lists.length - 1, 0), DEEPEST_LIST));
    this.prefix = `${indent}${list?.next == null ? '*' : `${String(list.next)}.`} `;
    if (list?.next != null) list.next++;
  }

  private openLink(address: string): void {
    this.closeLink();
    const shown = address.replace(/^mailto:/i, '');
    if (/^(?:https?:\/\/|mailto:|tel:|ftp:)/i.test(address) && shown !== '') this.link = { address: shown, text: '' };
  }

  /** `text (address)`; the address alone where the text is the same. */
  private closeLink(): void {
    const link = this.link;
    this.link = null;
    if (link === null) return;
    const text = link.text.trim();
    if (text === link.address || `http://${text}` === link.address || `https://${text}` === link.address) return;
    if (text !== '') this.space = true;
    this.write(text === '' ? link.address : `(${link.address})`);
  }
}
