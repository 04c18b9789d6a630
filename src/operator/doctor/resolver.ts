/** Checks that DNS answers, does not invent answers, and validates if settings need that. */
import { isIP } from 'node:net';
import type { DnsAnswer } from '../../net/resolver.ts';
import type { Config } from '../../config/schema.ts';
import { failed, ok, orWell, warning, type Verdict } from './finding.ts';
import { mailHostOf } from './outbound.ts';
import type { Probes } from './probes.ts';

/** RFC 6761 section 6.4: no name can exist there. */
const NO_NAME = 'posthorn-doctor.invalid';
const SLOW_MS = 1000;

const CURE =
  'Check /etc/resolv.conf or set `delivery.dnsServers`; a resolver on this machine (unbound) is best for mail.';

const CLOSED_CURE =
  'Nothing to do on a closed network; DNS records of domains cannot be checked there (posthorn domains add NAME --trust).';

/** Returns false if the route of all mail needs no DNS, such as a smarthost with an address. */
function needsDns(all: Config['delivery']['routes'][string] | undefined): boolean {
  return all === undefined || all.kind === 'mx' || (all.kind === 'smarthost' && isIP(all.host) === 0);
}

export async function resolver({ config, resolver: dns, clock }: Probes): Promise<readonly Verdict[]> {
  const begun = clock.monotonic();
  const [invented, host] = await Promise.all([
    dns.a(NO_NAME, { fresh: true }),
    dns.a(mailHostOf(config.doctor).host, { fresh: true }),
  ]);
  const ms = Math.round(clock.monotonic() - begun);
  const trouble = [invented, host].find((answer) => answer.kind === 'trouble');
  if (trouble !== undefined)
    return [
      needsDns(config.delivery.routes['*'])
        ? failed(`DNS does not answer: ${trouble.text}`, CURE)
        : warning(`DNS does not answer: ${trouble.text}; \`delivery.routes\` sends all mail without it`, CLOSED_CURE),
    ];
  const faults: Verdict[] = [];
  if (invented.kind !== 'no_domain')
    faults.push(
      failed(
        `DNS invents answers: it has one for ${NO_NAME}, a name that cannot exist`,
        `Mail to mistyped domains would wait for days instead of bouncing. ${CURE}`,
      ),
    );
  if (ms > SLOW_MS) faults.push(warning(`DNS takes ${String(ms)} ms to answer`, CURE));
  return orWell(faults, `DNS answers in ${String(ms)} ms`);
}

const VALIDATOR_CURE =
  'Run a validating resolver on this machine (unbound with its root key) and name it in `delivery.dnsServers`, or set `delivery.dnssecResolver: false`.';

/** DANE rests on a resolver that validates: it marks signed answers, and gives none from a zone whose signatures are wrong. */
export async function dnssec({ config, resolver: dns, wantsDnssec }: Probes): Promise<readonly Verdict[]> {
  if (!config.delivery.dnssecResolver && !wantsDnssec) return [ok('not counted on: `delivery.dnssecResolver` is off')];
  const { signedZone, brokenZone } = config.doctor;
  const [signed, broken] = await Promise.all([anyOf(dns, signedZone), anyOf(dns, brokenZone)]);
  const say = config.delivery.dnssecResolver ? failed : warning;
  if (signed.kind === 'trouble')
    return [say(`${signedZone}, a signed zone, cannot be looked up: ${signed.text}`, VALIDATOR_CURE)];
  const faults: Verdict[] = [];
  if (signed.kind !== 'found' || !signed.secure)
    faults.push(
      say(`the answer for ${signedZone}, a signed zone, does not come back as validated (AD bit)`, VALIDATOR_CURE),
    );
  if (broken.kind !== 'trouble')
    faults.push(say(`DNS answers for ${brokenZone}, whose signatures are wrong, as if nothing were`, VALIDATOR_CURE));
  return orWell(faults, `DNS validates: ${signedZone} is marked as secure, ${brokenZone} is refused`);
}

const anyOf = (dns: Probes['resolver'], zone: string): Promise<DnsAnswer<string>> => dns.a(zone, { fresh: true });
