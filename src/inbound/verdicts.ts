/** Checks the sender of a received mail by SPF, DKIM and DMARC. Nothing is refused because of it: the application decides. */
import type { Clock } from '../base/clock.ts';
import { isSignedBy, type Signature } from '../mail/dkim/verify.ts';
import { checkDmarc, type DmarcVerdict } from '../mail/dmarc.ts';
import { checkSpf, type Looked, type SpfDns, type SpfQuestion, type SpfResult } from '../mail/spf.ts';
import type { DnsAnswer, Resolver } from '../net/resolver.ts';

export interface VerdictDeps {
  clock: Clock;
  resolver: Pick<Resolver, 'txt' | 'a' | 'aaaa' | 'mx' | 'ptr'>;
}

export interface Verdicts {
  spf: { result: SpfResult; domain: string };
  dkim: { result: 'pass' | 'fail' | 'temperror'; domain: string; selector: string }[];
  /** Null for a mail without one author. */
  dmarc: DmarcVerdict | null;
}

/** The limit of all look-ups about one mail; what has not come by then is trouble. */
const LONGEST_MS = 20_000;

/** `signatures` and `from` (the domain of the author) are as the mail has them. */
export async function verdictsOn(
  deps: VerdictDeps,
  question: SpfQuestion,
  { signatures, from }: { signatures: readonly Signature[]; from: string | null },
): Promise<Verdicts> {
  const dns = dnsWithin(deps);
  try {
    const [spf, dkim] = await Promise.all([
      checkSpf(dns, question),
      Promise.all(signatures.map((one) => checkDkim(dns, one))),
    ]);
    const passed = {
      spf: spf.result === 'pass' ? [spf.domain] : [],
      dkim: dkim.flatMap(({ result, domain }) => (result === 'pass' ? [domain] : [])),
    };
    return { spf, dkim, dmarc: from === null ? null : await checkDmarc((name) => dns.txt(name), from, passed) };
  } finally {
    dns.close();
  }
}

async function checkDkim(dns: SpfDns, { domain, selector, claim }: Signature): Promise<Verdicts['dkim'][number]> {
  if (claim === null) return { result: 'fail', domain, selector };
  const looked = await dns.txt(`${selector}._domainkey.${domain}`);
  if (looked.kind === 'trouble') return { result: 'temperror', domain, selector };
  const isGood = looked.kind === 'found' && looked.records.some((record) => isSignedBy(claim, record));
  return { result: isGood ? 'pass' : 'fail', domain, selector };
}

/** Our resolver with one deadline for all look-ups. */
function dnsWithin({ clock, resolver }: VerdictDeps): SpfDns & { close(): void } {
  let timeUp: () => void = () => undefined;
  const over = new Promise<{ kind: 'trouble' }>((resolve) => {
    timeUp = () => resolve({ kind: 'trouble' });
  });
  const timer = clock.after(LONGEST_MS, timeUp, { background: true });
  const within = async <Record, Value>(
    asked: Promise<DnsAnswer<Record>>,
    of: (record: Record) => Value,
  ): Promise<Looked<Value>> => {
    const answer = await Promise.race([asked, over]);
    if (answer.kind === 'found') return { kind: 'found', records: answer.records.map(of) };
    return { kind: answer.kind === 'trouble' ? 'trouble' : 'none' };
  };
  const same = (text: string): string => text;
  return {
    txt: (name) => within(resolver.txt(name), same),
    a: (name) => within(resolver.a(name), same),
    aaaa: (name) => within(resolver.aaaa(name), same),
    mx: (name) => within(resolver.mx(name), ({ exchange }) => exchange),
    ptr: (ip) => within(resolver.ptr(ip), same),
    close: () => timer.cancel(),
  };
}
