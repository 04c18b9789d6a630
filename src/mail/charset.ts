/**
 * Octets -> text: charsets (RFC 2046 section 4.1.2), encoded words (RFC 2047), quoted-printable and base64 (RFC 2045 section 6). What cannot be
 * decoded is shown as well as can be, never refused. Octets are in latin1 strings, which the engine searches fastest.
 */
import { TextDecoder } from 'node:util';

const NOT_ASCII = /[\x80-\xff]/;
const ESCAPE = '\x1b';

/** Returns the text of octets in `charset`; if that is missing, unknown or plainly wrong, UTF-8 if it is well-formed, else windows-1252. */
export function decodeCharset(octets: string, charset: string | null): string {
  const name = charset?.trim().toLowerCase() ?? '';
  if (!NOT_ASCII.test(octets) && !octets.includes(ESCAPE) && !/^utf-?(?:16|32)/.test(name)) return octets;
  const bytes = Buffer.from(octets, 'latin1');
  const decoder = decoderFor(name);
  return decoder === null ? decodeUnnamed(bytes, octets) : decoder.decode(bytes);
}

function decoderFor(name: string): TextDecoder | null {
  if (name === '' || name === 'us-ascii' || name === 'ascii') return null;
  try {
    return new TextDecoder(name);
  } catch {
    return null;
  }
}

/** Japanese mail often forgets to name its charset; its escape sequences are unmistakable. */
function decodeUnnamed(bytes: Buffer, octets: string): string {
  if (/\x1b[$(][@BJ]/.test(octets)) return new TextDecoder('iso-2022-jp').decode(bytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder('windows-1252').decode(bytes);
  }
}

/** Returns the octets of a body in `encoding`, whose line ends are LF or CRLF; with an unknown one they are taken unchanged. */
export function decodeTransfer(octets: string, encoding: string | null): string {
  switch (encoding?.trim().toLowerCase()) {
    case 'base64':
      return Buffer.from(octets, 'base64').toString('latin1');
    case 'quoted-printable':
      return octets.includes('=') ? octetsOfQuoted(Buffer.from(octets, 'latin1')) : octets;
    default:
      return octets;
  }
}

const [EQUALS, SPACE, TAB, CR, LF] = [0x3d, 0x20, 0x09, 0x0d, 0x0a];

/** Decodes in place. A regular expression holds an object for each escape, of which a large mail has millions. */
function octetsOfQuoted(octets: Buffer): string {
  let to = 0;
  for (let at = 0; at < octets.length;) {
    const escape = octets[at] === EQUALS ? escapeAt(octets, at) : null;
    if (escape === null) octets[to++] = octets[at++] ?? 0;
    else {
      if (escape.octet !== null) octets[to++] = escape.octet;
      at = escape.end;
    }
  }
  return octets.toString('latin1', 0, to);
}

/** Returns the octet that the escape at `at` stands for, none for a soft line end, and where it ends; null if there is no escape. */
function escapeAt(octets: Buffer, at: number): { octet: number | null; end: number } | null {
  const high = HEX_VALUES[octets[at + 1] ?? 0] ?? NO_DIGIT;
  const low = HEX_VALUES[octets[at + 2] ?? 0] ?? NO_DIGIT;
  if (high !== NO_DIGIT && low !== NO_DIGIT) return { octet: high * 16 + low, end: at + 3 };
  let end = at + 1;
  while (octets[end] === SPACE || octets[end] === TAB) end++;
  if (octets[end] === CR) end++;
  return octets[end] === LF ? { octet: null, end: end + 1 } : null;
}

const NO_DIGIT = 255;
const HEX_VALUES = Uint8Array.from({ length: 256 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16);
  return Number.isNaN(value) ? NO_DIGIT : value;
});

/** RFC 2047 section 2; the language of RFC 2231 section 5 is left out. Bounded, so that a row of `=?` costs nothing. */
const ENCODED_WORD = /=\?([^?*\s]{1,40})(?:\*[^?\s]{0,20})?\?([bq])\?([^?\n]{0,1000})\?=/gi;

/**
 * Decodes the encoded words of a header's value; white space between two does not count (section 6.2). Words of one charset in a row are decoded
 * together: many programs cut them in the middle of a character.
 */
export function decodeWords(value: string): string {
  if (!value.includes('=?')) return value;
  let text = '';
  let end = 0;
  let run: { charset: string; octets: string } | null = null;
  for (const { 0: word, 1: name = '', 2: encoding = '', 3: payload = '', index } of value.matchAll(ENCODED_WORD)) {
    const between = value.slice(end, index);
    const charset = name.toLowerCase();
    const follows: boolean = run !== null && between.trim() === '';
    const before: string = follows && run?.charset === charset ? run.octets : '';
    if (run !== null && before === '') text += decodeCharset(run.octets, run.charset);
    if (!follows) text += between;
    run = { charset, octets: before + octetsOfWord(encoding, payload) };
    end = index + word.length;
  }
  return text + (run === null ? '' : decodeCharset(run.octets, run.charset)) + value.slice(end);
}

const octetsOfWord = (encoding: string, payload: string): string =>
  encoding.toLowerCase() === 'b'
    ? decodeTransfer(payload, 'base64')
    : decodeTransfer(payload.replaceAll('_', ' '), 'quoted-printable');
