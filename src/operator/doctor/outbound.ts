/** Checks that this machine reaches mail hosts and that bounces reach it: DNS, outbound port 25 or smarthosts, the ports for mail, and a bounce to itself. */
import { isIP, isIPv4 } from 'node:net';
import { parseEndpoint } from '../../config/endpoint.ts';
import { plaintextPasswords } from '../../config/route.ts';
import type { Config } from '../../config/schema.ts';
import {
  failed,
  ok,
  warning,
  type Check,
  type Greeting,
  type Probes,
  type RelayAnswer,
  type Smarthost,
  type Verdict,
} from './probes.ts';
import type { DnsAnswer } from '../../net/resolver.ts';
import { isPublicAddress } from '../../net/ip.ts';
import type { MailPortState } from '../../inbound/mail-port.ts';

/** Returns the mail host of the settings, which is tried for all others. */
function mailHostOf({ mailHost }: Config['doctor']): { host: string; port: number } {
  const { host, port } = parseEndpoint(mailHost) ?? { host: mailHost, port: null };
  return { host, port: port ?? 25 };
}

export async function* outbound(probes: Probes): Check {
  const well = yield* mailHost(probes);
  yield* smarthosts(probes);
  return well;
}

/** Returns no verdict if a smarthost takes all mail: its own line is about the way out then. */
async function* mailHost({ config, resolver, network }: Probes): Check {
  const kind = config.delivery.routes['*']?.kind;
  if (kind === 'smarthost') return undefined;
  if (kind === 'hold' || kind === 'discard') return 'delivery.routes keeps all mail here, so no mail host is dialled';
  const { host, port } = mailHostOf(config.doctor);
  const found = await addressOf(resolver, 'a', host);
  if (found.trouble !== null) return yield failed(`${host} cannot be looked up: ${found.trouble}`, LOOK_UP_CURE);
  if (found.ip === null) return yield failed(`${host} has no address in DNS`, TARGET_CURE);
  return yield judged(await network.greet({ ip: found.ip, port }), `${host} (${found.ip}), port ${String(port)}`);
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

/** The most smarthosts that are tried, as each is a connection and a sign-in. */
const MOST = 10;

async function* smarthosts(probes: Probes): AsyncGenerator<Verdict> {
  const { routes } = probes.config.delivery;
  const all = smarthostsOf(routes);
  yield* await Promise.all(all.slice(0, MOST).map((one) => tryOut(probes, one)));
  for (const text of plaintextPasswords(routes))
    yield warning(
      text,
      'Use `tls: required`, or `implicit` on port 465; otherwise the password can be read on the way.',
    );
  if (all.length > MOST)
    yield warning(
      `only the first ${String(MOST)} of ${String(all.length)} smarthosts and logins were tried`,
      'What the others answer to mail is in the column of reasons: posthorn queue lanes',
    );
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

export async function* resolver({ config, resolver: dns, clock }: Probes): Check {
  const begun = clock.monotonic();
  const [invented, host] = await Promise.all([
    dns.a(NO_NAME, { fresh: true }),
    dns.a(mailHostOf(config.doctor).host, { fresh: true }),
  ]);
  const ms = Math.round(clock.monotonic() - begun);
  const trouble = [invented, host].find((answer) => answer.kind === 'trouble');
  if (trouble !== undefined)
    return yield needsDns(config.delivery.routes['*'])
      ? failed(`DNS does not answer: ${trouble.text}`, CURE)
      : warning(`DNS does not answer: ${trouble.text}; \`delivery.routes\` sends all mail without it`, CLOSED_CURE);
  if (invented.kind !== 'no_domain')
    yield failed(
      `DNS invents answers: it has one for ${NO_NAME}, a name that cannot exist`,
      `Mail to mistyped domains would wait for days instead of bouncing. ${CURE}`,
    );
  if (ms > SLOW_MS) yield warning(`DNS takes ${String(ms)} ms to answer`, CURE);
  return `DNS answers in ${String(ms)} ms`;
}

const VALIDATOR_CURE =
  'Run a validating resolver on this machine (unbound with its root key) and name it in `delivery.dnsServers`, or set `delivery.dnssecResolver: false`.';

/** DANE rests on a resolver that validates: it marks signed answers, and gives none from a zone whose signatures are wrong. */
export async function* dnssec({ config, resolver: dns, wantsDnssec }: Probes): Check {
  if (!config.delivery.dnssecResolver && !wantsDnssec) return 'not counted on: `delivery.dnssecResolver` is off';
  const { signedZone, brokenZone } = config.doctor;
  const [signed, broken] = await Promise.all([anyOf(dns, signedZone), anyOf(dns, brokenZone)]);
  const say = config.delivery.dnssecResolver ? failed : warning;
  if (signed.kind === 'trouble')
    return yield say(`${signedZone}, a signed zone, cannot be looked up: ${signed.text}`, VALIDATOR_CURE);
  if (signed.kind !== 'found' || !signed.secure)
    yield say(`the answer for ${signedZone}, a signed zone, does not come back as validated (AD bit)`, VALIDATOR_CURE);
  if (broken.kind !== 'trouble')
    yield say(`DNS answers for ${brokenZone}, whose signatures are wrong, as if nothing were`, VALIDATOR_CURE);
  return `DNS validates: ${signedZone} is marked as secure, ${brokenZone} is refused`;
}

const anyOf = (dns: Probes['resolver'], zone: string): Promise<DnsAnswer<string>> => dns.a(zone, { fresh: true });

const SMTP_PORT = 25;

export async function* mx(probes: Probes): Check {
  const { config, resolver, network, machine } = probes;
  const host = config.smtp.hostname;
  const answer = await resolver.a(host, { fresh: true });
  if (answer.kind === 'trouble')
    return yield warning(`${host} cannot be looked up: ${answer.text}`, 'See the line of `resolver`.');
  const [ip] = answer.kind === 'found' ? answer.records : [];
  if (ip === undefined)
    return yield failed(
      `bounces have nowhere to go: ${host} has no address`,
      `Publish an A record for ${host}; see the line of \`name\`.`,
    );
  const greeting = await network.greet({ ip, port: SMTP_PORT });
  const own = machine.addresses();
  const isElsewhere = !own.includes(ip) && own.some((one) => isIPv4(one) && isPublicAddress(one));
  // The machine of before may still answer by our name.
  if (isElsewhere && (greeting.kind !== 'greeted' || isOurs(greeting.line, host)))
    return yield warning(
      `${host} leads to ${ip}, which is not an address of this machine: bounces go there`,
      'See the line of `name`. If port 25 is forwarded from there to this machine, nothing needs to be done.',
    );
  const { port } = config.smtp.mx;
  if (greeting.kind === 'greeted' && !isOurs(greeting.line, host) && port !== SMTP_PORT)
    return yield await handedOver(probes, ip, greeting.line);
  // Without a server the port of the settings may be another than that of the service, which may have other rights.
  if (greeting.kind !== 'greeted' && probes.server.kind === 'missing')
    return yield warning(`port 25 of ${host} (${ip}) does not answer: ${probes.server.why}`, probes.server.cure);
  return yield judgedGreeting(greeting, config, ip, own.includes(ip));
}

function judgedGreeting(greeting: Greeting, config: Probes['config'], ip: string, isHere: boolean): Verdict {
  const { hostname, mx: listener } = config.smtp;
  const place = `port 25 of ${hostname} (${ip})`;
  if (greeting.kind === 'greeted') {
    if (isOurs(greeting.line, hostname)) return ok(`${place} is answered by us`);
    return failed(
      `${place} is answered by another program: ${greeting.line}`,
      'Bounces go astray. Stop that program, or see docs/beside-postfix.md: a name and an address of its own for Posthorn (`smtp.hostname`, `smtp.mx.host`), or a port that the program hands bounces over to.',
    );
  }
  const why = `${place} cannot be reached from here: ${greeting.why}`;
  if (listener.port !== SMTP_PORT)
    return warning(
      `${why}; we listen on port ${String(listener.port)}`,
      `Let the service bind port 25 (systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE), or have port 25 forwarded to ${String(listener.port)}.`,
    );
  if (isHere)
    return failed(
      why,
      'See the line of `listeners`, and open inbound TCP port 25 in the firewall: without it no bounce is heard.',
    );
  return warning(
    why,
    'Some routers refuse connections from the inside to their own public address: test from another network, and open inbound TCP port 25 if it is closed there too.',
  );
}

/** Returns whether the greeting is our listener's: another program on this machine often greets with the same name. */
const isOurs = (line: string, hostname: string): boolean =>
  /^220[ -](\S+)/.exec(line)?.[1]?.toLowerCase() === hostname && /\bPosthorn\b/.test(line);

const HAND_OVER =
  'Let it hand mail to the return-path domains over, as docs/beside-postfix.md says: bounces go astray meanwhile.';

/** Another program has port 25, and our listener another port: a bounce through that program shows whether it hands them over. */
async function handedOver({ config, server, store }: Probes, ip: string, line: string): Promise<Verdict> {
  const { hostname, mx: listener } = config.smtp;
  const what = `port 25 of ${hostname} (${ip}) is answered by another program (${line})`;
  const ours = `we listen on port ${String(listener.port)}`;
  if (server.kind === 'missing') return warning(`${what}; ${ours}, and ${server.why}`, server.cure);
  const [domain] = store.kind === 'store' ? await store.domains(1) : [];
  if (domain === undefined)
    return warning(`${what}; ${ours}. Without a sending domain a bounce cannot be sent through it`, HAND_OVER);
  const { return_path: returnPath } = domain.row;
  const test = await server.selfTest({ host: ip, port: SMTP_PORT, domain: returnPath });
  if (test.ok)
    return ok(`${what}, which hands bounces to ${returnPath} over to us: one took ${String(Math.round(test.ms))} ms`);
  return failed(`${what}, which does not hand bounces over: ${test.why ?? 'no reason is given'}`, HAND_OVER);
}

/** Checks whether the running server recognises a bounce. */
export async function* bounce({ server, config }: Probes): Check {
  if (server.kind === 'missing') return yield warning(`not tried: ${server.why}`, server.cure);
  if (server.listeners().every(({ name, open }) => name !== 'mx' || open === null))
    return yield failed('there is no listener that could hear a bounce', 'See the line of `listeners`.');
  const test = await server.selfTest();
  if (test.ok) return `a bounce sent to ourselves was recognised after ${String(Math.round(test.ms))} ms`;
  const why = test.why ?? 'no reason is given';
  return yield failed(`a bounce sent to ourselves was not recognised: ${why}`, cureOfBounce(why, config.smtp.hostname));
}

/** Our own listener gave the reply in `why`, and its codes have one meaning each. */
function cureOfBounce(why: string, hostname: string): string {
  if (!hostname.includes('.'))
    return `No mail can have an address at ${hostname}, which has no dot. Set \`smtp.hostname\`; see the line of \`name\`.`;
  if (/\b452\b/.test(why)) return 'There is no room for mail that comes back: see the line of `disk`.';
  if (/\b(?:421|4\.7\.\d)\b/.test(why))
    return 'Too many others use port 25 at the moment: ask again later. The metric posthorn_budget_used_up_total says which budget.';
  if (why.includes('not delivered within'))
    return 'The delivery engine is busy or stands: see posthorn queue lanes, and the line of `disk`.';
  return 'The log says more (event `reports_failed`, `report_unreadable`, `received_failed` or `smtp_failed`); a restart also restarts the reader of reports.';
}

const WORDS: Readonly<Record<MailPortState['name'], { takes: string; setting: string }>> = {
  mx: { takes: 'bounces', setting: 'smtp.mx.port' },
  submission: { takes: 'submission', setting: 'smtp.submission.port' },
  submissions: { takes: 'submission by TLS', setting: 'smtp.submission.tlsPort' },
};

export async function* listeners({ server }: Probes): Check {
  if (server.kind === 'missing') return yield warning(`not looked at: ${server.why}`, server.cure);
  const all = server.listeners();
  for (const { name, open, port, fault } of all) {
    if (open !== null) continue;
    const { takes, setting } = WORDS[name];
    const place = `the port for ${takes}, ${String(port)},`;
    if (fault === null) yield warning(`${place} is not open yet`, 'Ask again when the start is over.');
    else if (fault.code === 'EACCES')
      yield failed(
        `${place} may not be listened on by this user`,
        `Run it as the systemd service, give it CAP_NET_BIND_SERVICE, or choose a port from 1024 up with \`${setting}\`.`,
      );
    else
      yield failed(
        `${place} is in use by another program`,
        `Stop that program (ss -ltnp 'sport = :${String(port)}' shows it): the port is tried again every minute. Or let both run: choose another port with \`${setting}\`, as docs/beside-postfix.md says.`,
      );
  }
  return all
    .map(
      ({ name, host, open }) => `${WORDS[name].takes} ${String(open)}${isLoopback(host) ? ' (this machine only)' : ''}`,
    )
    .join(', ');
}

export const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || host.startsWith('127.');
