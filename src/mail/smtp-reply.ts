/**
 * SMTP replies: RFC 5321 section 4.2, enhanced status codes RFC 3463 and RFC 2034; and the extensions in the answer to EHLO (section 4.1.1.1). A
 * server is not trusted: after an endless reply, or none, the connection is of no use (what follows cannot be matched with what was asked).
 */

export interface SmtpReply {
  /** Of the last line: a multi-line reply must repeat it, and if it does not the last line is the server's last word. */
  code: number;
  /** `5.1.1` as sent, even if its class does not fit the code; null if no line begins with one. */
  enhanced: string | null;
  /** Each line's text after the code, unprintable characters replaced. EHLO keywords are read from here. */
  lines: string[];
  /** The lines joined by a space, the enhanced code kept as sent; at most 1,000 characters. */
  text: string;
}

export interface ReplyFault {
  kind: 'fault';
  why: string;
}

const MOST_BYTES = 64 * 1024;
const MOST_LINES = 512;
const LONGEST_TEXT = 1000;

const REPLY_LINE = /^([2-5][0-9]{2})(?:([ -])(.*))?$/s;
/** Some gateways write `550 #5.1.0 …` or `550 [5.7.1] …`. */
const ENHANCED = /^ *[#([]?([245]\.[0-9]{1,3}\.[0-9]{1,3})(?![0-9.])/;
/** Unicode does not count line separators and direction marks as control characters, but they spoil a log as well. */
const UNPRINTABLE = /[\p{C}\u2028\u2029]/gu;

/** Makes replies of what a socket delivers, however it is cut. A bare LF ends a line too, since nothing of a reply is passed on as commands. */
export class ReplyReader {
  /** Set once something came that is not a reply; from then on `push` returns nothing. */
  fault: ReplyFault | null = null;
  private line = '';
  private lines: string[] = [];
  private bytes = 0;

  /** True from a reply's first byte to its end. */
  get partial(): boolean {
    return this.bytes > 0;
  }

  /** The replies that `chunk` completed, in order. Look at `fault` afterwards. */
  push(chunk: Buffer): SmtpReply[] {
    const replies: SmtpReply[] = [];
    let start = 0;
    while (this.fault === null && start < chunk.length) {
      const lineFeed = chunk.indexOf(0x0a, start);
      const end = lineFeed < 0 ? chunk.length : lineFeed;
      this.bytes += end - start + (lineFeed < 0 ? 0 : 1);
      if (this.bytes > MOST_BYTES) this.fail(`reply longer than ${String(MOST_BYTES)} bytes`);
      else this.line += chunk.toString('latin1', start, end);
      start = end + 1;
      if (lineFeed < 0) break;
      const reply = this.endLine();
      if (reply !== null) replies.push(reply);
    }
    return replies;
  }

  private endLine(): SmtpReply | null {
    if (this.fault !== null) return null;
    const text = decoded(this.line);
    this.line = '';
    const match = REPLY_LINE.exec(text);
    if (match === null) return this.fail(`not an SMTP reply: ${printable(text).slice(0, 100)}`);
    this.lines.push(printable(match[3] ?? ''));
    if (match[2] !== '-') return this.endReply(Number(match[1]));
    if (this.lines.length >= MOST_LINES) return this.fail(`reply of more than ${String(MOST_LINES)} lines`);
    return null;
  }

  private endReply(code: number): SmtpReply {
    const lines = this.lines;
    this.lines = [];
    this.bytes = 0;
    return { code, enhanced: enhancedOf(lines), lines, text: joined(lines) };
  }

  private fail(why: string): null {
    this.fault = { kind: 'fault', why };
    this.line = '';
    this.lines = [];
    return null;
  }
}

/** Returns the enhanced status code that the first of the lines to have one begins with, or null. */
export function enhancedOf(lines: readonly string[]): string | null {
  for (const line of lines) {
    const match = ENHANCED.exec(line);
    if (match !== null) return match[1] ?? null;
  }
  return null;
}

/** Decodes a line. Replies are ASCII, or UTF-8 with SMTPUTF8 (RFC 6531 section 3.7.4.2); the line was collected byte by byte. */
function decoded(line: string): string {
  const text = line.replace(/\r{1,8}$/, '');
  return /[^\x00-\x7f]/.test(text) ? Buffer.from(text, 'latin1').toString('utf8') : text;
}

const printable = (text: string): string => text.replaceAll('\t', ' ').replace(UNPRINTABLE, '?');

function joined(lines: readonly string[]): string {
  return lines
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join(' ')
    .slice(0, LONGEST_TEXT)
    .replace(/[\ud800-\udbff]$/, '');
}

export interface Extensions {
  pipelining: boolean;
  eightBitMime: boolean;
  smtpUtf8: boolean;
  startTls: boolean;
  requireTls: boolean;
  enhancedStatusCodes: boolean;
  /** True if MAIL may have the SIZE parameter. */
  size: boolean;
  /** Largest message taken, in octets; null if none is stated (RFC 1870 section 4). */
  sizeLimit: number | null;
  /** Messages per connection (LIMITS MAILMAX, RFC 9422); null if none is stated. */
  mailMax: number | null;
  /** Upper-case names of SASL mechanisms. */
  auth: readonly string[];
}

/** The extensions of a server that accepts HELO only: none. */
export const noExtensions = extensionsOf({ lines: [] });

/** Reads the answer to EHLO; unknown keywords are passed over, of a repeated one the last counts. */
export function extensionsOf(reply: Pick<SmtpReply, 'lines'>): Extensions {
  const offers = new Map<string, string>();
  for (const line of reply.lines.slice(1)) {
    const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/ +/);
    // "AUTH=PLAIN" is an old Outlook form.
    const [name = '', old] = keyword.split('=', 2);
    offers.set(name, old === undefined ? parameters.join(' ') : [old, ...parameters].join(' '));
  }
  const limits = new Map(
    (offers.get('LIMITS') ?? '').split(' ').map((each) => [each.split('=')[0], each.split('=')[1]]),
  );
  return {
    pipelining: offers.has('PIPELINING'),
    eightBitMime: offers.has('8BITMIME'),
    smtpUtf8: offers.has('SMTPUTF8'),
    startTls: offers.has('STARTTLS'),
    requireTls: offers.has('REQUIRETLS'),
    enhancedStatusCodes: offers.has('ENHANCEDSTATUSCODES'),
    size: offers.has('SIZE'),
    sizeLimit: positive(offers.get('SIZE')),
    mailMax: positive(limits.get('MAILMAX')),
    auth: (offers.get('AUTH') ?? '').split(' ').filter((mechanism) => mechanism !== ''),
  };
}

function positive(text: string | undefined): number | null {
  if (text === undefined || !/^\d{1,15}$/.test(text)) return null;
  return Number(text) || null;
}

export interface Login {
  user: string;
  password: string;
}

export const NO_KNOWN_LOGIN = 'the server offers neither AUTH PLAIN nor AUTH LOGIN';

/** Returns the lines to send in turn while the server asks for more (334), or null if it offers none of these mechanisms (upper-case names). */
export function loginLines(mechanisms: readonly string[], { user, password }: Login): readonly string[] | null {
  if (mechanisms.includes('PLAIN')) return [`AUTH PLAIN ${base64(`\0${user}\0${password}`)}`];
  if (mechanisms.includes('LOGIN')) return ['AUTH LOGIN', base64(user), base64(password)];
  return null;
}

const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');
