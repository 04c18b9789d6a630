/**
 * The output of a template so far; in html with the places where a value begins a link's address, checked when it is complete, since several
 * values may print it: a recipient's data must not become a script in a mail.
 */
import { decodeHTMLAttribute } from 'entities/decode';
import { failed } from './fault.ts';

/** A value that begins an address: its place in the output and in the source. */
interface Begin {
  from: number;
  at: number;
}

export class Output {
  private readonly chunks: string[] = [];
  private length = 0;
  private readonly begins: Begin[] = [];

  write(text: string): void {
    if (text === '') return;
    this.chunks.push(text);
    this.length += text.length;
  }

  /** Notes the value that is printed next, if it begins an address. */
  noteValue(at: number): void {
    if (this.isAtAddress()) this.begins.push({ from: this.length, at });
  }

  /** Returns the output. Throws if a value made an address that runs what is in it. */
  text(): string {
    const text = this.chunks.join('');
    let checked = 0;
    for (const { from, at } of this.begins) {
      // Values that print only white space share one address, which is read once.
      if (from < checked) continue;
      const { scheme, end } = schemeAt(text, from);
      if (refused.has(scheme))
        throw failed(`a value begins a link with '${scheme}:', which may run code in a browser`, at);
      checked = end;
    }
    return text;
  }

  private isAtAddress(): boolean {
    let chunk = this.chunks.length - 1;
    // Most values follow the end of a tag, or are in a text.
    if (!mayEndBefore.test(this.chunks[chunk]?.at(-1) ?? '')) return false;
    let end = '';
    for (; chunk >= 0 && end.length < LONGEST_BEFORE; chunk--)
      end = (this.chunks[chunk] ?? '').slice(-LONGEST_BEFORE) + end;
    return beforeAddress.test(end.slice(-LONGEST_BEFORE));
  }
}

/** Characters before a value that are looked at: `href`, its `=` and quote, and a generous indent. */
const LONGEST_BEFORE = 200;
const mayEndBefore = /[\s="']/;
const beforeAddress = /(?:^|[\s"'/:])href\s*=\s*["']?\s*$/i;

/** Schemes that run what is in the address. */
const refused: ReadonlySet<string> = new Set(['javascript', 'data', 'vbscript']);
const LONGEST_SCHEME = Math.max(...[...refused].map((scheme) => scheme.length));
const reference = /&(?:#[xX][\da-fA-F]+|#\d+|[A-Za-z][A-Za-z\d]*);?/y;

/**
 * Reads the scheme of an address as browsers do: in any case, without controls, spaces before it and line breaks in it, references decoded. It is
 * empty if it is none of those refused. `end`: how far was read.
 */
function schemeAt(html: string, from: number): { scheme: string; end: number } {
  let scheme = '';
  let at = from;
  while (at < html.length && scheme.length <= LONGEST_SCHEME) {
    reference.lastIndex = at;
    const written = html[at] === '&' ? (reference.exec(html)?.[0] ?? '&') : (html[at] ?? '');
    at += written.length;
    const char = written.length > 1 ? decodeHTMLAttribute(written) : written;
    if (char === ':') return { scheme, end: at };
    const isSkipped = char === '\t' || char === '\n' || char === '\r' || (scheme === '' && char <= ' ');
    if (isSkipped) continue;
    if (!/^[a-z]$/i.test(char)) break;
    scheme += char.toLowerCase();
  }
  return { scheme: '', end: at };
}
