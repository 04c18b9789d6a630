/** Checks whether block lists (RFC 5782) list our public IPv4 addresses. */
import { isIPv4 } from 'node:net';
import { failed, ok, orWell, warning, type Verdict } from './finding.ts';
import { outsideAddresses } from './name.ts';
import type { Probes } from './probes.ts';

type Needs = Pick<Probes, 'config' | 'resolver' | 'machine'>;

/** The answer of one list about one address. */
export interface Listing {
  ip: string;
  list: string;
  /** `refused`: it does not answer our resolver; `silent`: it does not answer. */
  state: 'clear' | 'listed' | 'refused' | 'silent';
  /** Its answer, or the error. */
  text: string;
}

/** Asks the lists of `doctor.blocklists` about each public IPv4 address of ours. */
export async function askLists(probes: Needs): Promise<Listing[]> {
  const lists = probes.config.doctor.blocklists;
  const ips = lists.length === 0 ? [] : (await outsideAddresses(probes)).filter((ip) => isIPv4(ip));
  const asked = ips.flatMap((ip) => lists.map((list) => ({ ip, list })));
  return await Promise.all(
    asked.map(async ({ ip, list }) => {
      const answer = await probes.resolver.a(`${ip.split('.').reverse().join('.')}.${list}`, { fresh: true });
      return { ip, list, ...judged(answer) };
    }),
  );
}

type Answer = Awaited<ReturnType<Probes['resolver']['a']>>;

function judged(answer: Answer): Pick<Listing, 'state' | 'text'> {
  if (answer.kind === 'no_domain' || answer.kind === 'no_data') return { state: 'clear', text: '' };
  if (answer.kind === 'trouble') return { state: 'silent', text: answer.text };
  const text = answer.records.join(', ');
  // 127.255.255.0/24 means that this resolver may not ask; an address outside of 127/8 does not come from a list.
  const isRefusal = answer.records.every((code) => code.startsWith('127.255.255.') || !code.startsWith('127.'));
  return { state: isRefusal ? 'refused' : 'listed', text };
}

export async function blocklists(probes: Needs): Promise<readonly Verdict[]> {
  const lists = probes.config.doctor.blocklists;
  if (lists.length === 0) return [ok('no list is asked: `doctor.blocklists` is empty')];
  const listings = await askLists(probes);
  if (listings.length === 0) return [ok('this machine has no public IPv4 address of its own, so no list is asked')];
  const ips = [...new Set(listings.map(({ ip }) => ip))];
  return orWell(listings.flatMap(verdictOn), `${ips.join(', ')} is on none of ${lists.join(', ')}`);
}

const UNANSWERED = `Lists often refuse the large public resolvers: name one of your own in \`delivery.dnsServers\`, or take the list out of \`doctor.blocklists\`.`;

function verdictOn({ ip, list, state, text }: Listing): Verdict[] {
  switch (state) {
    case 'clear':
      return [];
    case 'silent':
      return [warning(`${list} does not answer about ${ip}: ${text}`, UNANSWERED)];
    case 'refused':
      return [warning(`${list} refuses to answer this resolver (${text})`, UNANSWERED)];
    case 'listed':
      return [
        failed(
          `${ip} is listed by ${list} (${text})`,
          `Look the address up at the list's own site, end what caused it, and ask there to be taken off; until then send from another address.`,
        ),
      ];
  }
}
