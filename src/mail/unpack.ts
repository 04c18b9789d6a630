/**
 * The one file in what reports are sent as (RFC 7489 section 7.2.1.1, RFC 8460 section 5.3): gzip (RFC 1952), zip (PKWARE APPNOTE,
 * deflate or stored), or as it is. A file that would grow over the limit is not unpacked.
 */
import { crc32, inflateRawSync } from 'node:zlib';

export type Unpacked = { kind: 'file'; bytes: Buffer } | { kind: 'bad'; why: string };

/** Reports of the largest senders have some megabytes; a bomb has more. */
export const MOST_UNPACKED = 5 * 1024 * 1024;

const GZIP = 0x1f8b;
const GZIP_HEAD_BYTES = 10;
/** Sum and size behind the content of a gzip member. */
const GZIP_TAIL_BYTES = 8;
/** Programs that write several pack 64 KiB in each; unpacking none takes time too. */
const MOST_MEMBERS = 100;
/** Bits of the flags in the head of a gzip member. */
const [HAS_HEAD_SUM, HAS_EXTRA, HAS_NAME, HAS_COMMENT] = [2, 4, 8, 16];
const END_OF_DIRECTORY = Buffer.from('PK\x05\x06', 'latin1');
const DIRECTORY_ENTRY = 0x02014b50;
const LOCAL_ENTRY = 0x04034b50;
const END_BYTES = 22;
/** Longest comment behind the directory, in octets. */
const MOST_COMMENT = 65_535;
const STORED = 0;
const DEFLATED = 8;

/** Unpacks a file. Never throws. */
export function unpack(bytes: Buffer, most = MOST_UNPACKED): Unpacked {
  try {
    if (isGzip(bytes)) return gunzip(bytes, most);
    if (bytes.length >= 4 && bytes.readUInt32LE(0) === LOCAL_ENTRY) return unzip(bytes, most);
  } catch (error) {
    return bad(error instanceof RangeError ? 'it unpacks to too much, or is cut off' : 'it cannot be unpacked');
  }
  return bytes.length > most ? bad('it is too large') : file(bytes);
}

const isGzip = (bytes: Buffer): boolean => bytes.length >= 2 && bytes.readUInt16BE(0) === GZIP;

/** Returns the content of all members. What is behind them is left out: some senders put a line end there, or the octets of a signature. */
function gunzip(bytes: Buffer, most: number): Unpacked {
  const members: Buffer[] = [];
  let [size, rest] = [0, bytes];
  while (isGzip(rest)) {
    const packed = rest.subarray(gzipHeadBytes(rest));
    const { content, packedBytes } = inflateOne(packed, Math.max(1, most - size));
    if (crc32(content) !== packed.readUInt32LE(packedBytes)) return bad('the gzip is broken');
    if (members.push(content) > MOST_MEMBERS) return bad('the gzip has too many members');
    size += content.length;
    if (size > most) return bad('it unpacks to too much');
    rest = packed.subarray(packedBytes + GZIP_TAIL_BYTES);
  }
  return file(Buffer.concat(members, size));
}

/** Unpacks the deflated data at the beginning of `bytes`, and says how many octets those are. */
function inflateOne(bytes: Buffer, most: number): { content: Buffer; packedBytes: number } {
  // The types of Node do not tell what `info` returns.
  const { buffer, engine } = inflateRawSync(bytes, { maxOutputLength: most, info: true }) as unknown as {
    buffer: Buffer;
    engine: { bytesWritten: number };
  };
  return { content: buffer, packedBytes: engine.bytesWritten };
}

/** Returns the length of the head of a gzip member: the fixed part, then extra field, name, comment and sum if there are any. */
function gzipHeadBytes(bytes: Buffer): number {
  const flags = bytes.readUInt8(3);
  let at = GZIP_HEAD_BYTES;
  if ((flags & HAS_EXTRA) !== 0) at += 2 + bytes.readUInt16LE(at);
  for (const text of [HAS_NAME, HAS_COMMENT]) if ((flags & text) !== 0) at = bytes.indexOf(0, at) + 1;
  return at + ((flags & HAS_HEAD_SUM) === 0 ? 0 : 2);
}

/** Returns the first entry that is a file. Sizes are those of the central directory: the local ones may be missing. */
function unzip(bytes: Buffer, most: number): Unpacked {
  const end = bytes.lastIndexOf(END_OF_DIRECTORY);
  if (end < 0 || end < bytes.length - END_BYTES - MOST_COMMENT) return bad('the zip has no directory');
  let at = bytes.readUInt32LE(end + 16);
  for (let left = Math.min(bytes.readUInt16LE(end + 10), 20); left > 0; left--) {
    if (bytes.readUInt32LE(at) !== DIRECTORY_ENTRY) return bad('the directory of the zip is broken');
    const [nameBytes, extraBytes, noteBytes] = [28, 30, 32].map((offset) => bytes.readUInt16LE(at + offset));
    const name = bytes.toString('latin1', at + 46, at + 46 + (nameBytes ?? 0));
    if (!name.endsWith('/')) return entryAt(bytes, at, most);
    at += 46 + (nameBytes ?? 0) + (extraBytes ?? 0) + (noteBytes ?? 0);
  }
  return bad('the zip holds no file');
}

function entryAt(bytes: Buffer, at: number, most: number): Unpacked {
  const [method, flags] = [bytes.readUInt16LE(at + 10), bytes.readUInt16LE(at + 8)];
  const [sum, packed, size] = [bytes.readUInt32LE(at + 16), bytes.readUInt32LE(at + 20), bytes.readUInt32LE(at + 24)];
  const local = bytes.readUInt32LE(at + 42);
  if ((flags & 1) !== 0) return bad('the zip is encrypted');
  if (size > most) return bad('it unpacks to too much');
  if (bytes.readUInt32LE(local) !== LOCAL_ENTRY) return bad('the zip is broken');
  const start = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28);
  const data = bytes.subarray(start, start + packed);
  if (data.length < packed) return bad('the zip is cut off');
  if (method !== STORED && method !== DEFLATED) return bad('the zip uses another method than deflate');
  // One octet more than it says, so that a lie is found here and not in memory.
  const content = method === STORED ? data : inflateRawSync(data, { maxOutputLength: Math.max(1, size) });
  return content.length === size && crc32(content) === sum ? file(content) : bad('the zip is broken');
}

const file = (bytes: Buffer): Unpacked => ({ kind: 'file', bytes });
const bad = (why: string): Unpacked => ({ kind: 'bad', why });
