/** Checks that this machine reaches mail hosts, or the smarthosts of `delivery.routes`. Many providers close outbound port 25 until a customer asks. */
import { isIP } from 'node:net';
import { parseEndpoint } from '../../config/endpoint.ts';
import { plaintextPasswords } from '../../config/route.ts';
import type { Config } from '../../config/schema.ts';
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Greeting, Probes, RelayAnswer } from './probes.ts';

/** Returns the mail host of the settings, which is tried for all others. */
export function mailHostOf({ mailHost }: Config['doctor']): { host: string; port: number } {
  const { host, port } = parseEndpoint(mailHost) ?? { host: mailHost, port: null };
  return { host, port: port ?? 25 };
}

export async function outbound(probes: Probes): Promise<readonly Verdict[]> {
  return [...(await mailHost(probes)), ...(await smarthosts(probes))];
}

/** Returns no verdict if a smarthost takes all mail: its own line is about the way out then. */
async function mailHost({ config, resolver, network }: Probes): Promise<readonly Verdict[]> {
  const kind = config.delivery.routes['*']?.kind;
  if (kind === 'smarthost') return [];
  if (kind === 'hold' || kind === 'discard')
    return [ok('delivery.routes keeps all mail here, so no mail host is dialled')];
  const { host, port } = mailHostOf(config.doctor);
  const found = await addressOf(resolver, 'a', host);
  if (found.trouble !== null) return [failed(`${host} cannot be looked up: ${found.trouble}`, LOOK_UP_CURE)];
  if (found.ip === null) return [failed(`${host} has no address in DNS`, TARGET_CURE)];
  return [judged(await network.greet({ ip: found.ip, port }), `${host} (${found.ip}), port ${String(port)}`)];
}

const LOOK_UP_CURE =
  'See the line of `resolver`. A machine without a network cannot deliver: mail waits, and goes when it can.';
const TARGET_CURE =
  'Is this machine offline, or its DNS that of a closed network? There set `doctor.mailHost` to a mail host of that network.';
const BLOCKED_CURE =
  "Have the provider or firewall open outbound TCP port 25, or send through a smarthost: delivery.routes: {'*': 'smarthost.example.com:587'}.";
const ITS_WORDS =
  'Its words say why; often the address of this machine is on a block list or has no name (see `name` and `blocklists`).';

/** Returns the first address, or the error of DNS. */
async function addressOf(
  resolver: Probes['resolver'],
  type: 'a' | 'aaaa',
  host: string,
): Promise<{ ip: string | null; trouble: string | null }> {
  if (isIP(host) > 0) return { ip: host, trouble: null };
  const answer = await resolver[type](host, { fresh: true });
  return {
    ip: answer.kind === 'found' ? (answer.records[0] ?? null) : null,
    trouble: answer.kind === 'trouble' ? answer.text : null,
  };
}

function judged(greeting: Greeting, place: string): Verdict {
  switch (greeting.kind) {
    case 'greeted':
      if (/^220[ -]/.test(greeting.line)) return ok(`${place} greets after ${String(Math.round(greeting.ms))} ms`);
      if (/^[45]\d\d[ -]/.test(greeting.line))
        return warning(`${place} was reached, but refuses us: ${greeting.line}`, ITS_WORDS);
      return failed(`what answers at ${place} is not a mail host: ${greeting.line}`, BLOCKED_CURE);
    case 'silent':
      return failed(`${place} does not answer: ${greeting.why}`, BLOCKED_CURE);
    case 'refused':
    case 'unreachable':
      return failed(`${place} cannot be reached: ${greeting.why}`, BLOCKED_CURE);
  }
}

type Smarthost = Extract<Config['delivery']['routes'][string], { kind: 'smarthost' }>;

/** The most smarthosts that are tried, as each is a connection and a sign-in. */
const MOST = 10;

async function smarthosts(probes: Probes): Promise<readonly Verdict[]> {
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

async function tryOut({ config, network, resolver }: Probes, { route, domains }: Tried): Promise<Verdict> {
  const { host, port, auth } = route;
  const { ip, trouble } = await addressOf(resolver, config.delivery.ipv6 === 'always' ? 'aaaa' : 'a', host);
  if (trouble !== null)
    return failed(
      `the smarthost ${host} cannot be looked up: ${trouble}`,
      'See the line of `resolver`. Its mail waits meanwhile.',
    );
  if (ip === null)
    return failed(`the smarthost ${host} has no address in DNS`, 'Correct its host in `delivery.routes`.');
  const answer = await network.tryRelay({ ...route, ip, hostname: config.smtp.hostname });
  const place = `the smarthost ${host}, port ${String(port)},`;
  return auth === null ? ofHello(place, answer) : ofSignIn(place, `${auth.user} (${routesText(domains)})`, answer);
}

const routesText = ([first = '', ...more]: readonly string[]): string =>
  more.length === 0 ? `route ${first}` : `route ${first} and ${String(more.length)} more`;

/** Only a mail shows whether a host relays without a login. */
function ofHello(place: string, result: RelayAnswer): Verdict {
  switch (result.kind) {
    case 'ready':
      return ok(`${place} answers; posthorn queue lanes shows what it says to mail without a login`);
    case 'unreachable':
      return unusable(`${place} cannot be reached`, result.why);
    case 'refused':
    case 'failed':
      return unusable(`${place} cannot be used`, result.why);
  }
}

function ofSignIn(place: string, login: string, result: RelayAnswer): Verdict {
  switch (result.kind) {
    case 'ready':
      return ok(`${place} takes the password of ${login}`);
    case 'refused':
      return failed(
        `${place} refuses the password of ${login}: ${result.why}`,
        'Correct `user` and `password` in `delivery.routes`, or use its port for mail with a login (587, or 465 with `tls: implicit`); until then all mail for it is deferred.',
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
  if (why.includes('does not speak TLS'))
    return 'Set `tls` of the route as the port wants it: `implicit` is for port 465, `required` (STARTTLS) for 587 and 25.';
  if (/STARTTLS/i.test(why))
    return 'It offers no STARTTLS here: use its port for it (587), or `tls: implicit` with port 465.';
  if (why.startsWith('TLS failed') || /certificate/i.test(why))
    return 'Ask its operator for TLS that works: a valid certificate for the name in the route, and TLS 1.2 or newer.';
  if (/^[45]\d\d /.test(why)) return ITS_WORDS;
  return 'Is the smarthost running, does its firewall let this machine in, and is its port right in `delivery.routes`?';
}
