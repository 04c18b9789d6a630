/**
 * The octets of a mail from smtp-server's parser (RFC 5321 section 4.5.2), which goes one by one, waits for a turn at each stuffed dot and copies
 * blocks. This feed searches faster, removes dots in place and hands blocks over. The parser still decides on commands, sizes and the end.
 */
import type { SMTPServerDataStream } from 'smtp-server';
import { withCrlf } from '../mail/body-facts.ts';
import type { ReadMail } from './mail-intake.ts';
import type { SmtpConnection } from './smtp-connection.ts';

type Parser = Exclude<SmtpConnection['_parser'], false>;

const DOT = 0x2e;
const [CR, LF] = [0x0d, 0x0a];
const LINE_WITH_DOT = Buffer.from('\n.');
const END = Buffer.from('\r\n.\r\n');
/** The end of a block may be the beginning of `END`, or of a line with a dot. */
const BEGINNING = /(?:\r|\r?\n(?:\.\r?)?)$/;
const OCTETS = 'octets';
const LONE_CR = Buffer.from('\r');
const NOTHING = Buffer.alloc(0);

/** Has the mails of a connection read as this file says, and not through the stream. */
export function feedDirectly(connection: SmtpConnection): void {
  const create = connection._createParser.bind(connection);
  const direct = (parser: Parser): Parser => {
    parser._feedDataStream = (block, done) => feed(parser, block, done);
    return parser;
  };
  // STARTTLS makes a new one.
  connection._createParser = () => direct(create());
  if (connection._parser !== false) direct(connection._parser);
}

/** Calls `take` with the octets of a mail as they come. Resolves at its end; rejects if the client leaves before it. Begins at once. */
export function readData(stream: SMTPServerDataStream, take: (octets: Buffer) => void): Promise<void> {
  stream.on(OCTETS, take);
  stream.resume();
  return new Promise((resolve, reject) => {
    stream.once('end', resolve);
    stream.once('error', reject);
  });
}

/**
 * Reads the same mail with CRLF at each line end: a bare CR or LF ends a line for one reader alone, which may hide a field, a boundary or a
 * mail. Such mail is not refused, since a bounce would be lost; a signature over the octets from before fails, and so proves nothing.
 */
export const withCrlfLines =
  (read: ReadMail): ReadMail =>
  async (take) => {
    // A CR at the end of a piece waits for what follows it.
    let held = NOTHING;
    await read((piece) => {
      const octets = held.length === 0 ? piece : Buffer.concat([held, piece]);
      held = octets.at(-1) === CR ? LONE_CR : NOTHING;
      take(withCrlf(octets.subarray(0, octets.length - held.length)));
    });
    if (held.length > 0) take(withCrlf(held));
  };

function feed(parser: Parser, block: Buffer, done: Parameters<Parser['_feedDataStream']>[1]): void {
  const held = parser._lastBytes;
  parser._lastBytes = false;
  const octets = held === false ? block : Buffer.concat([held, block]);
  const start = parser._atDataStart ? firstLine(octets) : 0;
  if (start === 'held') {
    parser._lastBytes = octets;
    done();
  } else if (start === 'end') parser._endDataMode(false, octets.subarray(END.length - 2), done);
  else {
    if (start > 0) parser._atDataStart = false;
    lines(parser, octets.subarray(start), done);
  }
}

/** Looks at the first line of a mail: returns the number of its stuffed dots, or that it ends the mail, or that more must come first. */
function firstLine(octets: Buffer): number | 'end' | 'held' {
  if (octets[0] !== DOT) return 0;
  if (octets[1] === DOT) return 1;
  const isSoFar = END.subarray(2)
    .subarray(0, octets.length)
    .equals(octets.subarray(0, END.length - 2));
  if (!isSoFar) return 0;
  return octets.length < END.length - 2 ? 'held' : 'end';
}

/** Hands over a block, with one dot of two at the beginning of a line removed, up to the end of the mail if it is there. What follows is copied. */
function lines(parser: Parser, octets: Buffer, done: Parameters<Parser['_feedDataStream']>[1]): void {
  const held = BEGINNING.exec(octets.toString('latin1', Math.max(0, octets.length - END.length)))?.[0].length ?? 0;
  const end = octets.length - held;
  const first = octets.indexOf(LINE_WITH_DOT);
  let to = first < 0 ? end : Math.min(first, end);
  for (let at = to; at < end; at++) {
    const octet = octets[at] ?? 0;
    octets[to++] = octet;
    if (octet !== LF || octets[at + 1] !== DOT) continue;
    if (octets[at + 2] === DOT) at++;
    else if (octets[to - 2] === CR && octets[at + 2] === CR && octets[at + 3] === LF) {
      const rest = Buffer.from(octets.subarray(at + 4));
      handOver(parser, octets.subarray(0, to));
      parser._endDataMode(false, rest, done);
      return;
    }
  }
  if (held > 0) parser._lastBytes = Buffer.from(octets.subarray(end));
  handOver(parser, octets.subarray(0, to));
  done();
}

function handOver(parser: Parser, octets: Buffer): void {
  parser._countDataBytes(octets.length);
  if (octets.length > 0) parser._dataStream?.emit(OCTETS, octets);
}
