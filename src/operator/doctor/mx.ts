/** Checks that bounces reach us, on port 25 of our own name, which the return paths' MX records name. */
import { failed, ok, warning, type Verdict } from './finding.ts';
import type { Greeting, Probes } from './probes.ts';

type Needs = Pick<Probes, 'config' | 'resolver' | 'machine' | 'network'>;

const SMTP_PORT = 25;

export async function mx(probes: Needs): Promise<Verdict> {
  const { config, resolver, network, machine } = probes;
  const host = config.smtp.hostname;
  const answer = await resolver.a(host, { fresh: true });
  if (answer.kind === 'trouble')
    return warning(`${host} cannot be looked up: ${answer.text}`, 'See the line of `resolver`.');
  const [ip] = answer.kind === 'found' ? answer.records : [];
  if (ip === undefined)
    return failed(
      `bounces have nowhere to go: ${host} has no address`,
      `Publish an A record for ${host}; see the line of \`name\`.`,
    );
  return judged(await network.greet({ ip, port: SMTP_PORT }), config, ip, machine.addresses().includes(ip));
}

function judged(greeting: Greeting, config: Probes['config'], ip: string, isHere: boolean): Verdict {
  const { hostname, mx: listener } = config.smtp;
  const place = `port 25 of ${hostname} (${ip})`;
  if (greeting.kind === 'greeted') {
    const [, greeter = ''] = /^220[ -](\S+)/.exec(greeting.line) ?? [];
    if (greeter.toLowerCase() === hostname) return ok(`${place} is answered by us`);
    return failed(
      `${place} is answered by another program: ${greeting.line}`,
      'Bounces go astray. Stop that program, or give Posthorn a name and an address of its own (`smtp.hostname`, `smtp.mx.host`).',
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
    'Some routers let nobody reach their own outside from within: try from elsewhere, and open inbound TCP port 25 if it is closed there too.',
  );
}
