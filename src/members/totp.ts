/** One-time codes by time (RFC 6238 over RFC 4226): six digits, 30 seconds, HMAC-SHA-1, which is what every app speaks. Pure. */
import { createHmac, timingSafeEqual } from 'node:crypto';

const STEP_MS = 30_000;
const DIGITS = 6;
/** Clocks of telephones are a little off: the step before and the step after are taken too (RFC 6238 section 5.2). */
const DRIFT_STEPS = 1;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Bytes of a secret: as many as the hash has (RFC 4226 section 4, R6). */
export const TOTP_SECRET_BYTES = 20;

/** The code of one time step. */
export function codeAt(secret: Buffer, step: number, digits = DIGITS): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', secret).update(counter).digest();
  const offset = (mac.at(-1) ?? 0) & 15;
  const number = (mac.readUInt32BE(offset) & 0x7fff_ffff) % 10 ** digits;
  return String(number).padStart(digits, '0');
}

export const stepOf = (now: number): number => Math.floor(now / STEP_MS);

/** The step that `code` belongs to, or null. A step up to `used`, the last one taken, is not taken again (section 5.2). */
export function stepOfCode(secret: Buffer, code: string, now: number, used: number | null): number | null {
  const typed = Buffer.from(code.replaceAll(/\s/g, ''));
  for (let step = stepOf(now) - DRIFT_STEPS; step <= stepOf(now) + DRIFT_STEPS; step++) {
    const right = Buffer.from(codeAt(secret, step));
    if (step > (used ?? -1) && typed.length === right.length && timingSafeEqual(typed, right)) return step;
  }
  return null;
}

/** RFC 4648 base32 without padding: how secrets are typed into an app. */
export function base32(bytes: Buffer): string {
  let text = '';
  let value = 0;
  let bits = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(value >> bits) & 31] ?? '';
    }
    value &= 31;
  }
  return bits === 0 ? text : text + (ALPHABET[(value << (5 - bits)) & 31] ?? '');
}

/** The address that authenticator apps open. */
export function otpauthUrl(secret: Buffer, email: string, issuer: string): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(email)}`;
  return `otpauth://totp/${label}?secret=${base32(secret)}&issuer=${encodeURIComponent(issuer)}`;
}
