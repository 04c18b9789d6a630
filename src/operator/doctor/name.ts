/**
 * Checks our host name. Receivers compare the name that we greet with, the name of our address and the address of that name
 * (RFC 5321 section 4.1.4, RFC 1912 section 2.1), and many refuse mail if they do not agree.
 */
import { isIPv6 } from 'node:net';
import { isPublicAddress, isPublicName, plainAddress } from '../../net/ip.ts';
import { failed, orWell, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

type Needs = Pick<Probes, 'config' | 'resolver' | 'machine'>;

/** The most addresses that are checked. */
const MOST_ADDRESSES = 8;

/** Returns our public addresses: those of the machine, or those of its name if it is behind a NAT. */
export async function outsideAddresses(probes: Needs): Promise<readonly string[]> {
  const own = probes.machine.addresses().filter(isPublicAddress);
  const usable = probes.config.delivery.ipv6 === 'always' ? own : own.filter((ip) => !isIPv6(ip));
  if (usable.length > 0) return usable.slice(0, MOST_ADDRESSES);
  const named = await addressesOfName(probes);
  return named.ips.filter(isPublicAddress).slice(0, MOST_ADDRESSES);
}

async function addressesOfName({
  config,
  resolver,
}: Needs): Promise<{ ips: string[]; alias: string | null; trouble: string | null }> {
  const host = config.smtp.hostname;
  const answers = await Promise.all([resolver.a(host, { fresh: true }), resolver.aaaa(host, { fresh: true })]);
  const found = answers.filter((answer) => answer.kind === 'found');
  const alias = found.find(({ name }) => name !== host)?.name ?? null;
  const trouble = answers.find((answer) => answer.kind === 'trouble')?.text ?? null;
  return { ips: found.flatMap(({ records }) => records), alias, trouble };
}

export async function name(probes: Needs): Promise<readonly Verdict[]> {
  const host = probes.config.smtp.hostname;
  if (!isPublicName(host))
    return [
      failed(
        `smtp.hostname is ${host}, which is not a fully qualified name`,
        'Set `smtp.hostname` to the full name of this machine, such as mail.example.com.',
      ),
    ];
  const named = await addressesOfName(probes);
  if (named.trouble !== null && named.ips.length === 0)
    return [warning(`${host} cannot be looked up: ${named.trouble}`, 'See the line of `resolver`.')];
  if (named.ips.length === 0)
    return [
      failed(
        `${host} has no address in DNS`,
        `Publish an A record for ${host} with the public address of this machine.`,
      ),
    ];
  const outside = await outsideAddresses(probes);
  const faults = [...aliased(host, named.alias), ...elsewhere(host, named.ips, outside)];
  if (outside.length === 0)
    faults.push(
      warning(
        `${host} leads to ${named.ips.join(', ')}, and this machine has no public address`,
        'Nothing to do on a closed network. For mail to the Internet publish the public address under this name.',
      ),
    );
  for (const ip of outside) faults.push(...(await reverse(probes, host, ip)));
  return orWell(faults, `${host} leads to ${outside.join(', ')} and back`);
}

/** An MX must lead to a name that has the address itself (RFC 2181 section 10.3), and ours is what domains put into theirs. */
function aliased(host: string, alias: string | null): Verdict[] {
  if (alias === null) return [];
  return [
    warning(
      `${host} is an alias (CNAME) of ${alias}; the MX records of return paths may not lead to an alias`,
      `Publish an A record for ${host} instead of the CNAME.`,
    ),
  ];
}

function elsewhere(host: string, ips: readonly string[], outside: readonly string[]): Verdict[] {
  const strangers = outside.filter((ip) => !ips.some((one) => isSame(one, ip)));
  if (outside.length === 0 || strangers.length === 0) return [];
  const why = `${host} leads to ${ips.join(', ')}, but this machine has ${strangers.join(', ')}`;
  const cure = `Publish an A record for ${host} with ${strangers.join(', ')}, or set \`smtp.hostname\` to the name of that address.`;
  return [strangers.length === outside.length ? failed(why, cure) : warning(why, cure)];
}

async function reverse({ resolver }: Needs, host: string, ip: string): Promise<Verdict[]> {
  const answer = await resolver.ptr(ip, { fresh: true });
  if (answer.kind === 'trouble')
    return [warning(`the name of ${ip} cannot be looked up: ${answer.text}`, 'See the line of `resolver`.')];
  const names = answer.kind === 'found' ? answer.records.map((one) => one.toLowerCase()) : [];
  const cure = `Ask the provider of the address to set its reverse record (PTR) to ${host}; most providers have a field for it.`;
  if (names.length === 0) return [failed(`${ip} has no name (PTR record)`, cure)];
  if (names.includes(host)) return [];
  return [warning(`${ip} is called ${names.slice(0, 3).join(', ')}, but greets as ${host}`, cure)];
}

const isSame = (a: string, b: string): boolean => plainAddress(a) === plainAddress(b);
