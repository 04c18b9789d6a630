/** Checks that bounces reach us, on port 25 of our own name, which the return paths' MX records name. */
import { isIPv4 } from 'node:net';
import { isPublicAddress } from '../../net/ip.ts';
import { failed, ok, warning, type Check, type Greeting, type Probes, type Verdict } from './probes.ts';
import type { MailPortState } from '../../inbound/mail-port.ts';

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
  return yield judged(greeting, config, ip, own.includes(ip));
}

function judged(greeting: Greeting, config: Probes['config'], ip: string, isHere: boolean): Verdict {
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
