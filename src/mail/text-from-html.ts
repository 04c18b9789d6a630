/**
 * A plain text part made from html, for messages that come without one. For reading, not for rendering: paragraphs,
 * lists, links with their address, tables row by row.
 *
 * One pass over the source, each character looked at a bounded number of times: `read` cuts it up, `TextWriter` keeps
 * track of white space and blocks. It runs for every mail that has only html, so what can be skipped is never cut out:
 * elements that mean nothing here, and attributes of all but three.
 */
import { decodeHTMLStrict } from 'entities/decode';

/** The effect of an element on the text. */
interface Element {
  name: string;
  /** Empty lines before and after (2), a separate line (1), or neither. */
  breaks: 0 | 1 | 2;
  /** Its content is not text. */
  isUnread: boolean;
  hasAttributes: boolean;
}

/** Elements that mean something, by name; most source spells them in lower case. */
const ELEMENTS = new Map<string, Element>();
for (const [breaks, names] of [
  [2, 'p h1 h2 h3 h4 h5 h6 ul ol dl table blockquote pre figure fieldset address hr'],
  [1, 'div li tr dt dd section article header footer main aside nav form caption center figcaption'],
  [0, 'a br img td th span script style title template iframe object'],
] as const) {
  for (const name of names.split(' ')) {
    ELEMENTS.set(name, {
      name,
      breaks,
      isUnread: ['script', 'style', 'title', 'template', 'iframe', 'object'].includes(name),
      hasAttributes: ['a', 'img', 'div', 'span'].includes(name),
    });
  }
}

const DEEPEST_LIST = 8;
/** Characters of the text that are put aside at once. */
const SLICE = 64 * 1024;
const SPACE = 0x20;
const EXCLAMATION = 0x21;
const DOUBLE_QUOTE = 0x22;
const SINGLE_QUOTE = 0x27;
const SLASH = 0x2f;
const EQUALS = 0x3d;
const GREATER = 0x3e;
const QUESTION = 0x3f;
const RULE = '-'.repeat(40);

/** Returns plain text with LF line ends. Never throws; time grows linearly with the length. */
export function textFromHtml(html: string): string {
  const reader = new Reader();
  read(html, reader);
  return reader.writer.end();
}

/** Takes the pieces of the source and leaves out what is hidden: preview texts and their padding, which no reader of the html sees. */
class Reader {
  readonly writer = new TextWriter();
  private hidden: { element: Element; depth: number } | null = null;

  text(text: string): void {
    if (this.hidden === null) this.writer.text(decodeEntities(text));
  }

  open(element: Element, attributes: string): void {
    if (this.hidden !== null) this.nest(element, 1);
    else if (isHidden(element, attributes)) this.hidden = { element, depth: 1 };
    else this.writer.open(element, attributes);
  }

  close(element: Element): void {
    if (this.hidden !== null) this.nest(element, -1);
    else this.writer.close(element);
  }

  private nest(element: Element, by: 1 | -1): void {
    if (this.hidden?.element !== element) return;
    this.hidden.depth += by;
    if (this.hidden.depth === 0) this.hidden = null;
  }
}

/** Returns whether the element is hidden, and of a kind whose end tag cannot be left out: otherwise the rest of the mail would be hidden with them. */
function isHidden({ name }: Element, attributes: string): boolean {
  if ((name !== 'div' && name !== 'span') || !/display/i.test(attributes)) return false;
  return /display\s{0,9}:\s{0,9}none/i.test(attribute(attributes, 'style'));
}

/** Cuts the source as browsers do (WHATWG HTML 13.2.5) as far as text needs it. A missing end is the end of the source. */
function read(html: string, reader: Reader): void {
  let position = 0;
  while (position < html.length) {
    const open = html.indexOf('<', position);
    if (open < 0) break;
    if (open > position) reader.text(html.slice(position, open));
    const next = html.charCodeAt(open + 1);
    const isEnd = next === SLASH;
    if (isLetter(isEnd ? html.charCodeAt(open + 2) : next)) position = readTag(html, open, isEnd, reader);
    else if (next === EXCLAMATION || next === QUESTION) {
      position = html.startsWith('<!--', open) ? after(html, '-->', open + 4) : after(html, '>', open);
    } else {
      reader.text('<');
      position = open + 1;
    }
  }
  if (position < html.length) reader.text(html.slice(position));
}

/** Hands on the tag at `open` and returns the place after it, or after the hidden content that follows it. */
function readTag(html: string, open: number, isEnd: boolean, reader: Reader): number {
  const nameStart = open + (isEnd ? 2 : 1);
  let nameEnd = nameStart + 1;
  while (isOfName(html.charCodeAt(nameEnd))) nameEnd++;
  const end = endOfTag(html, nameEnd);
  const name = html.slice(nameStart, nameEnd);
  const element = ELEMENTS.get(name) ?? ELEMENTS.get(name.toLowerCase());
  if (element === undefined) return end;
  if (isEnd) {
    reader.close(element);
    return end;
  }
  const attributes = element.hasAttributes && end - nameEnd > 2 ? html.slice(nameEnd, end) : '';
  reader.open(element, attributes.replace(/\/?>$/, ''));
  return element.isUnread ? endOfUnread(html, element.name, end) : end;
}

