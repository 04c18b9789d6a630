/**
 * The frames of a confined process's pipe: 8 octets with the sizes of both parts, the value as V8 serializes it, in which each Buffer is its length,
 * and the Buffers, one after the other. So a mail is neither copied on its way out nor a second time on its way in.
 */
import { Deserializer, Serializer } from 'node:v8';

/** Members that the types of Node leave out. */
declare module 'node:v8' {
  interface Serializer {
    _setTreatArrayBufferViewsAsHostObjects(isWanted: boolean): void;
    _writeHostObject?(view: object): void;
  }
  interface Deserializer {
    _readHostObject?(): unknown;
  }
}

export const HEAD_BYTES = 8;
/** The largest frame: more than the largest mail, with what is read out of it. */
const MOST_BYTES = 192 * 1024 * 1024;

/** Returns the chunks of a frame, which are to be written one after the other. Throws for what cannot be serialized. */
export function frameOf(value: unknown): Uint8Array[] {
  const writer = new Writer();
  writer.writeHeader();
  writer.writeValue(value);
  const text = writer.releaseBuffer();
  const head = Buffer.allocUnsafe(HEAD_BYTES + text.length);
  head.writeUInt32LE(text.length, 0);
  head.writeUInt32LE(
    writer.parts.reduce((sum, { byteLength }) => sum + byteLength, 0),
    4,
  );
  text.copy(head, HEAD_BYTES);
  return [head, ...writer.parts];
}

/** Returns the number of octets after the head. Throws if they are more than a frame may have. */
export function sizeOf(head: Buffer): number {
  const size = head.readUInt32LE(0) + head.readUInt32LE(4);
  if (size > MOST_BYTES) throw new Error(`a frame of ${String(size)} octets`);
  return size;
}

/** Reads what follows the head. The Buffers of the value are views of `rest`. */
export function valueIn(head: Buffer, rest: Buffer): unknown {
  const at = head.readUInt32LE(0);
  const reader = new Reader(rest.subarray(0, at), rest.subarray(at));
  reader.readHeader();
  return reader.readValue();
}

class Writer extends Serializer {
  readonly parts: Uint8Array[] = [];

  constructor() {
    super();
    this._setTreatArrayBufferViewsAsHostObjects(true);
  }

  override _writeHostObject(view: object): void {
    if (!(view instanceof Uint8Array)) throw new TypeError('only octets go through a pipe');
    this.writeUint32(view.byteLength);
    if (view.byteLength > 0) this.parts.push(view);
  }
}

class Reader extends Deserializer {
  private readonly bytes: Buffer;
  private at = 0;

  constructor(text: Buffer, bytes: Buffer) {
    super(text);
    this.bytes = bytes;
  }

  override _readHostObject(): Buffer {
    const from = this.at;
    this.at += this.readUint32();
    return this.bytes.subarray(from, this.at);
  }
}
