/**
 * Logs that a connection cannot be accepted (no descriptor or memory left). Node emits an error of the server itself, which
 * would end the process without a listener. The connection is lost and its client retries; open connections go on.
 */
import type { Server } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';

/** Each new connection fails this way, so one line is written in this time. */
const QUIET_MS = 60_000;

/** Logs errors from when the server listens; those before belong to the caller of `listen`. `what` names the server in the log. */
export function logAcceptErrors(
  { clock, log }: { clock: Clock; log: Pick<Log, 'error'> },
  server: Server,
  what: string,
): void {
  let loggedAt = -Infinity;
  let unreported = 0;
  const logError = (error: Error): void => {
    if (clock.monotonic() - loggedAt < QUIET_MS) {
      unreported++;
      return;
    }
    log.error({ event: 'accept_failed', server: what, unreported, err: error }, 'a connection could not be accepted');
    loggedAt = clock.monotonic();
    unreported = 0;
  };
  server.once('listening', () => server.on('error', logError));
}
