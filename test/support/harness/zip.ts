/** A zip with one file, as reporters make them. */
import { crc32, deflateRawSync } from 'node:zlib';

export interface ZipOptions {
  name?: string;
  stored?: boolean;
  /** An entry for a folder before the file. */
  folder?: boolean;
}

export function zip(content: Buffer, { name = 'report.xml', stored = false, folder = false }: ZipOptions = {}): Buffer {
  const entries = [...(folder ? [entry('a/', Buffer.alloc(0), true)] : []), entry(name, content, stored)];
  let at = 0;
  const locals: Buffer[] = [];
  const directory = entries.map(({ local, head, title }) => {
    const record = Buffer.concat([head, title]);
    record.writeUInt32LE(at, 42);
    locals.push(local);
    at += local.length;
    return record;
  });
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(Buffer.concat(directory).length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...locals, ...directory, end]);
}

function entry(name: string, content: Buffer, stored: boolean): { local: Buffer; head: Buffer; title: Buffer } {
  const title = Buffer.from(name, 'latin1');
  const data = stored ? content : deflateRawSync(content);
  const local = Buffer.alloc(30);
  local.writeUInt32LE(0x04034b50, 0);
  // Bit 3: sizes come later, as many writers have it.
  if (stored) local.writeUInt32LE(data.length, 18);
  else local.writeUInt16LE(8, 6);
  local.writeUInt16LE(stored ? 0 : 8, 8);
  local.writeUInt16LE(title.length, 26);
  const head = Buffer.alloc(46);
  head.writeUInt32LE(0x02014b50, 0);
  head.writeUInt16LE(8, 8);
  head.writeUInt16LE(stored ? 0 : 8, 10);
  head.writeUInt32LE(crc32(content), 16);
  head.writeUInt32LE(data.length, 20);
  head.writeUInt32LE(content.length, 24);
  head.writeUInt16LE(title.length, 28);
  return { local: Buffer.concat([local, title, data]), head, title };
}
