/** Returns the bytes of a message between threads as a Buffer, without a copy: on the way, Buffers become plain arrays of bytes. */
export const asBuffer = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

/** Returns the memory of those buffers that own theirs, for handing over; a buffer that is cut from a shared pool has to be copied. */
export function ownMemory(buffers: readonly Uint8Array[]): ArrayBuffer[] {
  const owned = new Set<ArrayBuffer>();
  for (const { buffer, byteLength } of buffers) {
    if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength && byteLength > 0) owned.add(buffer);
  }
  return [...owned];
}

/** Returns the memory of the files of one mail, for handing over: several may be in one body, and nothing else is. Small ones are in a pool, and copied. */
export const memoryOfFiles = (files: readonly Uint8Array[]): ArrayBuffer[] =>
  [...new Set(files.flatMap(({ buffer }) => (buffer instanceof ArrayBuffer ? [buffer] : [])))].filter(
    ({ byteLength }) => byteLength > Buffer.poolSize,
  );
