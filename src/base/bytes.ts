/** Returns the bytes of a message between threads as a Buffer, without a copy: on the way, Buffers become plain arrays of bytes. */
export const asBuffer = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);
