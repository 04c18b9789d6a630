/**
 * What a server hears when a connection cannot be accepted (no descriptor or memory left): an error of the server itself, which
 * would end the process if nobody listened. The connection is lost, its client comes again; those that stand go on.
 */
import type { Server } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';

/** Each connection that comes meets it, so it is told once in this time. */
const QUIET_MS = 60_000;

/** From when the server listens; why it cannot listen is told to whoever asked for it. `what` names it in the log. */
export function logAcceptErrors(
  { clock, log }: { clock: Clock; log: Pick<Log, 'error'> },
  server: Server,
  what: string,
): void {
  let toldAt = -Infinity;
  let unreported = 0;
  const hear = (error: Error): void => {
    if (clock.monotonic() - toldAt < QUIET_MS) {
      unreported++;
      return;
    }
    log.error({ event: 'accept_failed', server: what, unreported, err: error }, 'a connection could not be accepted');
    toldAt = clock.monotonic();
    unreported = 0;
  };
  server.once('listening', () => server.on('error', hear));
}