const isLetter = (code: number): boolean => (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;

/** Returns whether it is a letter, a digit, `:` or `-`. */
const isOfName = (code: number): boolean => isLetter(code) || (code >= 0x30 && code <= 0x3a) || code === 0x2d;

function after(html: string, mark: string, from: number): number {
  const found = html.indexOf(mark, from);
  return found < 0 ? html.length : found + mark.length;
}

function endOfUnread(html: string, name: string, from: number): number {
  const close = new RegExp(`</${name}[\\s/>]`, 'gi');
  close.lastIndex = from;
  return close.exec(html)?.index ?? html.length;
}

/** Returns the place after the `>` that ends the tag; one inside a quoted value does not. A quote counts only at the beginning of a value. */
function endOfTag(html: string, from: number): number {
  let valueBegins = false;
  for (let index = from; index < html.length; index++) {
    const code = html.charCodeAt(index);
    if (code === GREATER) return index + 1;
    if (valueBegins && (code === DOUBLE_QUOTE || code === SINGLE_QUOTE)) {
      index = html.indexOf(code === DOUBLE_QUOTE ? '"' : "'", index + 1);
      if (index < 0) return html.length;
      valueBegins = false;
    } else if (code > SPACE) valueBegins = code === EQUALS;
  }
  return html.length;
}

const ATTRIBUTE = /([^\s"'=/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"']+)))?/g;

/** Returns an attribute's value with its entities decoded, or the empty string. */
function attribute(attributes: string, wanted: string): string {
  if (attributes === '') return '';
  ATTRIBUTE.lastIndex = 0;
  for (let match = ATTRIBUTE.exec(attributes); match !== null; match = ATTRIBUTE.exec(attributes)) {
    if (match[1]?.toLowerCase() === wanted) return decodeEntities(match[2] ?? match[3] ?? match[4] ?? '').trim();
  }
  return '';
}

/** Returns whether it is white space of html: not the no-break space. */
const isWhite = (code: number): boolean =>
  code === SPACE || code === 0x0a || code === 0x0d || code === 0x09 || code === 0x0c;

class TextWriter {
  private readonly done: string[] = [];
  private out = '';
  /** Line ends and a space that are written when more text comes. */
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
    let start = 0;
    let end = text.length;
    while (start < end && isWhite(text.charCodeAt(start))) start++;
    while (end > start && isWhite(text.charCodeAt(end - 1))) end--;
    if (start > 0) this.space = true;
    if (start === end) return;
    const words = start === 0 && end === text.length ? text : text.slice(start, end);
    this.write(/[\t\r\n\f]| {2}/.test(words) ? words.replace(/[ \t\r\n\f]+/g, ' ') : words);
    if (end < text.length) this.space = true;
  }

  open(element: Element, attributes: string): void {
    this.block(element);
    switch (element.name) {
      case 'br':
        this.lineEnd();
        break;
      case 'hr':
        this.write(RULE);
        this.block(element);
        break;
      case 'img':
        this.text(attribute(attributes, 'alt'));
        break;
      case 'td':
      case 'th':
        this.cell();
        break;
      case 'ul':
      case 'ol':
        this.lists.push({ next: element.name === 'ol' ? 1 : null });
        break;
      case 'li':
        this.bullet();
        break;
      case 'pre':
        this.preformatted++;
        break;
      case 'a':
        this.openLink(attribute(attributes, 'href'));
        break;
    }
  }

  close(element: Element): void {
    const { name } = element;
    if (name === 'a') this.closeLink();
    else if (name === 'ul' || name === 'ol') this.lists.pop();
    else if (name === 'pre') this.preformatted = Math.max(0, this.preformatted - 1);
    this.block(element);
  }

  end(): string {
    this.closeLink();
    return this.done.join('') + this.out;
  }

  private write(word: string): void {
    if (this.breaks > 0) this.out += this.isEmpty ? this.prefix : '\n'.repeat(this.breaks) + this.prefix;
    else if (this.isEmpty) this.out = this.prefix;
    else if (this.space) this.out += ' ';
    if (this.link !== null) this.link.text += (this.space ? ' ' : '') + word;
    this.out += word;
    if (this.out.length > SLICE) this.flatten();
    this.breaks = 0;
    this.space = false;
    this.prefix = '';
  }

  private get isEmpty(): boolean {
    return this.out === '' && this.done.length === 0;
  }

  /** Puts what was written aside as one string: made of its words it takes memory for each, of which a large mail may have millions. */
  private flatten(): void {
    this.done.push(Buffer.from(this.out, 'utf16le').toString('utf16le'));
    this.out = '';
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

  private block({ breaks }: Element): void {
    if (breaks === 0) return;
    // A paragraph or list inside a list item takes no empty lines.
    this.breaks = Math.max(this.breaks, this.lists.length === 0 ? breaks : 1);
    this.space = false;
  }

  private cell(): void {
    if (this.breaks === 0 && !this.isEmpty) this.space = true;
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

  /** `text (address)`; the address alone if the text is the same. */
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

/**
 * Characters that plain text has no use for: controls, no-break spaces, and what html does not show (soft hyphens, joiners of
 * nothing, byte order marks).
 */
const UNWANTED = /[\x00-\x08\x0b\x0e-\x1f\x7f-\xa0\u00ad\u034f\u200b\u2060\ufeff]/g;

/** Decodes references, makes no-break spaces plain ones and drops what cannot be seen. */
function decodeEntities(text: string): string {
  if (!TO_DECODE.test(text)) return text;
  const decoded = text.includes('&') ? decodeHTMLStrict(text) : text;
  return decoded.replace(UNWANTED, (character) => (character === '\u00a0' ? ' ' : ''));
}

/** `&` or an unwanted character: most text has neither. */
const TO_DECODE = /[&\x00-\x08\x0b\x0e-\x1f\x7f-\xa0\u00ad\u034f\u200b\u2060\ufeff]/;
