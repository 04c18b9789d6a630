/**
 * Checks whether a host may send for a domain (SPF, RFC 7208), and judges a mail by its author's domain's policy (DMARC, RFC 7489). DNS is handed in;
 * records are strangers' data, so SPF is bounded by section 4.6.4. Pure. Tests compare it with mailauth, which would bring 33 packages.
 */
import ipaddr from 'ipaddr.js';
import { getDomain } from 'tldts';

export type SpfResult = 'pass' | 'fail' | 'softfail' | 'neutral' | 'none' | 'permerror' | 'temperror';

/** Looks records up, as texts: of MX the hosts. Resolves with none if there is no such name or record, and with null if DNS does not say. */
export type Look = (type: 'txt' | 'a' | 'aaaa' | 'mx' | 'ptr', name: string) => Promise<readonly string[] | null>;

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

const results: Readonly<Record<string, SpfResult>> = { '-': 'fail', '~': 'softfail', '?': 'neutral' };

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

export async function checkSpf(
  look: Look,
  { ip, sender, helo }: SpfQuestion,
): Promise<{ result: SpfResult; domain: string }> {
  const from = sender === '' ? `postmaster@${helo}` : sender;
  const domain = from.slice(from.lastIndexOf('@') + 1).toLowerCase();
  if (!ipaddr.isValid(ip) || !isName(domain)) return { result: 'none', domain };
  try {
    return { result: await new SpfCheck(look, ipaddr.process(ip), from, helo).host(domain), domain };
  } catch (error) {
    if (error instanceof Ended) return { result: error.result, domain };
    throw error;
  }
}

const isName = (name: string): boolean =>
  name.length <= 253 && /^(?:[^\s.]{1,63}\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.?$/i.test(name);

/** A mechanism of a record; `target` is behind its `:`. */
interface Term {
  qualifier: SpfResult;
  name: string;
  target: string | undefined;
  bits4: number;
  bits6: number;
}

function parseTerm(part: string): Term {
  const [, qualifier = '', given = '', target, four, six] =
    /^([-+?~]?)(all|include|a|mx|ptr|ip4|ip6|exists)(?::(.+?))?(?:\/(\d{1,3}))?(?:\/\/(\d{1,3}))?$/i.exec(part) ?? [];
  const name = given.toLowerCase();
  const [bits4, bits6] = [Number(four ?? 32), Number((name === 'ip6' ? four : six) ?? 128)];
  const hasLength = four !== undefined || six !== undefined;
  const isWrong =
    name === '' ||
    bits6 > 128 ||
    (name !== 'ip6' && bits4 > 32) ||
    (target === undefined && ['include', 'exists', 'ip4', 'ip6'].includes(name)) ||
    (target !== undefined && name === 'all') ||
    (hasLength && ['all', 'include', 'ptr', 'exists'].includes(name)) ||
    (name === 'ip4' && !ipaddr.IPv4.isValidFourPartDecimal(target ?? '')) ||
    (name === 'ip6' && !ipaddr.IPv6.isValid(target ?? ''));
  return isWrong ? permerror() : { qualifier: results[qualifier] ?? 'pass', name, target, bits4, bits6 };
}

const MACRO = /%(?:([%_-])|\{([slodiphv])(\d{0,3})(r?)([.\-+,/_=]*)\})/gi;
const PLAIN: Readonly<Record<string, string>> = { '%': '%', _: ' ', '-': '%20' };

class SpfCheck {
  private readonly look: Look;
  private readonly address: ipaddr.IPv4 | ipaddr.IPv6;
  private readonly sender: string;
  private readonly helo: string;
  private lookUps = 0;
  private voids = 0;

  constructor(look: Look, address: ipaddr.IPv4 | ipaddr.IPv6, sender: string, helo: string) {
    this.look = look;
    this.address = address;
    this.sender = sender;
    this.helo = helo;
  }

  /** Section 4. */
  async host(domain: string): Promise<SpfResult> {
    const texts = await this.look('txt', domain);
    if (texts === null) return 'temperror';
    const [record, ...others] = texts.filter((text) => /^v=spf1(?: |$)/i.test(text));
    if (record === undefined) return 'none';
    if (others.length > 0 || record.length > LONGEST_RECORD || /[^\x20-\x7e]/.test(record)) return 'permerror';
    const parts = record.split(/ +/).slice(1).filter(Boolean);
    const isModifier = (part: string): boolean => /^[a-z][a-z0-9_.-]*=/i.test(part);
    const terms = parts.filter((part) => !isModifier(part)).map(parseTerm);
    const [redirect, second] = parts.filter((part) => /^redirect=/i.test(part));
    if (second !== undefined) return 'permerror';
    for (const term of terms) if (await this.matches(term, domain)) return term.qualifier;
    if (redirect === undefined) return 'neutral';
    this.countLookUp();
    const target = this.expand(redirect.slice('redirect='.length), domain);
    const result = isName(target) ? await this.host(target) : 'none';
    return result === 'none' ? 'permerror' : result;
  }

  private countLookUp(): void {
    if (++this.lookUps > MOST_LOOK_UPS) permerror();
  }

  private async matches(term: Term, domain: string): Promise<boolean> {
    const { name, target } = term;
    if (name === 'all') return true;
    if (name === 'ip4' || name === 'ip6') return this.isWithin(target ?? '', term);
    this.countLookUp();
    const host = target === undefined ? domain : this.expand(target, domain);
    if (!isName(host)) return name === 'include' ? permerror() : false;
    if (name === 'include') return isIncluded(await this.host(host));
    if (name === 'exists') return (await this.records('a', host)).length > 0;
    if (name === 'ptr') return (await this.ownNames()).some((one) => one === host || one.endsWith(`.${host}`));
    const hosts = name === 'mx' ? await this.records('mx', host) : [host];
    if (hosts.length > MOST_HOSTS) permerror();
    for (const one of hosts)
      if ((await this.records(this.addressType, one)).some((found) => this.isWithin(found, term))) return true;
    return false;
  }

  private get addressType(): 'a' | 'aaaa' {
    return this.address.kind() === 'ipv4' ? 'a' : 'aaaa';
  }

  private async records(type: Parameters<Look>[0], name: string): Promise<readonly string[]> {
    const found = await this.look(type, name);
    if (found === null) throw new Ended('temperror');
    if (found.length === 0 && ++this.voids > MOST_VOID) permerror();
    return found;
  }

  private isWithin(network: string, { bits4, bits6 }: Term): boolean {
    const [other, { address }] = [ipaddr.parse(network), this];
    if (other.kind() !== address.kind()) return false;
    return address.match([other, address.kind() === 'ipv4' ? bits4 : bits6] as never);
  }

  /** Returns the names of the sending host that lead back to it (section 5.5). Trouble does not match. */
  private async ownNames(): Promise<string[]> {
    const ip = this.address.toString();
    const own: string[] = [];
    for (const name of ((await this.look('ptr', ip)) ?? []).slice(0, MOST_HOSTS)) {
      const found = (await this.look(this.addressType, name)) ?? [];
      if (found.some((one) => ipaddr.process(one).toString() === ip)) own.push(name.toLowerCase().replace(/\.$/, ''));
    }
    return own;
  }

  /** Expands macros (section 7), and leaves out labels at the front of a name that is too long. */
  private expand(text: string, domain: string): string {
    if (text.replace(MACRO, '').includes('%')) permerror();
    const expanded = text.replace(
      MACRO,
      (_, plain: string | undefined, letter = '', digits = '', back = '', marks = '') => {
        if (plain !== undefined) return PLAIN[plain] ?? '';
        const delimiters = new RegExp(`[${(String(marks) || '.').replace('-', String.raw`\-`)}]`);
        const parts = this.valueOf(String(letter).toLowerCase(), domain).split(delimiters);
        if (back !== '') parts.reverse();
        if (digits !== '' && Number(digits) === 0) permerror();
        const shown = (digits === '' ? parts : parts.slice(-Number(digits))).join('.');
        return /[A-Z]/.test(String(letter)) ? encodeURIComponent(shown) : shown;
      },
    );
    let name = expanded.replace(/\.$/, '').toLowerCase();
    while (name.length > 253 && name.includes('.')) name = name.slice(name.indexOf('.') + 1);
    return name;
  }

  /** The name of the sending host (`p`) is never looked up, as section 7.2 allows. */
  private valueOf(letter: string, domain: string): string {
    const { sender, address, helo } = this;
    const at = sender.lastIndexOf('@');
    const isV4 = address.kind() === 'ipv4';
    const nibbles = (): string => Array.from(Buffer.from(address.toByteArray()).toString('hex')).join('.');
    const values: Readonly<Record<string, string>> = {
      s: sender,
      l: sender.slice(0, at),
      o: sender.slice(at + 1),
      d: domain,
      i: isV4 ? address.toString() : nibbles(),
      p: 'unknown',
      v: isV4 ? 'in-addr' : 'ip6',
      h: helo,
    };
    return values[letter] ?? '';
  }
}

/** Section 5.2. */
function isIncluded(result: SpfResult): boolean {
  if (result === 'temperror') throw new Ended('temperror');
  return result === 'permerror' || result === 'none' ? permerror() : result === 'pass';
}

export interface DmarcVerdict {
  result: 'pass' | 'fail' | 'none' | 'temperror' | 'permerror';
  domain: string;
  /** The domain's wish if mail fails; null without a policy. */
  policy: string | null;
}

/** The domains that have passed SPF and DKIM. */
export interface Authenticated {
  spf: readonly string[];
  dkim: readonly string[];
}

const isRecord = (text: string): boolean => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text);

