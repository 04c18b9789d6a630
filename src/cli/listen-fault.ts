/** Explains why a port could not be opened: which setting names it, and what to do. */
import type { Config } from '../config/schema.ts';
import { exitCodes, Refusal } from './exit-codes.ts';

type Listening = Pick<Config, 'http' | 'metrics' | 'dashboard' | 'smtp'>;

/** The ports, each with its settings. */
const portsOf = ({ http, metrics, dashboard, smtp: { mx, submission } }: Listening) =>
  [
    { host: http.host, port: http.port, of: 'http', portSetting: 'http.port' },
    { host: http.host, port: dashboard.port, of: 'http', portSetting: 'dashboard.port' },
    { host: metrics.host, port: metrics.port, of: 'metrics', portSetting: 'metrics.port' },
    { host: mx.host, port: mx.port, of: 'smtp.mx', portSetting: 'smtp.mx.port' },
    { host: submission.host, port: submission.port, of: 'smtp.submission', portSetting: 'smtp.submission.port' },
    { host: submission.host, port: submission.tlsPort, of: 'smtp.submission', portSetting: 'smtp.submission.tlsPort' },
  ] as const;

/** Returns null if the error is not about listening. */
export function listenFault(config: Listening, error: unknown): Refusal | null {
  if (!(error instanceof Error) || !('code' in error)) return null;
  const port = 'port' in error ? Number(error.port) : config.http.port;
  const asked = portsOf(config).filter((one) => one.port === port);
  const { host, of, portSetting } = asked[0] ?? portsOf(config)[0];
  const hostSetting = `${of}.host`;
  switch (error.code) {
    case 'EADDRINUSE': {
      const other = asked.find((one) => one.portSetting !== portSetting && one.portSetting !== 'dashboard.port');
      const line =
        other === undefined
          ? `something listens on ${host}:${String(port)} already: change ${portSetting}, or end it (as root, \`ss -ltnp 'sport = :${String(port)}'\` shows what it is)`
          : `${portSetting} and ${other.portSetting} are both ${String(port)}, or something else listens there already`;
      return new Refusal(exitCodes.unavailable, line);
    }
    case 'EACCES':
    case 'EPERM':
      return new Refusal(
        exitCodes.noPermission,
        `${portSetting}: this user may not listen on port ${String(port)}: run it as the systemd service, give it the capability CAP_NET_BIND_SERVICE, or take a port from 1024 up`,
      );
    // At boot an address may be there later than the server: a floating one, or that of a link that is slow.
    case 'EADDRNOTAVAIL':
      return new Refusal(
        exitCodes.unavailable,
        `${hostSetting}: this machine has no address ${host}; if it comes up later, a later start works`,
      );
    case 'EAFNOSUPPORT':
      return new Refusal(exitCodes.config, `${hostSetting}: this machine has no address ${host}`);
    default:
      return null;
  }
}
