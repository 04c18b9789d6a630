/** Checks that the smarthosts of `delivery.routes` take our mail: with our passwords, which are sent by TLS, or without a login. */
import { isIP } from 'node:net';
import { plaintextPasswords } from '../../config/route.ts';
import type { Config } from '../../config/schema.ts';
import { namedIpv6Address } from '../../net/named-ipv6.ts';
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Probes, RelayAnswer, SignIn, SmarthostPlace } from './probes.ts';

type Needs = Pick<Probes, 'config' | 'resolver' | 'network' | 'machine'>;
type Smarthost = Extract<Config['delivery']['routes'][string], { kind: 'smarthost' }>;

/** The most that are tried, as each is a connection and a sign-in. */
const MOST = 10;

/** Returns no verdicts if there is no smarthost. */
export async function smarthosts(probes: Needs): Promise<readonly Verdict[]> {
  const { routes } = probes.config.delivery;
  const warnings = plaintextPasswords(routes).map((text) =>
    warning(text, 'Use `tls: required`, or `implicit` on port 465; otherwise the password can be read on the way.'),
  );
  const all = smarthostsOf(routes);
  const tried = await Promise.all(all.slice(0, MOST).map((one) => tryOut(probes, one)));
  if (all.length > MOST)
    warnings.push(
      warning(
        `only the first ${String(MOST)} of ${String(all.length)} smarthosts and logins were tried`,
        'What the others answer to mail is in the column of reasons: posthorn queue lanes',
      ),
    );
  return [...tried, ...warnings];
}

interface Tried {
  route: Smarthost;
  /** The recipients' domains whose mail it takes. */
  domains: string[];
}

/** Returns each host with each login and TLS mode once, that of all mail first. */
function smarthostsOf(routes: Config['delivery']['routes']): Tried[] {
  const found = new Map<string, Tried>();
  const entries = Object.entries(routes).sort(([a], [b]) => Number(b === '*') - Number(a === '*'));
  for (const [domain, route] of entries) {
    if (route.kind !== 'smarthost') continue;
    const key = JSON.stringify([route.host, route.port, route.tls, route.auth]);
    const known = found.get(key);
    if (known === undefined) found.set(key, { route, domains: [domain] });
    else known.domains.push(domain);
  }
  return [...found.values()];
}

async function tryOut(probes: Needs, { route, domains }: Tried): Promise<Verdict> {
  const { host, port, tls, auth } = route;
  const { network, config } = probes;
  const ips = await addressesOf(probes, host);
  if (typeof ips === 'string')
    return failed(
      `the smarthost ${host} cannot be looked up: ${ips}`,
      'See the line of `resolver`. Its mail waits meanwhile.',
    );
  if (ips.length === 0)
    return failed(`the smarthost ${host} has no address in DNS`, 'Correct its host in `delivery.routes`.');
  const at: SmarthostPlace = { ips, host, port, tls, hostname: config.smtp.hostname };
  const place = `the smarthost ${host}, port ${String(port)},`;
  if (auth === null) return ofOffer(place, await network.offerMail(at));
  return ofSignIn(place, `${auth.user} (${routesText(domains)})`, await network.signIn({ ...at, auth }));
}

const routesText = ([first = '', ...more]: readonly string[]): string =>
  more.length === 0 ? `route ${first}` : `route ${first} and ${String(more.length)} more`;

/** Returns the addresses that the delivery dials, or the error of DNS. */
async function addressesOf({ config, resolver, machine }: Needs, host: string): Promise<readonly string[] | string> {
  if (isIP(host) > 0) return [host];
  const { ipv6, sources } = config.delivery;
  const own = [...machine.addresses(), ...sources.flatMap((source) => source.ipv6 ?? [])];
  const usesIpv6 =
    ipv6 === 'always' || (ipv6 === 'auto' && (await namedIpv6Address({ resolver }, own)).address !== null);
  const answers = await Promise.all([
    ...(usesIpv6 ? [resolver.aaaa(host, { fresh: true })] : []),
    resolver.a(host, { fresh: true }),
  ]);
  const ips = answers.flatMap((answer) => (answer.kind === 'found' ? answer.records : []));
  const trouble = answers.find((answer) => answer.kind === 'trouble');
  return ips.length === 0 && trouble !== undefined ? trouble.text : ips;
}

function ofOffer(place: string, result: RelayAnswer): Verdict {
  switch (result.kind) {
    case 'taken':
      return ok(`${place} takes mail from us without a login`);
    case 'login_wanted':
      return failed(
        `${place} does not take mail from us without a login: ${result.why}`,
        'Give the route a `user` and a `password` in `delivery.routes`, or have its operator let this address relay; until then all mail for it is deferred or bounces.',
      );
    case 'refused':
      return warning(
        `${place} was reached, but did not take a mail from and to our postmaster: ${result.why}`,
        'Its words say why. If it takes the mail of your domains all the same, there is nothing to do: posthorn queue lanes shows what it answers.',
      );
    case 'unreachable':
      return unusable(`${place} cannot be reached`, result.why);
    case 'failed':
      return unusable(`${place} cannot be used`, result.why);
  }
}

function ofSignIn(place: string, login: string, result: SignIn): Verdict {
  switch (result.kind) {
    case 'signed_in':
      return ok(`${place} takes the password of ${login}`);
    case 'refused':
      return failed(
        `${place} refuses the password of ${login}: ${result.why}`,
        'Correct `user` and `password` in `delivery.routes`; until then all mail for it is deferred.',
      );
    case 'unreachable':
      return unusable(`${place} cannot be reached`, result.why);
    case 'failed':
      return unusable(`${place} does not let ${login} sign in`, result.why);
  }
}

const unusable = (what: string, why: string): Verdict =>
  failed(`${what}: ${why}`, `${cureOf(why)} Its mail waits meanwhile.`);

/** Returns the cure of a connection that could not be used; the words of TLS are those of net/tls-fault.ts. */
function cureOf(why: string): string {
  if (why.includes('neither AUTH PLAIN'))
    return 'Use its port for mail with a login (587, or 465 with `tls: implicit`); or remove `user` and `password` from the route if it lets this address relay without.';
  if (why.includes('does not speak TLS'))
    return 'Set `tls` of the route as the port wants it: `implicit` is for port 465, `required` (STARTTLS) for 587 and 25.';
  if (/STARTTLS/i.test(why))
    return 'It offers no STARTTLS here: use its port for it (587), or `tls: implicit` with port 465.';
  if (why.startsWith('TLS failed') || /certificate/i.test(why))
    return 'Ask its operator for TLS that works: a valid certificate for the name in the route, and TLS 1.2 or newer.';
  if (/^[45]\d\d /.test(why))
    return 'Its words say why; often the address of this machine is on a block list or has no name (see `name` and `blocklists`).';
  return 'Is the smarthost running, does its firewall let this machine in, and is its port right in `delivery.routes`?';
}