/** `from`: the domain of the author. */
export async function checkDmarc(look: Look, from: string, authenticated: Authenticated): Promise<DmarcVerdict> {
  const above = organizationOf(from);
  const own = await policyAt(look, from);
  const tags = own === 'none' && above !== from ? await policyAt(look, above) : own;
  if (typeof tags === 'string') return { result: tags, domain: from, policy: null };
  const policy = (tags === own ? undefined : tags.get('sp')) ?? tags.get('p') ?? 'none';
  const isAligned = (domain: string, mode: string | undefined): boolean =>
    mode === 's' ? domain === from : organizationOf(domain) === above;
  const passes =
    authenticated.dkim.some((domain) => isAligned(domain, tags.get('adkim'))) ||
    authenticated.spf.some((domain) => isAligned(domain, tags.get('aspf')));
  return { result: passes ? 'pass' : 'fail', domain: from, policy };
}

const organizationOf = (name: string): string => getDomain(name) ?? name;

/** Section 6.6.3: several records are none, and so is one without a policy. */
async function policyAt(look: Look, domain: string): Promise<ReadonlyMap<string, string> | 'none' | 'temperror'> {
  const texts = await look('txt', `_dmarc.${domain}`);
  if (texts === null) return 'temperror';
  const [record, ...others] = texts.filter(isRecord);
  if (record === undefined || others.length > 0) return 'none';
  const parts = record
    .slice(0, 4096)
    .split(';')
    .map((part) => part.split('=', 2).map((one) => one.trim().toLowerCase()));
  const tags = new Map(parts.map(([name = '', value = '']) => [name, value]));
  return /^(?:none|quarantine|reject)$/.test(tags.get('p') ?? '') ? tags : 'none';
}
