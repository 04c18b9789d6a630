/** One-time codes by time (RFC 6238): six digits, 30 seconds, HMAC-SHA-1, which is what every app speaks. Pure. */
import { Secret, TOTP } from 'otpauth';

const PERIOD_S = 30;
/** Clocks of telephones are a little off: the step before and the step after are taken too (RFC 6238 section 5.2). */
const DRIFT_STEPS = 1;

/** Bytes of a secret: as many as the hash has (RFC 4226 section 4, R6). */
export const TOTP_SECRET_BYTES = 20;

const secretOf = (bytes: Buffer): Secret => new Secret({ buffer: Uint8Array.from(bytes).buffer });

export const codeAt = (secret: Buffer, step: number, digits?: number): string =>
  TOTP.generate({ secret: secretOf(secret), digits, timestamp: step * PERIOD_S * 1000 });

export const stepOf = (now: number): number => TOTP.counter({ period: PERIOD_S, timestamp: now });

/** Returns the step that `code` belongs to, or null. A step up to `used`, the last one taken, is not taken again (section 5.2). */
export function stepOfCode(secret: Buffer, code: string, now: number, used: number | null): number | null {
  const token = code.replaceAll(/\s/g, '');
  const delta = TOTP.validate({ secret: secretOf(secret), token, timestamp: now, window: DRIFT_STEPS });
  const step = delta === null ? null : stepOf(now) + delta;
  return step === null || step <= (used ?? -1) ? null : step;
}

/** Writes bytes in base32 without padding (RFC 4648): how secrets are typed into an app. */
export const base32 = (bytes: Buffer): string => secretOf(bytes).base32;

/** Returns the address that authenticator apps open, and that their QR code holds. */
export const otpauthUrl = (secret: Buffer, label: string, issuer: string): string =>
  new TOTP({ secret: secretOf(secret), label, issuer, period: PERIOD_S }).toString();
