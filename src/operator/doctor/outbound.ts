/** Checks that this machine reaches mail hosts. Many providers close outbound port 25 until a customer asks. */
import { isIP } from 'node:net';
import { parseEndpoint } from '../../config/endpoint.ts';
import type { Config } from '../../config/schema.ts';
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Greeting, Probes } from './probes.ts';

/** Returns the mail host of the settings, which is tried for all others. */
export function mailHostOf({ mailHost }: Config['doctor']): { host: string; port: number } {
  const { host, port } = parseEndpoint(mailHost) ?? { host: mailHost, port: null };
  return { host, port: port ?? 25 };
}

/** Returns no verdict if a smarthost takes all mail: the lines of smarthosts.ts are about the way out then. */
export async function outbound({
  config,
  resolver,
  network,
}: Pick<Probes, 'config' | 'resolver' | 'network'>): Promise<readonly Verdict[]> {
  const kind = config.delivery.routes['*']?.kind;
  if (kind === 'smarthost') return [];
  if (kind === 'hold' || kind === 'discard')
    return [ok('delivery.routes keeps all mail here, so no mail host is dialled')];
  const { host, port } = mailHostOf(config.doctor);
  const ips = isIP(host) > 0 ? [host] : await addressesOf(resolver, host);
  if (typeof ips === 'string') return [failed(`${host} cannot be looked up: ${ips}`, LOOK_UP_CURE)];
  const [ip] = ips;
  if (ip === undefined) return [failed(`${host} has no address in DNS`, TARGET_CURE)];
  return [judged(await network.greet({ ip, port }), `${host} (${ip}), port ${String(port)}`)];
}

const LOOK_UP_CURE =
  'See the line of `resolver`. A machine without a network cannot deliver: mail waits, and goes when it can.';
const TARGET_CURE =
  'Is this machine offline, or its DNS that of a closed network? There set `doctor.mailHost` to a mail host of that network.';
const BLOCKED_CURE =
  "Have the provider or firewall open outbound TCP port 25, or send through a smarthost: delivery.routes: {'*': 'smarthost.example.com:587'}.";

/** Returns the addresses, or the error of DNS. */
async function addressesOf(resolver: Probes['resolver'], host: string): Promise<readonly string[] | string> {
  const answer = await resolver.a(host, { fresh: true });
  if (answer.kind === 'trouble') return answer.text;
  return answer.kind === 'found' ? answer.records : [];
}

function judged(greeting: Greeting, place: string): Verdict {
  switch (greeting.kind) {
    case 'greeted':
      if (/^220[ -]/.test(greeting.line)) return ok(`${place} greets after ${String(Math.round(greeting.ms))} ms`);
      if (/^[45]\d\d[ -]/.test(greeting.line))
        return warning(
          `${place} was reached, but refuses us: ${greeting.line}`,
          'Its words say why; often the address of this machine is on a block list or has no name (see `name` and `blocklists`).',
        );
      return failed(`what answers at ${place} is not a mail host: ${greeting.line}`, BLOCKED_CURE);
    case 'silent':
      return failed(`${place} does not answer: ${greeting.why}`, BLOCKED_CURE);
    case 'refused':
    case 'unreachable':
      return failed(`${place} cannot be reached: ${greeting.why}`, BLOCKED_CURE);
  }
}
