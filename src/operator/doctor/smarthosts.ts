/** Checks that the smarthosts of `delivery.routes` accept our passwords, and that the passwords are sent by TLS. */
import { isIP } from 'node:net';
import { plaintextPasswords } from '../../config/route.ts';
import type { Config } from '../../config/schema.ts';
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

type Smarthost = Extract<Config['delivery']['routes'][string], { kind: 'smarthost' }>;

/** The most that are tried, as each is a connection and a sign-in. */
const MOST = 10;

/** Returns no verdicts if no route has a password. */
export async function smarthosts({
  config,
  resolver,
  network,
}: Pick<Probes, 'config' | 'resolver' | 'network'>): Promise<readonly Verdict[]> {
  const { routes } = config.delivery;
  const warnings = plaintextPasswords(routes).map((text) =>
    warning(text, 'Use `tls: required`, or `implicit` on port 465; otherwise the password can be read on the way.'),
  );
  const tried = await Promise.all(withPassword(routes).map((route) => signIn(resolver, network, route)));
  return [...warnings, ...tried];
}

/** Returns each host and user once. */
function withPassword(routes: Config['delivery']['routes']): (Smarthost & { auth: NonNullable<Smarthost['auth']> })[] {
  const found = new Map<string, Smarthost & { auth: NonNullable<Smarthost['auth']> }>();
  for (const route of Object.values(routes)) {
    if (route.kind !== 'smarthost' || route.auth === null) continue;
    found.set(`${route.host}:${String(route.port)} ${route.auth.user}`, { ...route, auth: route.auth });
  }
  return [...found.values()].slice(0, MOST);
}

async function signIn(
  resolver: Probes['resolver'],
  network: Probes['network'],
  { host, port, tls, auth }: ReturnType<typeof withPassword>[number],
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
        'Is it running, does its firewall let this machine in, and does it speak TLS as the route says?',
      );
  }
}
