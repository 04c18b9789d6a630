/** Hashes secrets, compares them without showing how far they agree, and keeps them out of logs. Pure. */
import { hash, timingSafeEqual } from 'node:crypto';

/** Returns the SHA-256 in lower-case hex. Enough for secrets of 128 random bits or more; a password needs a slow hash. */
export function sha256Hex(data: string | Buffer): string {
  return hash('sha256', data, 'hex');
}

/** Compares in a time that depends on the lengths only. */
export function equalInConstantTime(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}

/** The kind and public id of an API key are shown, and nothing of any other bearer token. */
const apiKey = /\b(ak_(?:live|test)_[0-9A-Za-z]{1,8})[0-9A-Za-z_]*/g;
const bearer = /\b(Bearer\s{1,8})(?!ak_)[^\s"',]+/gi;

/** Returns the text with API keys and bearer tokens cut short, for log lines and error messages. */
export function redact(text: string): string {
  return text.replace(apiKey, '$1…').replace(bearer, '$1…');
}
