/**
 * Header fields and the header of a message: RFC 5322 sections 2.2, 3.2.4 and 3.6, encoded words RFC 2047, addresses outside ASCII RFC 6532. Written
 * text becomes ASCII words without spaces inside, then lines folded at 76. Folding only puts a line break before a space that is there anyway, so
 * that unfolding gives the text back.
 */
import { encodeWord } from 'nodemailer/lib/mime-funcs';
import { quote, trimSpaces, type Mailbox } from './address.ts';

export interface HeaderField {
  name: string;
  /** Unfolded and trimmed; encoded words are not decoded. */
  value: string;
  /** As found, line ends included. */
  raw: string;
}

/** RFC 2047 section 2: no line with an encoded word is longer. RFC 5322 section 2.1.1 advises 78 for all others. */
const FOLD_AT = 76;
const LONGEST_ENCODED_WORD = 75;
/** RFC 5322 section 2.1.1, without the line end. */
const HARD_LIMIT = 998;
/** Less room than this behind the name is left empty. */
const SHORTEST_FIRST_WORD = 30;
/** A run of spaces this long is encoded, since a line cannot be folded inside it without being blank. */
const MOST_SPACES = 40;

const FIELD_NAME = /^[!-9;-~]{1,126}$/;
const PLAIN = /^[\x20-\x7e]*$/;
/** The octets that encoding by Q leaves one octet long (RFC 2047 section 5, rule 3). */
const Q_LITERAL = new Set(Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/ '));
const ATOMS_AND_SPACES = /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~ ]*$/;

const CONTROLS = /[\x00-\x1f\x7f-\x9f\u2028\u2029]+/g;

/**
 * Returns `Name: value`, folded and ended by CRLF. Control characters become a space, and what ASCII or the line length cannot carry is encoded.
 * Throws if the name is not a field name: our own mistake.
 */
export function headerLine(name: string, value: string): string {
  if (!FIELD_NAME.test(name)) throw new Error('not a header field name');
  // Spaces at the ends get lost in any header; a no-break or ideographic space there is part of the text.
  const text = trimSpaces(withoutControls(value));
  // Nearly every header of nearly every message.
  if (name.length + 2 + text.length <= FOLD_AT && PLAIN.test(text) && !text.includes('=?'))
    return `${name}: ${text}\r\n`;
  return fold(name, wordsOfText(text, FOLD_AT - name.length - 2, /^subject$/i.test(name)));
}

/** Returns a header that holds addresses; nothing at all if there are none. */
export function addressHeader(name: string, mailboxes: readonly Mailbox[]): string {
  const words: string[] = [];
  for (const [index, mailbox] of mailboxes.entries()) {
    const comma = index === mailboxes.length - 1 ? '' : ',';
    const room = words.length === 0 ? FOLD_AT - name.length - 2 : LONGEST_ENCODED_WORD;
    for (const word of mailbox.name === null ? [] : wordsOfName(withoutControls(mailbox.name), room)) words.push(word);
    words.push((mailbox.name === null ? mailbox.address : `<${mailbox.address}>`) + comma);
  }
  return words.length === 0 ? '' : fold(name, words);
}

/** Replaces control characters, and the separators that some readers take for line ends, with one space. */
export const withoutControls = (text: string): string => text.replace(CONTROLS, ' ').toWellFormed();

/** Returns the place of the empty line at the end of a header with CRLF line ends; the length if there is none. */
export function endOfHead(bytes: Buffer): number {
  if (bytes.toString('latin1', 0, 2) === '\r\n') return 0;
  const at = bytes.indexOf('\r\n\r\n');
  return at < 0 ? bytes.length : at + 2;
}

/** Returns the fields of a header up to the first empty line; bare LF is taken as a line end. What has no name is left out. */
export function parseHeaders(head: Buffer | string): HeaderField[] {
  const text = typeof head === 'string' ? head : head.toString('utf8');
  const fields: HeaderField[] = [];
  let lines: string[] = [];
  const finish = (): void => {
    const field = lines.length === 0 ? null : parseField(lines);
    if (field !== null) fields.push(field);
    lines = [];
  };
  for (const line of text.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
    if (line === '\r\n' || line === '\n') break;
    if (!line.startsWith(' ') && !line.startsWith('\t')) finish();
    lines.push(line);
  }
  finish();
  return fields;
}

function parseField(lines: readonly string[]): HeaderField | null {
  const raw = lines.join('');
  const colon = raw.indexOf(':');
  if (colon <= 0) return null;
  const value = lines
    .map((line) => line.replace(/\r?\n$/, ''))
    .join('')
    .slice(colon + 1)
    .trim();
  return { name: raw.slice(0, colon).trimEnd(), value, raw };
}

