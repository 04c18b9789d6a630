/** Checks that the ports for mail are open. */
import { failed, orWell, warning, type Verdict } from './finding.ts';
import type { MailPortState } from '../../inbound/mail-port.ts';
import type { Probes } from './probes.ts';

const WORDS: Readonly<Record<MailPortState['name'], { takes: string; setting: string }>> = {
  mx: { takes: 'bounces', setting: 'smtp.mx.port' },
  submission: { takes: 'submission', setting: 'smtp.submission.port' },
  submissions: { takes: 'submission by TLS', setting: 'smtp.submission.tlsPort' },
};

export function listeners({ server }: Probes): Promise<readonly Verdict[]> {
  if (server.kind === 'missing') return Promise.resolve([warning(`not looked at: ${server.why}`, server.cure)]);
  const all = server.listeners();
  const open = all
    .map(
      ({ name, host, open: port }) =>
        `${WORDS[name].takes} ${String(port)}${isLoopback(host) ? ' (this machine only)' : ''}`,
    )
    .join(', ');
  return Promise.resolve(orWell(all.flatMap(faultOf), open));
}

function faultOf({ name, open, port, fault }: MailPortState): Verdict[] {
  if (open !== null) return [];
  const { takes, setting } = WORDS[name];
  const place = `the port for ${takes}, ${String(port)},`;
  if (fault === null) return [warning(`${place} is not open yet`, 'Ask again when the start is over.')];
  if (fault.code === 'EACCES')
    return [
      failed(
        `${place} may not be listened on by this user`,
        `Run it as the systemd service, give it CAP_NET_BIND_SERVICE, or choose a port from 1024 up with \`${setting}\`.`,
      ),
    ];
  return [
    failed(
      `${place} is in use by another program`,
      `Stop that program (ss -ltnp 'sport = :${String(port)}' shows it): the port is tried again every minute. Or let both run: choose another port with \`${setting}\`, as docs/beside-postfix.md says.`,
    ),
  ];
}

const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || host.startsWith('127.');
