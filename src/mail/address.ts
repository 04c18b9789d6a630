/**
 * E-mail addresses: RFC 5321 section 4.1.2, RFC 5322 section 3.4, domains by IDNA (UTS #46). The rule, word for word as the manual has it: one RFC
 * 5322 `mailbox`; no groups, comments or route; local part dot-atom or quoted string, at most 64 octets; domain at most 253, two or more LDH labels
 * of at most 63, last label not all digits; U-labels are converted to A-labels (UTS-46) and stored so; no address literals; total at most 254 octets;
 * no control characters; non-ASCII local parts refused unless SMTPUTF8 is switched on. The domain is lower-cased, the local part kept. The rule
 * governs the address: a display name is any UTF-8 without control characters.
 */
import { domainToASCII, domainToUnicode } from 'node:url';

/** One person's address as it goes into a header. */
export interface Mailbox {
  /** Display name, decoded and unquoted; null if there is none. */
  name: string | null;
  /** Left of the `@`, as sent: case kept, quotes kept if they are needed, dropped if they are not. */
  local: string;
  /** A-labels, lower case. */
  domain: string;
  address: string;
}

export type ParsedMailbox = { kind: 'ok'; mailbox: Mailbox } | { kind: 'bad'; why: string };

/** Takes the place of an address that was erased. The domain `.invalid` never receives mail (RFC 6761). */
export const ERASED_ADDRESS = 'erased@erased.invalid';

/** Characters of name and address together: keeps every step below short, whatever is sent. */
const LONGEST_MAILBOX = 1000;
const LONGEST_LOCAL = 64;
const LONGEST_DOMAIN = 253;
const LONGEST_LABEL = 63;
const LONGEST_ADDRESS = 254;

export const DOT_ATOM = /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?:\.[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*$/;
/** RFC 6531 section 3.3 lets UTF8-non-ascii into an atom; what no eye can see (spaces, format characters) stays out. */
const DOT_ATOM_UTF8 =
  /^(?:[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]|[^\x00-\x7f\p{Z}\p{C}])+(?:\.(?:[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]|[^\x00-\x7f\p{Z}\p{C}])+)*$/u;
const QUOTED_STRING = /^"(?:[^"\\]|\\.)*"$/su;
const LABEL = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
const ONLY_LDH_BELOW_128 = /^[A-Za-z0-9.\-\x80-\u{10ffff}]+$/u;

const CONTROL = /[\x00-\x1f\x7f-\x9f]/;

const ASCII = /^[\x00-\x7f]*$/;

/**
 * Reads `a@b.c`, `<a@b.c>`, `Name <a@b.c>` or `"Quoted, name" <a@b.c>`. An unquoted name may hold commas (`Acme, Inc. <a@b.c>`), but not another
 * address: a list must not lose its members silently.
 */
export function parseMailbox(text: string, options: { smtputf8?: boolean } = {}): ParsedMailbox {
  if (text.length > LONGEST_MAILBOX) return bad(`longer than ${String(LONGEST_MAILBOX)} characters`);
  const trimmed = text.trim();
  if (CONTROL.test(trimmed)) return bad('control characters are not allowed');
  if (!trimmed.isWellFormed()) return bad('not valid Unicode');
  if (trimmed === '') return bad('empty');
  const address = trimmed.endsWith('>') ? angleAddress(trimmed) : { before: '', address: trimmed };
  if (address === null) return bad('the address is not between < and >');
  const name = displayName(trimSpaces(address.before));
  if (name.kind === 'bad') return name;
  return parseAddress(address.address, name.name, options.smtputf8 === true);
}

/** Returns the form that all spellings of one address share, the local part lower-cased too. Suppressions compare by it. */
export const addressKey = (address: string): string => address.toLowerCase();

/** Returns the key of an address that is searched for, typed with a name or a domain in its own script too. Other text finds nothing. */
export function soughtAddress(text: string): string {
  const parsed = parseMailbox(text, { smtputf8: true });
  return addressKey(parsed.kind === 'ok' ? parsed.mailbox.address : text);
}

/** Returns the same for a domain by itself: A-labels, lower case. */
export const soughtDomain = (text: string): string => toALabels(text) || text.toLowerCase();

/** Returns a stored address with its domain in its own script, as people write it. */
export function shownAddress(address: string): string {
  const at = address.lastIndexOf('@') + 1;
  const domain = address.slice(at);
  // Empty if a label begins with `xn--` and is not punycode.
  return address.slice(0, at) + (domainToUnicode(domain) || domain);
}

/** Returns the mailbox as text for people and API records; `parseMailbox` reads it back. Not a header: see header.ts. */
export function formatMailbox(mailbox: Mailbox): string {
  const { name, address } = mailbox;
  if (name === null) return address;
  const plain = !/[()<>[\]:;@\\,."]/.test(name) && name === name.trim();
  return `${plain ? name : quote(name)} <${address}>`;
}

/** Returns a quoted string (RFC 5322 section 3.2.4) of text without control characters. */
export const quote = (text: string): string => `"${text.replace(/["\\]/g, '\\$&')}"`;

const bad = (why: string): { kind: 'bad'; why: string } => ({ kind: 'bad', why });

export function trimSpaces(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && text[start] === ' ') start++;
  while (end > start && text[end - 1] === ' ') end--;
  return text.slice(start, end);
}

