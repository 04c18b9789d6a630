/** Hashes secrets, and compares them without showing how far they agree. Pure. */
import { hash, timingSafeEqual } from 'node:crypto';

/** Returns the SHA-256 in lower-case hex. Enough for secrets of 128 random bits or more; a password needs a slow hash. */
export const sha256Hex = (data: string | Buffer): string => hash('sha256', data, 'hex');

/** Compares in a time that depends on the lengths only. */
export function equalInConstantTime(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}
