/**
 * The files in a large body. Their base64 stays in its bytes and is decoded there, so that a file of 16 MB is never a text: what reads
 * the JSON sees the name of the file in its place. Bodies with the same files have the same names. Pure, but for the bytes of the body.
 */
import { isAscii } from 'node:buffer';
import { hash } from 'node:crypto';
import type { JsonObject, JsonValue } from './json.ts';

/** The texts that stayed in the bytes, by their names. */
export type LongTexts = Map<string, Buffer>;

/** A shorter text is read like all others. */
const LEAST_BYTES = 64 * 1024;

/** The end of the name of the member that has the base64: `content`, or `Content` of another service. */
const MEMBER = 'ontent"';
const QUOTE = 0x22;
const SLASH = 0x2f;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const WHITESPACE = [0x20, 0x09, 0x0a, 0x0d] as const;

/** Adds the long texts of such members to `found`, and returns the JSON with their names in their places. */
export function takeLongTexts(bytes: Buffer, found: LongTexts): Buffer {
  const pieces: Buffer[] = [];
  let from = 0;
  for (let at = bytes.indexOf(MEMBER); at >= 0; at = bytes.indexOf(MEMBER, at)) {
    at += MEMBER.length;
    const start = textAfter(bytes, at);
    if (start === null) continue;
    const end = bytes.indexOf(QUOTE, start);
    at = Math.max(start, end);
    const text = end - start < LEAST_BYTES ? null : unescaped(bytes.subarray(start, end));
    if (text === null) continue;
    const name = `\0${hash('sha256', text, 'hex')}`;
    found.set(name, text);
    pieces.push(bytes.subarray(from, start), Buffer.from(JSON.stringify(name).slice(1, -1)));
    from = end;
  }
  return pieces.length === 0 ? bytes : Buffer.concat([...pieces, bytes.subarray(from)]);
}

/** Returns where the value begins of the member whose name ends at `at`; null if it is not a text. */
function textAfter(bytes: Buffer, at: number): number | null {
  let next = at;
  const pass = (): void => {
    while (WHITESPACE.some((one) => one === bytes[next])) next++;
  };
  pass();
  if (bytes[next++] !== COLON) return null;
  pass();
  return bytes[next] === QUOTE ? next + 1 : null;
}

/** Returns a text without its escapes, in its own bytes; null if it has others than those of slashes, which PHP writes, or cannot be base64. */
function unescaped(text: Buffer): Buffer | null {
  if (!isAscii(text) || WHITESPACE.some((one) => text.includes(one))) return null;
  const first = text.indexOf(BACKSLASH);
  if (first < 0) return text;
  for (let at = first; at >= 0; at = text.indexOf(BACKSLASH, at + 2)) if (text[at + 1] !== SLASH) return null;
  let to = first;
  for (let at = first; at < text.length;) {
    const next = text.indexOf(BACKSLASH, at + 1);
    const end = next < 0 ? text.length : next;
    to += text.copy(text, to, at + 1, end);
    at = end;
  }
  return text.subarray(0, to);
}

/** Puts the texts back that are not files: the body of a request is a mail, or has lists of them. */
export function putBack(body: JsonObject, texts: LongTexts): void {
  if (texts.size > 0) restore(body, texts, 'body');
}

/** `place`: what the value is, since only a mail has files. */
function restore(value: JsonObject | JsonValue[], texts: LongTexts, place: 'body' | 'list' | 'mail' | 'other'): void {
  for (const [key, one] of Object.entries(value)) {
    const isMail = place === 'body' || place === 'mail';
    if (isMail && /^attachments$/i.test(key)) continue;
    const text = typeof one === 'string' ? texts.get(one) : undefined;
    if (text !== undefined) (value as JsonObject)[key] = text.toString('latin1');
    if (typeof one !== 'object' || one === null) continue;
    const isList = Array.isArray(one);
    restore(one, texts, place === 'body' && isList ? 'list' : place === 'list' && !isList ? 'mail' : 'other');
  }
}
