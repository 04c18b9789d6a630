/** Limits how many mails are between their text and their commit, whichever way they came in: accounts take turns. */
import type { Clock, Timer } from '../../base/clock.ts';
import { Problem } from '../../base/problem.ts';
import { createGate } from '../../scheduling/gate.ts';

/**
 * Of more mails at work, V8 copies the texts while they wait for their commit, and mail comes in faster than it goes out: with 64 clients that send
 * 100 KB, the server delivers an eighth less and takes 50 MiB more; with 1,000 that send 4 KB a third less. Fewer do not fill a commit. Many may wait, as
 * a refusal costs half of what a mail does, and its client comes again: 4,096 are the mails of some four seconds.
 */
const LIMITS = { most: 64, mostOfShare: 48, waiting: 4096 };
/** A mail of more octets counts as three. */
const LARGE_BYTES = 16 * 1024;
const WEIGHT_OF_LARGE = 3;
/** A mail that takes longer waits for something else, as a slow template or the first request with its key: it holds up no others. */
const LONGEST_MS = 500;
/** In seconds. */
const RETRY_AFTER_S = 1;

export type Intake = ReturnType<typeof createIntake>;

/** The turn of one mail. */
export type Turn = ReturnType<Intake['begin']>;

export function createIntake({ clock }: { clock: Pick<Clock, 'after'> }, limits = LIMITS) {
  const gate = createGate(limits);
  return {
    begin(accountId: string) {
      let leave: (() => void) | null = null;
      let timer: Timer | null = null;
      const end = (): void => {
        timer?.cancel();
        leave?.();
        leave = null;
      };
      return {
        /** Waits for the turn of a mail of this many octets. Throws `service_unavailable` if too many of the account wait. */
        async take(bytes: number): Promise<void> {
          leave = await gate.enter(accountId, bytes > LARGE_BYTES ? WEIGHT_OF_LARGE : 1);
          if (leave === null)
            throw new Problem('service_unavailable', 'Too many mails came at once. Try again.', {
              retryAfter: RETRY_AFTER_S,
            });
          timer = clock.after(LONGEST_MS, end, { background: true });
        },
        /** Ends the turn, if it has come and not ended. */
        end,
      };
    },
  };
}
