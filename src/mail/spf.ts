/**
 * Checks whether a host may send for a domain (RFC 7208). DNS is handed in; a record is data of a stranger, so what is evaluated of it is
 * bounded by the limits of section 4.6.4. Pure. Tests compare it with the package mailauth, which would bring 33 packages.
 */
import ipaddr from 'ipaddr.js';

export type SpfResult = 'pass' | 'fail' | 'softfail' | 'neutral' | 'none' | 'permerror' | 'temperror';

/** `none`: there is no such name, or it has no such records. */
export type Looked<Value> = { kind: 'found'; records: readonly Value[] } | { kind: 'none' | 'trouble' };

export interface SpfDns {
  txt(name: string): Promise<Looked<string>>;
  a(name: string): Promise<Looked<string>>;
  aaaa(name: string): Promise<Looked<string>>;
  mx(name: string): Promise<Looked<string>>;
  /** The names of an address. */
  ptr(ip: string): Promise<Looked<string>>;
}

/** The sending host, and the sender of the envelope: with an empty one, `postmaster` at the name in EHLO. */
export interface SpfQuestion {
  ip: string;
  sender: string;
  helo: string;
}

const MOST_LOOK_UPS = 10;
const MOST_VOID = 2;
const MOST_HOSTS = 10;
const LONGEST_RECORD = 4096;
const MOST_TERMS = 200;

const results: Readonly<Record<string, SpfResult>> = { '+': 'pass', '-': 'fail', '~': 'softfail', '?': 'neutral' };

/** Ends the check. */
class Ended extends Error {
  readonly result: SpfResult;
  constructor(result: SpfResult) {
    super(result);
    this.result = result;
  }
}
const permerror = (): never => {
  throw new Ended('permerror');
};

interface Term {
  qualifier: SpfResult;
  name: string;
  /** Behind the `:`, undefined without one. */
  target: string | undefined;
  bits4: number;
  bits6: number;
}

interface Parsed {
  terms: Term[];
  redirect: string | null;
}

type Address = ipaddr.IPv4 | ipaddr.IPv6;

interface State extends SpfQuestion {
  dns: SpfDns;
  address: Address;
  lookUps: number;
  voids: number;
}

/** Returns the result, and the domain that it is about. */
export async function checkSpf(dns: SpfDns, question: SpfQuestion): Promise<{ result: SpfResult; domain: string }> {
  const { ip, sender, helo } = question;
  const whole = sender === '' ? `postmaster@${helo}` : sender;
  const domain = whole.slice(whole.lastIndexOf('@') + 1).toLowerCase();
  if (!ipaddr.isValid(ip)) return { result: 'none', domain };
  const state = { ...question, sender: whole, dns, address: ipaddr.process(ip), lookUps: 0, voids: 0 };
  try {
    return { result: isName(domain) ? await checkHost(state, domain) : 'none', domain };
  } catch (error) {
    if (error instanceof Ended) return { result: error.result, domain };
    throw error;
  }
}

