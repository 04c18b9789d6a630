/**
 * Checks the IPv6 address of our host name (AAAA). Hosts that send bounces try it first, so one that does not work delays them;
 * and receivers refuse mail from an IPv6 address that has no name.
 */
import { isIPv6 } from 'node:net';
import { isPublicAddress, plainAddress } from '../../net/ip.ts';
import { warning, type Verdict } from './finding.ts';
import { isOurs } from './mx.ts';
import type { Greeting, Probes } from './probes.ts';

type Needs = Pick<Probes, 'config' | 'resolver' | 'machine' | 'network' | 'server'>;

const SMTP_PORT = 25;
/** The most addresses that are tried. */
const MOST = 3;

/** Returns no verdicts if there is no AAAA record, or if it works. */
export async function ipv6OfName(probes: Needs): Promise<readonly Verdict[]> {
  const host = probes.config.smtp.hostname;
  const answer = await probes.resolver.aaaa(host, { fresh: true });
  const ips = answer.kind === 'found' ? answer.records.slice(0, MOST) : [];
  return (await Promise.all(ips.map((ip) => faultsOf(probes, host, ip)))).flat();
}

async function faultsOf(probes: Needs, host: string, ip: string): Promise<Verdict[]> {
  const { config, machine, network } = probes;
  const own = machine.addresses().flatMap((one) => plainAddress(one) ?? []);
  const isOwn = own.includes(plainAddress(ip) ?? ip);
  const greeting = await network.greet({ ip, port: SMTP_PORT });
  const unnamed = isOwn ? await withoutName(probes, host, ip) : [];
  // If our listener has another port, the line of `mx` tells whether the program on port 25 hands bounces over.
  if (isAnswer(greeting, host, config.smtp.mx.port)) return unnamed;
  const what = `the AAAA record of ${host} leads to ${ip}`;
  const why = greeting.kind === 'greeted' ? greeting.line : greeting.why;
  // Behind a NAT the address may be that of the router, and then it may not be reachable from here.
  if (!own.some(isPublicAddress))
    return [
      warning(
        `${what}, which is not answered by us from here (${why}), and this machine has no public address of its own`,
        'Remove the AAAA record, unless the router hands that address on to this machine (NAT66, or a forwarded port): hosts try it first, and bounces are delayed. Some routers refuse connections from the inside to their own public address: test from another network.',
      ),
    ];
  if (!isOwn) {
    const theirs = own.filter((one) => isIPv6(one) && isPublicAddress(one));
    const other = theirs.length === 0 ? '' : `, or let it lead to ${theirs.join(' or ')}`;
    return [
      warning(`${what}, which is no address of this machine`, `Remove the AAAA record: hosts try it first${other}.`),
    ];
  }
  const silent = `${what}, but its port 25 is not answered by us: ${why}`;
  const down = cureOfListener(probes);
  if (down !== null) return [warning(silent, down), ...unnamed];
  if (!config.smtp.mx.host.includes(':'))
    return [
      warning(
        `${what}, but nothing listens there: smtp.mx.host is ${config.smtp.mx.host}, which is IPv4 only`,
        `Set \`smtp.mx.host: '::'\`, which takes both, and restart; or remove the AAAA record. Bounces are delayed meanwhile.`,
      ),
      ...unnamed,
    ];
  return [
    warning(
      silent,
      'Open inbound TCP port 25 in the firewall for IPv6 too, or remove the AAAA record. Bounces are delayed meanwhile.',
    ),
    ...unnamed,
  ];
}

const isAnswer = (greeting: Greeting, host: string, port: number): boolean =>
  greeting.kind === 'greeted' && (isOurs(greeting.line, host) || port !== SMTP_PORT);

/** Returns the cure if nothing listens on port 25 by any protocol, or null: then neither a firewall nor DNS is the cause. */
function cureOfListener({ server, config }: Needs): string | null {
  if (server.kind === 'missing') return `${server.cure} Bounces are delayed meanwhile.`;
  if (config.smtp.mx.port !== SMTP_PORT)
    return 'Let the program that has port 25 listen on IPv6 too, or remove the AAAA record; see the line of `mx`.';
  const isOpen = server.listeners().some(({ name, open }) => name === 'mx' && open !== null);
  return isOpen ? null : 'The port for bounces is not open at all: see the line of `listeners`.';
}

/** With `delivery.ipv6: always` the line of `name` says so, as mail then leaves from that address in any case. */
async function withoutName({ config, resolver }: Needs, host: string, ip: string): Promise<Verdict[]> {
  if (config.delivery.ipv6 !== 'auto') return [];
  const answer = await resolver.ptr(ip, { fresh: true });
  if (answer.kind === 'trouble') return [];
  const names = answer.kind === 'found' ? answer.records.map((one) => one.toLowerCase()) : [];
  if (names.includes(host)) return [];
  const found = names.length === 0 ? 'has no name (PTR record)' : `is called ${names.slice(0, 3).join(', ')}`;
  return [
    warning(
      `${ip} ${found}, so mail leaves over IPv4 only`,
      `Ask the provider of the address to set its reverse record (PTR) to ${host}; or remove the AAAA record, if IPv4 is enough.`,
    ),
  ];
}
