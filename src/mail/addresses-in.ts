/** Finds addresses (RFC 5322 section 3.4.1) in prose, which has brackets, quotes and full stops around them. */

export interface FoundAddress {
  address: string;
  /** Its place in the text, with the angle brackets and quotes around it. */
  start: number;
  end: number;
}

const LONGEST_LOCAL = 128;
const LONGEST_DOMAIN = 255;
const ATOM = /[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.]/;
const DOMAIN = /[A-Za-z0-9.-]/;
const OPENING = '<"\'(';
const CLOSING = '>"\')';

/** Returns all addresses of a text, in order. Time is linear: each `@` looks at a bounded neighbourhood. */
export function addressesIn(text: string): FoundAddress[] {
  const found: FoundAddress[] = [];
  let from = 0;
  for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
    const one = addressAround(text, at, from);
    if (one === null) continue;
    found.push(one);
    from = one.end;
  }
  return found;
}

/** Returns the address around the `@`, not reaching back before `from`. */
function addressAround(text: string, at: number, from: number): FoundAddress | null {
  const inBrackets = bracketed(text, at, from);
  if (inBrackets !== null) return inBrackets;
  let start = text[at - 1] === '"' ? quoteStart(text, at, from) : atomStart(text, at, from);
  let end = at + 1;
  while (end < text.length && end - at <= LONGEST_DOMAIN && DOMAIN.test(text.charAt(end))) end++;
  while (end > at + 1 && (text[end - 1] === '.' || text[end - 1] === '-')) end--;
  const address = text.slice(start, end);
  if (start === at || !address.slice(at - start + 1).includes('.')) return null;
  while (start > from && OPENING.includes(text.charAt(start - 1))) start--;
  while (end < text.length && CLOSING.includes(text.charAt(end))) end++;
  return { address, start, end };
}

/** Between angle brackets anything goes that has no space: addresses outside ASCII, hosts without a dot. */
function bracketed(text: string, at: number, from: number): FoundAddress | null {
  const open = lastBefore(text, '<', at, Math.max(from, at - LONGEST_LOCAL - 20));
  if (open < 0) return null;
  const rest = text.slice(open + 1, open + 1 + LONGEST_LOCAL + LONGEST_DOMAIN);
  const inner = rest.slice(0, Math.max(0, rest.indexOf('>')));
  const address = inner.replace(/^mailto:/i, '');
  if (!/^[^\s<>@,;:"]+@[^\s<>@,;:"]+$/.test(address) || open + 1 + inner.length < at) return null;
  return { address, start: open, end: open + inner.length + 2 };
}

function atomStart(text: string, at: number, from: number): number {
  let start = at;
  while (start > from && at - start < LONGEST_LOCAL && ATOM.test(text.charAt(start - 1))) start--;
  start = afterMarks(text, start, at);
  const named = /^(?:to|for|rcpt|user|address|recipient|email|smtp)=/i.exec(text.slice(start, at));
  return named === null ? start : afterMarks(text, start + named[0].length, at);
}

/** `'a@b'`, `/a@b`, `.a@b`: what no local part begins with in practice. */
function afterMarks(text: string, from: number, at: number): number {
  let start = from;
  while (start < at && /[='/.`*]/.test(text.charAt(start))) start++;
  return start;
}

function quoteStart(text: string, at: number, from: number): number {
  const open = lastBefore(text, '"', at - 1, Math.max(from, at - LONGEST_LOCAL));
  return open < 0 ? at : open;
}

/** Returns the last place of a mark before `at`, not before `floor`, or -1. */
function lastBefore(text: string, mark: string, at: number, floor: number): number {
  const place = text.slice(floor, at).lastIndexOf(mark);
  return place < 0 ? place : floor + place;
}
