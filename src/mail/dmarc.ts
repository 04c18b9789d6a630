/** Judges a mail by the policy of its author's domain (RFC 7489). DNS is handed in. Pure. */
import { getDomain } from 'tldts';
import type { Look } from './spf.ts';

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