const isName = (name: string): boolean =>
  name.length <= 253 && /^(?:[^\s.]{1,63}\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.?$/i.test(name);

async function checkHost(state: State, domain: string): Promise<SpfResult> {
  const found = await state.dns.txt(domain);
  if (found.kind === 'trouble') return 'temperror';
  const records = found.kind === 'found' ? found.records.filter((text) => /^v=spf1(?: |$)/i.test(text)) : [];
  const [record] = records;
  if (record === undefined) return 'none';
  if (records.length > 1) return 'permerror';
  const { terms, redirect } = parseRecord(record);
  for (const term of terms) if (await matches(state, term, domain)) return term.qualifier;
  if (redirect === null || terms.some(({ name }) => name === 'all')) return 'neutral';
  countLookUp(state);
  const target = expand(state, redirect, domain);
  if (!isName(target)) return 'permerror';
  const result = await checkHost(state, target);
  return result === 'none' ? 'permerror' : result;
}

function parseRecord(record: string): Parsed {
  if (record.length > LONGEST_RECORD || /[^\x20-\x7e]/.test(record)) permerror();
  const parts = record.split(/ +/).slice(1).filter(Boolean);
  if (parts.length > MOST_TERMS) permerror();
  const modifiers = parts.filter((part) => /^[a-z][a-z0-9_.-]*=/i.test(part));
  const redirects = modifiers.filter((part) => /^redirect=/i.test(part));
  if (redirects.length > 1 || modifiers.filter((part) => /^exp=/i.test(part)).length > 1) permerror();
  return {
    terms: parts.filter((part) => !modifiers.includes(part)).map(parseTerm),
    redirect: redirects[0]?.slice('redirect='.length) ?? null,
  };
}

function parseTerm(part: string): Term {
  const [, qualifier = '', given = '', target, four, six] =
    /^([-+?~]?)(all|include|a|mx|ptr|ip4|ip6|exists)(?::(.+?))?(?:\/(\d{1,3}))?(?:\/\/(\d{1,3}))?$/i.exec(part) ?? [];
  const name = given.toLowerCase();
  const hasCidr = four !== undefined || six !== undefined;
  const [bits4, bits6] = [Number(four ?? 32), Number((name === 'ip6' ? four : six) ?? 128)];
  if (name === '' || bits6 > 128 || (name !== 'ip6' && bits4 > 32)) permerror();
  if (target === undefined && ['include', 'exists', 'ip4', 'ip6'].includes(name)) permerror();
  if ((name === 'all' && target !== undefined) || (hasCidr && ['all', 'include', 'ptr', 'exists'].includes(name)))
    permerror();
  if (
    (name === 'ip4' && !ipaddr.IPv4.isValidFourPartDecimal(target ?? '')) ||
    (name === 'ip6' && !ipaddr.IPv6.isValid(target ?? ''))
  )
    permerror();
  return { qualifier: results[qualifier || '+'] ?? 'neutral', name, target, bits4, bits6 };
}

async function matches(state: State, term: Term, domain: string): Promise<boolean> {
  const { dns, address } = state;
  const { name, target } = term;
  if (name === 'all') return true;
  if (name === 'ip4' || name === 'ip6') return isWithin(address, target ?? '', term);
  countLookUp(state);
  const host = target === undefined ? domain : expand(state, target, domain);
  if (!isName(host)) return name === 'include' ? permerror() : false;
  switch (name) {
    case 'include':
      return isIncluded(await checkHost(state, host));
    case 'exists':
      return records(state, await dns.a(host)).length > 0;
    case 'ptr':
      return (await validatedNames(state)).some((one) => one === host || one.endsWith(`.${host}`));
    case 'mx': {
      const hosts = records(state, await dns.mx(host));
      if (hosts.length > MOST_HOSTS) permerror();
      for (const one of hosts) if (await hasAddress(state, one, term)) return true;
      return false;
    }
    default:
      return hasAddress(state, host, term);
  }
}

/** Section 5.2. */
function isIncluded(result: SpfResult): boolean {
  if (result === 'temperror') throw new Ended('temperror');
  return result === 'permerror' || result === 'none' ? permerror() : result === 'pass';
}

function countLookUp(state: State): void {
  if (++state.lookUps > MOST_LOOK_UPS) permerror();
}

function records<Value>(state: State, looked: Looked<Value>): readonly Value[] {
  if (looked.kind === 'trouble') throw new Ended('temperror');
  if (looked.kind === 'found') return looked.records;
  if (++state.voids > MOST_VOID) permerror();
  return [];
}

async function hasAddress(state: State, host: string, term: Term): Promise<boolean> {
  const { dns, address } = state;
  const found = records(state, await (address.kind() === 'ipv4' ? dns.a(host) : dns.aaaa(host)));
  return found.some((one) => isWithin(address, one, term));
}

function isWithin(address: Address, network: string, { bits4, bits6 }: Term): boolean {
  const other = ipaddr.parse(network);
  if (other.kind() !== address.kind()) return false;
  return address.match([other, address.kind() === 'ipv4' ? bits4 : bits6] as never);
}

/** The names of the sending host that lead back to it (section 5.5). Trouble does not match. */
async function validatedNames({ dns, ip, address }: State): Promise<string[]> {
  const named = await dns.ptr(ip);
  const names = named.kind === 'found' ? named.records.slice(0, MOST_HOSTS) : [];
  const good: string[] = [];
  for (const name of names) {
    const found = await (address.kind() === 'ipv4' ? dns.a(name) : dns.aaaa(name));
    const leadsBack = (one: string): boolean => ipaddr.process(one).toString() === address.toString();
    if (found.kind === 'found' && found.records.some(leadsBack)) good.push(name.toLowerCase().replace(/\.$/, ''));
  }
  return good;
}

const MACRO = /%(?:([%_-])|\{([slodiphv])(\d{0,3})(r?)([.\-+,/_=]*)\})/gi;

/** Expands macros (section 7), and leaves out labels at the front of a name that is too long. */
function expand(state: State, text: string, domain: string): string {
  if (text.replace(MACRO, '').includes('%')) permerror();
  const expanded = text.replace(
    MACRO,
    (_, plain: string | undefined, letter = '', digits = '', back = '', marks = '') => {
      if (plain !== undefined) return { '%': '%', _: ' ', '-': '%20' }[plain] ?? '';
      const [name, delimiters] = [String(letter), String(marks).replace(/[-/]/g, String.raw`\$&`)];
      const parts = valueOf(state, name.toLowerCase(), domain).split(
        delimiters === '' ? '.' : new RegExp(`[${delimiters}]`),
      );
      if (back !== '') parts.reverse();
      if (digits !== '' && Number(digits) === 0) permerror();
      const shown = (digits === '' ? parts : parts.slice(-Number(digits))).join('.');
      return name === name.toLowerCase() ? shown : encodeURIComponent(shown);
    },
  );
  let name = expanded.replace(/\.$/, '').toLowerCase();
  while (name.length > 253 && name.includes('.')) name = name.slice(name.indexOf('.') + 1);
  return name;
}

/** The name of the sending host (`p`) is never looked up, as section 7.2 allows. */
function valueOf({ sender, address, helo }: State, letter: string, domain: string): string {
  const at = sender.lastIndexOf('@');
  const isV4 = address.kind() === 'ipv4';
  const values: Readonly<Record<string, () => string>> = {
    s: () => sender,
    l: () => sender.slice(0, at),
    o: () => sender.slice(at + 1),
    d: () => domain,
    i: () => (isV4 ? address.toString() : Array.from(Buffer.from(address.toByteArray()).toString('hex')).join('.')),
    p: () => 'unknown',
    v: () => (isV4 ? 'in-addr' : 'ip6'),
    h: () => helo,
  };
  return values[letter]?.() ?? '';
}
