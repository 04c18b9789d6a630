/** Transparency of the mail data (RFC 5321 section 4.5.2): a dot is put before each line that begins with one. Pure. */

const DOT = Buffer.from('.');
const LINE_WITH_DOT = Buffer.from('\r\n.');
const END = Buffer.from('.\r\n');
const END_AFTER_TEXT = Buffer.from('\r\n.\r\n');
const CR = 0x0d;
const LF = 0x0a;
const FULL_STOP = 0x2e;

/**
 * Returns the pieces to write for a message whose lines end with CRLF, however it is cut into buffers, with the final dot. Nothing
 * is copied: pieces are views of `data`. If no line begins with a dot the cost is one native search.
 */
export function dotStuffed(data: readonly Buffer[]): Buffer[] {
  const pieces: Buffer[] = [];
  // The last two bytes before the buffer at hand; a message begins at the start of a line.
  let beforeLast = CR;
  let last = LF;
  for (const buffer of data) {
    if (buffer.length === 0) continue;
    let start = 0;
    if (buffer[0] === FULL_STOP && last === LF && beforeLast === CR) pieces.push(DOT);
    else if (last === CR && buffer[0] === LF && buffer[1] === FULL_STOP) start = cut(pieces, buffer, 0, 1);
    for (let at = buffer.indexOf(LINE_WITH_DOT, start); at >= 0; at = buffer.indexOf(LINE_WITH_DOT, start))
      start = cut(pieces, buffer, start, at + 2);
    pieces.push(start === 0 ? buffer : buffer.subarray(start));
    beforeLast = buffer.length > 1 ? (buffer[buffer.length - 2] ?? 0) : last;
    last = buffer[buffer.length - 1] ?? 0;
  }
  pieces.push(last === LF && beforeLast === CR ? END : END_AFTER_TEXT);
  return pieces;
}

/** Adds the bytes up to the dot at `dot`, and a second dot. */
function cut(pieces: Buffer[], buffer: Buffer, start: number, dot: number): number {
  pieces.push(buffer.subarray(start, dot), DOT);
  return dot;
}

/** Up to this size the pieces are copied into one: a call of the system with several costs more. */
const COPIED_BYTES = 16 * 1024;

/** Returns blocks of at most `most` bytes from pieces of any size, each to be written in one go; only small messages are copied. */
export function inBlocks(pieces: readonly Buffer[], most: number): (readonly Buffer[])[] {
  const total = pieces.reduce((sum, piece) => sum + piece.length, 0);
  if (total <= Math.min(most, COPIED_BYTES)) return [[Buffer.concat(pieces, total)]];
  const blocks: Buffer[][] = [];
  let block: Buffer[] = [];
  let size = 0;
  for (const piece of pieces) {
    for (let at = 0; at < piece.length;) {
      const end = Math.min(piece.length, at + most - size);
      block.push(piece.subarray(at, end));
      size += end - at;
      at = end;
      if (size < most && block.length < MOST_PIECES) continue;
      blocks.push(block);
      block = [];
      size = 0;
    }
  }
  if (size > 0) blocks.push(block);
  return blocks;
}

/** Pieces of one block: a message of stuffed dots has one for each, and each is an object. */
const MOST_PIECES = 512;
