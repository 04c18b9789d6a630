/** Checks that the smarthosts of `delivery.routes` take our mail: with our passwords, which are sent by TLS, or without a login. */
import { isIP } from 'node:net';
import { plaintextPasswords } from '../../config/route.ts';
import type { Config } from '../../config/schema.ts';
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Probes, RelayAnswer } from './probes.ts';

type Smarthost = Extract<Config['delivery']['routes'][string], { kind: 'smarthost' }>;

/** The most that are tried, as each is a connection and a sign-in. */
const MOST = 10;

/** Returns no verdicts if there is no smarthost. */
export async function smarthosts(probes: Pick<Probes, 'config' | 'resolver' | 'network'>): Promise<readonly Verdict[]> {
  const { config, resolver, network } = probes;
  const { routes } = config.delivery;
  const warnings = plaintextPasswords(routes).map((text) =>
    warning(text, 'Use `tls: required`, or `implicit` on port 465; otherwise the password can be read on the way.'),
  );
  const all = smarthostsOf(routes);
  const tried = await Promise.all(
    all.map(({ route, isForAll }) =>
      route.auth === null
        ? withoutLogin(probes, route, isForAll)
        : signIn(resolver, network, { ...route, auth: route.auth }),
    ),
  );
  return [...warnings, ...tried.flat()];
}

/** Returns each host with each user and TLS mode once. */
function smarthostsOf(routes: Config['delivery']['routes']): { route: Smarthost; isForAll: boolean }[] {
  const found = new Map<string, { route: Smarthost; isForAll: boolean }>();
  for (const [domain, route] of Object.entries(routes)) {
    if (route.kind !== 'smarthost') continue;
    const key = `${route.host}:${String(route.port)} ${route.tls} ${route.auth?.user ?? ''}`;
    found.set(key, { route, isForAll: domain === '*' || found.get(key)?.isForAll === true });
  }
  return [...found.values()].slice(0, MOST);
}

/** A smarthost of all mail that cannot be reached is reported by the check of the way out. */
async function withoutLogin(
  { config, resolver, network }: Pick<Probes, 'config' | 'resolver' | 'network'>,
  { host, port, tls }: Smarthost,
  isForAll: boolean,
): Promise<Verdict[]> {
  const place = `the smarthost ${host}, port ${String(port)}`;
  const answer = isIP(host) > 0 ? null : await resolver.a(host, { fresh: true });
  const ip = answer === null ? host : answer.kind === 'found' ? answer.records[0] : undefined;
  const result: RelayAnswer =
    ip === undefined
      ? { kind: 'failed', why: 'it has no address in DNS' }
      : await network.offerMail({ ip, host, port, tls, hostname: config.smtp.hostname });
  switch (result.kind) {
    case 'taken':
      return [ok(`${place} takes mail from us without a login`)];
    case 'login_wanted':
      return [
        failed(
          `${place} does not take mail from us without a login: ${result.why}`,
          'Give the route a `user` and a `password` in `delivery.routes`, or have its operator let this address relay; until then all mail for it is deferred or bounces.',
        ),
      ];
    case 'failed':
      if (isForAll) return [];
      return [failed(`${place} cannot be used: ${result.why}`, `${cureOf(result.why)} Its mail waits meanwhile.`)];
  }
}

async function signIn(
  resolver: Probes['resolver'],
  network: Probes['network'],
  { host, port, tls, auth }: Smarthost & { auth: NonNullable<Smarthost['auth']> },
): Promise<Verdict> {
  const place = `${host}, port ${String(port)}`;
  const answer = isIP(host) > 0 ? null : await resolver.a(host, { fresh: true });
  const ip = answer === null ? host : answer.kind === 'found' ? answer.records[0] : undefined;
  if (ip === undefined)
    return failed(`the smarthost ${host} has no address in DNS`, 'Correct its host in `delivery.routes`.');
  const result = await network.signIn({ ip, host, port, tls, auth });
  switch (result.kind) {
    case 'signed_in':
      return ok(`the smarthost ${place} takes the password of ${auth.user}`);
    case 'refused':
      return failed(
        `the smarthost ${place} refuses the password of ${auth.user}: ${result.why}`,
        'Correct `user` and `password` in `delivery.routes`; until then all mail for it is deferred.',
      );
    case 'failed':
      return failed(
        `we cannot sign in at the smarthost ${place}: ${result.why}`,
        `${cureOf(result.why)} Its mail waits meanwhile.`,
      );
  }
}

/** Returns the cure of a connection that could not be used; the words of TLS are those of net/tls-fault.ts. */
function cureOf(why: string): string {
  if (why.includes('does not speak TLS'))
    return 'Set `tls` of the route as the port wants it: `implicit` is for port 465, `required` (STARTTLS) for 587 and 25.';
  if (/STARTTLS/i.test(why))
    return 'It offers no STARTTLS here: use its port for it (587), or `tls: implicit` with port 465.';
  if (why.startsWith('TLS failed') || /certificate/i.test(why))
    return 'Ask its operator to mend its TLS: a valid certificate for the name in the route, and TLS 1.2 or newer.';
  return 'Is it running, does its firewall let this machine in, and is its port right in `delivery.routes`?';
}
