/** Returns the bytes of a message between threads as a Buffer, without a copy: on the way, Buffers become plain arrays of bytes. */
export const asBuffer = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

/** Returns the memory of buffers, for handing over, with nothing else in it. Small ones, cut from a shared pool, have to be copied. */
export const ownMemory = (buffers: readonly Uint8Array[]): ArrayBuffer[] =>
  [...new Set(buffers.flatMap(({ buffer }) => (buffer instanceof ArrayBuffer ? [buffer] : [])))].filter(
    ({ byteLength }) => byteLength > Buffer.poolSize,
  );

const nowhere = new MessageChannel().port1;
nowhere.close();

/** Less is left to V8: giving back takes some microseconds. */
const LEAST_GIVEN = 32 * 1024;

/** Gives large memory of buffers back at once; V8 would find it at a full collection. Nothing else may need it: they are empty then. */
export function giveBack(buffers: readonly Uint8Array[]): void {
  const large = buffers.filter(({ buffer }) => buffer.byteLength >= LEAST_GIVEN);
  if (large.length > 0) nowhere.postMessage(null, ownMemory(large));
}
