/** Makes a plain text part from html, for reading: paragraphs, lists, links with their address, tables by row. */
import { decodeHTML, decodeHTMLAttribute } from 'entities/decode';
import { HtmlReader, readHtml } from './html-reader.ts';

/** The effect of an element on the text. */
interface Element {
  name: string;
  /** Empty lines before and after (2), a separate line (1), or neither. */
  breaks: 0 | 1 | 2;
  /** Its content is not text. */
  isUnread: boolean;
  /** The attribute that means something; empty if none does. */
  attribute: string;
}

const ATTRIBUTES: Readonly<Record<string, string>> = { a: 'href', img: 'alt', div: 'style', span: 'style' };

/** Elements that mean something, by name. */
const ELEMENTS = new Map<string, Element>();
for (const [breaks, names] of [
  [2, 'p h1 h2 h3 h4 h5 h6 ul ol dl table blockquote pre figure fieldset address hr'],
  [1, 'div li tr dt dd section article header footer main aside nav form caption center figcaption'],
  [0, 'a br img td th span script style title template iframe object'],
] as const) {
  for (const name of names.split(' ')) {
    const isUnread = ['script', 'style', 'title', 'template', 'iframe', 'object'].includes(name);
    ELEMENTS.set(name, { name, breaks, isUnread, attribute: ATTRIBUTES[name] ?? '' });
  }
}

const DEEPEST_LIST = 8;
/** Characters of the text that are put aside at once. */
const SLICE = 64 * 1024;
const SPACE = 0x20;
const RULE = '-'.repeat(40);

/** Returns plain text with LF line ends. Never throws; time grows linearly with the length. */
export function textFromHtml(html: string): string {
  const reader = new TextReader(html);
  readHtml(html, reader);
  return reader.writer.end();
}

/** Leaves out what is hidden: preview texts and their padding, which no reader of the html sees. */
class TextReader extends HtmlReader {
  readonly writer = new TextWriter();
  private readonly html: string;
  private hidden: { element: Element; depth: number } | null = null;
  /** The start tag that is being read. */
  private element: Element | undefined;
  /** The value of its attribute that means something. */
  private value: string | null = null;
  private isValueNext = false;

  constructor(html: string) {
    super();
    this.html = html;
  }

  ontext(start: number, end: number): void {
    if (this.hidden === null) this.writer.text(legible(decoded(this.html.slice(start, end), decodeHTML)));
  }

  onopentagname(start: number, end: number): void {
    this.element = this.elementAt(start, end);
    this.value = null;
  }

  onattribname(start: number, end: number): void {
    const attribute = this.element?.attribute ?? '';
    this.isValueNext =
      end - start === attribute.length &&
      this.value === null &&
      this.html.slice(start, end).toLowerCase() === attribute;
    if (this.isValueNext) this.value = '';
  }

  onattribdata(start: number, end: number): void {
    if (this.isValueNext) this.value = decoded(this.html.slice(start, end), decodeHTMLAttribute);
  }

  onopentagend(): void {
    const { element, value } = this;
    if (element === undefined) return;
    if (this.hidden !== null) this.nest(element, 1);
    else if (element.isUnread || isHidden(element, value)) this.hidden = { element, depth: 1 };
    else this.writer.open(element, value ?? '');
  }

  onclosetag(start: number, end: number): void {
    const element = this.elementAt(start, end);
    if (element === undefined) return;
    if (this.hidden !== null) this.nest(element, -1);
    else this.writer.close(element);
  }

  private elementAt(start: number, end: number): Element | undefined {
    const name = this.html.slice(start, end);
    return ELEMENTS.get(name) ?? ELEMENTS.get(name.toLowerCase());
  }

  private nest(element: Element, by: 1 | -1): void {
    if (this.hidden?.element !== element) return;
    this.hidden.depth += by;
    if (this.hidden.depth === 0) this.hidden = null;
  }
}

/** Most text and most attributes have no entity. */
const decoded = (text: string, decode: (text: string) => string): string => (text.includes('&') ? decode(text) : text);

/** Returns whether the element is hidden, and of a kind whose end tag cannot be left out: otherwise the rest of the mail would be hidden with them. */
const isHidden = ({ attribute }: Element, value: string | null): boolean =>
  attribute === 'style' && value !== null && /display\s{0,9}:\s{0,9}none/i.test(value);

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

  open(element: Element, value: string): void {
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
        this.text(legible(value.trim()));
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
        this.openLink(legible(value).trim());
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

/** Characters that plain text has no use for: controls, no-break spaces, and what html does not show (soft hyphens, joiners, byte order marks). */
const UNWANTED = /[\x00-\x08\x0b\x0e-\x1f\x7f-\xa0\u00ad\u034f\u200b\u2060\ufeff]/g;

/** Makes no-break spaces plain ones and drops what cannot be seen. */
const legible = (text: string): string =>
  IS_UNWANTED.test(text) ? text.replace(UNWANTED, (character) => (character === '\u00a0' ? ' ' : '')) : text;

/** Most text has none of them. */
const IS_UNWANTED = new RegExp(UNWANTED.source);