/** Splits `name <address>` from its right end: a name may hold `<`, and a quoted local part too. */
function angleAddress(text: string): { before: string; address: string } | null {
  const at = text.lastIndexOf('@');
  const open = at > 0 && text[at - 1] === '"' ? openingQuote(text, at - 1) - 1 : text.lastIndexOf('<');
  if (open < 0 || text[open] !== '<') return null;
  return { before: text.slice(0, open), address: text.slice(open + 1, -1) };
}

/** Returns the beginning of the quoted string that ends at `end`: the nearest quote before it that is not escaped, or -1. */
function openingQuote(text: string, end: number): number {
  let open = end;
  do open = text.lastIndexOf('"', open - 1);
  while (open > 0 && isEscaped(text, open));
  return open;
}

function isEscaped(text: string, index: number): boolean {
  let first = index;
  while (first > 0 && text[first - 1] === '\\') first--;
  return (index - first) % 2 === 1;
}

function displayName(text: string): { kind: 'name'; name: string | null } | { kind: 'bad'; why: string } {
  if (text === '') return { kind: 'name', name: null };
  if (text.startsWith('"')) {
    if (QUOTED_STRING.test(text)) return { kind: 'name', name: unquote(text) || null };
    if (!text.includes('"', 1)) return bad('the quote of the display name is not closed');
  }
  if (/<[^<>]*@/.test(text) || (text.includes(',') && text.includes('@'))) {
    return bad('more than one address (put a display name that holds one in quotes)');
  }
  return { kind: 'name', name: text };
}

const unquote = (quoted: string): string => quoted.slice(1, -1).replace(/\\(.)/gsu, '$1');

function parseAddress(address: string, name: string | null, smtputf8: boolean): ParsedMailbox {
  const at = address.lastIndexOf('@');
  if (at < 0) return bad('there is no @');
  const local = parseLocal(address.slice(0, at), smtputf8);
  if (local.kind === 'bad') return local;
  const domain = parseDomain(address.slice(at + 1));
  if (domain.kind === 'bad') return domain;
  const whole = `${local.local}@${domain.domain}`;
  if (Buffer.byteLength(whole) > LONGEST_ADDRESS) return bad(`longer than ${String(LONGEST_ADDRESS)} octets`);
  return { kind: 'ok', mailbox: { name, local: local.local, domain: domain.domain, address: whole } };
}

/** Reads the local part. RFC 5321 section 4.1.2: send with the least quoting, so that `"ana"@x` and `ana@x` are one entry in every list. */
function parseLocal(text: string, smtputf8: boolean): { kind: 'local'; local: string } | { kind: 'bad'; why: string } {
  if (text === '') return bad('nothing before the @');
  if (!smtputf8 && !ASCII.test(text)) return bad('the part before the @ has characters outside ASCII');
  if (Buffer.byteLength(text) > LONGEST_LOCAL) {
    return bad(`the part before the @ is longer than ${String(LONGEST_LOCAL)} octets`);
  }
  const dotAtom = smtputf8 ? DOT_ATOM_UTF8 : DOT_ATOM;
  if (dotAtom.test(text)) return { kind: 'local', local: text };
  if (dotAtom.test(text.replaceAll('.', '')))
    return bad(`the part before the @ has a dot at an end, or two in a row: write it in quotes, as ${quote(text)}@`);
  if (!QUOTED_STRING.test(text)) return bad('the part before the @ is not a dot-atom or a quoted string');
  const content = unquote(text);
  return { kind: 'local', local: dotAtom.test(content) ? content : quote(content) };
}

function parseDomain(text: string): { kind: 'domain'; domain: string } | { kind: 'bad'; why: string } {
  if (text === '') return bad('nothing after the @');
  if (text.startsWith('[')) return bad('address literals are not allowed');
  if (!ONLY_LDH_BELOW_128.test(text)) return bad('the domain has a character that no host name has');
  const domain = toALabels(text);
  if (domain === '') return bad('the domain is not a valid internationalized name');
  if (domain.length > LONGEST_DOMAIN) return bad(`the domain is longer than ${String(LONGEST_DOMAIN)} octets`);
  const labels = domain.split('.');
  if (labels.length < 2) return bad('the domain needs at least two labels');
  for (const label of labels) {
    if (label.length > LONGEST_LABEL) return bad(`a domain label is longer than ${String(LONGEST_LABEL)} octets`);
    if (!LABEL.test(label)) return bad('a domain label is empty, or begins or ends with a hyphen');
  }
  if (/^[0-9]+$/.test(labels.at(-1) ?? '')) return bad('the last label of the domain is all digits');
  return { kind: 'domain', domain };
}

/**
 * Empty if UTS-46 refuses the name. ASCII names do not go through it: the URL standard's converter would read `0x7f.1` as an IPv4 address, and what
 * it does with a bad `xn--` label depends on the version of Node.js.
 */
const toALabels = (domain: string): string => (ASCII.test(domain) ? domain.toLowerCase() : domainToASCII(domain));
