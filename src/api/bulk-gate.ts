/**
 * Handles a few bulk sends at a time. One of a thousand recipients takes some MB of memory until it is stored, and up to 128 MB with
 * templates: many at once would take all that the server has. They would not be done sooner either: what lives longer costs the garbage
 * collector more, 13 us a recipient with ten at once.
 */
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { createGate } from '../scheduling/gate.ts';

/** Accounts take turns, and none has more than half of the room: slow templates of one do not hold up the others. */
const LIMITS = { most: 4, mostOfShare: 2, waiting: 256 };
/** One of an account is prepared while another is written; with two prepared at once, twice as much would live twice as long. */
const PREPARING = { most: 2, mostOfShare: 1, waiting: LIMITS.most };
/** A bulk send that waited longer is refused: either writes hang, or its client has given up. */
const MOST_WAITED_MS = 30_000;
/** `Retry-After` in seconds. */
const RETRY_AFTER_S = 5;

/** The steps of a bulk send that has its turn. */
export interface BulkTurn {
  /** Resolves when its entries may be checked and made into rows: another one of the account may be doing that. */
  prepare(): Promise<void>;
  /** Its rows are made and wait to be written. */
  prepared(): void;
}

export interface BulkGate {
  /** Runs `send` when the account has its turn. Throws `service_unavailable` if it would wait too long, and if the service stops meanwhile. */
  run<T>(accountId: string, isStopping: () => boolean, send: (turn: BulkTurn) => Promise<T>): Promise<T>;
}

export function createBulkGate({ clock }: { clock: Pick<Clock, 'monotonic'> }): BulkGate {
  const gate = createGate(LIMITS);
  const preparing = createGate(PREPARING);

  function turnOf(accountId: string): BulkTurn {
    let leave: (() => void) | null = null;
    return {
      async prepare() {
        leave = await preparing.enter(accountId);
      },
      prepared() {
        leave?.();
        leave = null;
      },
    };
  }

  return {
    async run(accountId, isStopping, send) {
      const came = clock.monotonic();
      const leave = await gate.enter(accountId);
      if (leave === null) throw tooMany();
      const turn = turnOf(accountId);
      try {
        if (clock.monotonic() - came > MOST_WAITED_MS) throw tooMany();
        // All that wait would take longer than a stop may, and their clients would not hear what became of them.
        if (isStopping()) throw stopping();
        return await send(turn);
      } finally {
        turn.prepared();
        leave();
      }
    },
  };
}

const stopping = (): Problem => new Problem('service_unavailable', 'The service is stopping.');

const tooMany = (): Problem =>
  new Problem('service_unavailable', 'Too many bulk sends of this account wait already. Try again.', {
    retryAfter: RETRY_AFTER_S,
  });
