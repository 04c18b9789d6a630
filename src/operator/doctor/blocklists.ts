/** Is the address that mail leaves from on a block list (RFC 5782)? Only public IPv4 addresses are asked about. */
import { isIPv4 } from 'node:net';
import { failed, ok, orWell, warning, type Verdict } from './finding.ts';
import { outsideAddresses } from './name.ts';
import type { Probes } from './probes.ts';

type Needs = Pick<Probes, 'config' | 'resolver' | 'machine'>;

export async function blocklists(probes: Needs): Promise<readonly Verdict[]> {
  const { config, resolver } = probes;
  const lists = config.doctor.blocklists;
  const ips = (await outsideAddresses(probes)).filter((ip) => isIPv4(ip));
  if (lists.length === 0) return [ok('no list is asked: `doctor.blocklists` is empty')];
  if (ips.length === 0) return [ok('this machine has no public IPv4 address of its own, so no list is asked')];
  const asked = ips.flatMap((ip) => lists.map((list) => ({ ip, list })));
  const verdicts = await Promise.all(
    asked.map(async ({ ip, list }) => {
      const answer = await resolver.a(`${ip.split('.').reverse().join('.')}.${list}`, { fresh: true });
      return judged(answer, ip, list);
    }),
  );
  return orWell(verdicts.flat(), `${ips.join(', ')} is on none of ${lists.join(', ')}`);
}

type Answer = Awaited<ReturnType<Probes['resolver']['a']>>;

function judged(answer: Answer, ip: string, list: string): Verdict[] {
  if (answer.kind === 'no_domain' || answer.kind === 'no_data') return [];
  const unanswered = `Lists often refuse the large public resolvers: name one of your own in \`delivery.dnsServers\`, or take the list out of \`doctor.blocklists\`.`;
  if (answer.kind === 'trouble') return [warning(`${list} does not answer about ${ip}: ${answer.text}`, unanswered)];
  const codes = answer.records.join(', ');
  // 127.255.255.0/24 tells whoever asks that he may not; anything outside of 127/8 is no answer of a list.
  if (answer.records.every((code) => code.startsWith('127.255.255.') || !code.startsWith('127.')))
    return [warning(`${list} refuses to answer this resolver (${codes})`, unanswered)];
  return [
    failed(
      `${ip} is listed by ${list} (${codes})`,
      `Look the address up at the list's own site, end what caused it, and ask there to be taken off; until then send from another address.`,
    ),
  ];
}
