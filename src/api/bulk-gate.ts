/**
 * Handles a few bulk sends at a time. One of a thousand recipients takes some MB of memory until it is stored, and up to 128 MB with
 * templates: many at once would take all that the server has, and would not be done sooner either.
 */
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { createGate } from '../scheduling/gate.ts';

/** Accounts take turns, and none has more than half of the room: slow templates of one do not hold up the others. */
const LIMITS = { most: 4, mostOfShare: 2, waiting: 256 };
/** A bulk send that waited longer is refused: either writes hang, or its client has given up. */
const MOST_WAITED_MS = 30_000;
/** `Retry-After` in seconds. */
const RETRY_AFTER_S = 5;

export function createBulkGate({ clock }: { clock: Pick<Clock, 'monotonic'> }) {
  const gate = createGate(LIMITS);
  return {
    /** Runs `send` when the account has its turn. Throws `service_unavailable` if it would wait too long, and if the service stops meanwhile. */
    run<T>(accountId: string, isStopping: () => boolean, send: () => Promise<T>): Promise<T> {
      const came = clock.monotonic();
      const inTurn = (): Promise<T> => {
        if (clock.monotonic() - came > MOST_WAITED_MS) throw tooMany();
        // All that wait would take longer than a stop may, and their clients would not hear what became of them.
        if (isStopping()) throw new Problem('service_unavailable', 'The service is stopping.');
        return send();
      };
      return gate.run(accountId, inTurn, tooMany);
    },
  };
}

const tooMany = (): Problem =>
  new Problem('service_unavailable', 'Too many bulk sends of this account wait already. Try again.', {
    retryAfter: RETRY_AFTER_S,
  });