/**
 * Folds greedily. The first word stays behind the name even if too long for 76, since some receivers read `Name:` and a line break as an empty value;
 * an encoded word may not (RFC 2047 section 2).
 */
export function fold(name: string, words: readonly string[]): string {
  let line = `${name}:`;
  let folded = '';
  for (const [index, word] of words.entries()) {
    const stays = index === 0 && !word.startsWith('=?') && line.length + 1 + word.length <= HARD_LIMIT;
    if (!stays && line.length + 1 + word.length > FOLD_AT) {
      folded += `${line}\r\n`;
      line = '';
    }
    line += ` ${word}`;
  }
  return `${folded}${line}\r\n`;
}

/**
 * Writes a text plain at both ends, encoded from the first to the last word that needs it. A first word too long for its line would leave the first
 * line empty: it is encoded if the text is `forPeople`.
 */
function wordsOfText(text: string, firstRoom: number, forPeople: boolean): string[] {
  const words = splitAtSpaces(text);
  const isTooLong = forPeople && (words[0]?.length ?? 0) > HARD_LIMIT - (FOLD_AT - firstRoom);
  const first = isTooLong ? 0 : words.findIndex(needsEncoding);
  if (first < 0) return words;
  const last = Math.max(first, words.findLastIndex(needsEncoding));
  const middle = encodedWords(words.slice(first, last + 1).join(' '), first === 0 ? firstRoom : LONGEST_ENCODED_WORD);
  return [...words.slice(0, first), ...middle, ...words.slice(last + 1)];
}

/** Returns the words of a name. A quoted string stays in one line, since some readers keep a line end inside of it. */
function wordsOfName(name: string, firstRoom: number): string[] {
  const isPlain = ATOMS_AND_SPACES.test(name);
  const text = isPlain ? name : quote(name);
  const words = splitAtSpaces(text);
  if (name !== name.trim() || words.some(needsEncoding)) return encodedWords(name, firstRoom);
  if (isPlain) return words;
  return text.length <= firstRoom ? [text] : encodedWords(name, firstRoom);
}

/** Splits a text; words joined by one space give the text again: further spaces stay at the front of the word they precede. */
const splitAtSpaces = (text: string): string[] => text.split(/(?<! ) /);

/** Returns whether a word is to be encoded; `=?` is encoded, as a reader would decode what was meant literally. */
function needsEncoding(word: string): boolean {
  return !PLAIN.test(word) || word.includes('=?') || word.length >= HARD_LIMIT || word.lastIndexOf(' ') > MOST_SPACES;
}

/** Returns encoded words for `text`, each at most `room` long: by B or Q, whichever is shorter, cut between characters. */
function encodedWords(text: string, room: number): string[] {
  const escapes = Buffer.from(text, 'utf8').filter((byte) => !Q_LITERAL.has(byte)).length;
  const octets = Buffer.byteLength(text);
  const encoding = octets + 2 * escapes <= Math.ceil(octets / 3) * 4 ? 'Q' : 'B';
  const longest = room < SHORTEST_FIRST_WORD ? LONGEST_ENCODED_WORD : Math.min(room, LONGEST_ENCODED_WORD);
  return encodeWord(text, encoding, longest).split(' ');
}

export interface HeadInput {
  from: Mailbox;
  to: readonly Mailbox[];
  cc: readonly Mailbox[];
  replyTo: readonly Mailbox[];
  subject: string;
  date: Date;
  /** With or without its angle brackets. */
  messageId: string;
  /** Further fields in the order in which they are written: X-Message-Id, Feedback-ID, the customer's own, List-Unsubscribe. */
  extra: readonly (readonly [name: string, value: string])[];
}

/** Returns the header lines in a fixed order, each ended by CRLF; Bcc has no place there. Those of the content (MIME-Version, Content-*) and the empty line come after it. */
export function writeHead(input: HeadInput): string {
  let head = `Date: ${dateTime(input.date)}\r\n`;
  head += addressHeader('From', [input.from]);
  head += addressHeader('Reply-To', input.replyTo);
  head += addressHeader('To', input.to);
  head += addressHeader('Cc', input.cc);
  head += headerLine('Subject', input.subject);
  head += headerLine('Message-ID', input.messageId.startsWith('<') ? input.messageId : `<${input.messageId}>`);
  for (const [name, value] of input.extra) if (name.toLowerCase() !== 'bcc') head += headerLine(name, value);
  return head;
}

/** Returns the date as header fields have it (RFC 5322 section 3.3), in UTC. */
export const dateTime = (date: Date): string => date.toUTCString().replace('GMT', '+0000');
