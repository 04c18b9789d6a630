/**
 * Runs a few reads at a time. More would only wait for the database's readers, where they cannot be canceled: a read whose client
 * disconnects while it waits here never begins, so that people who reload a slow page leave no work behind. Accounts take turns, so
 * that many slow reads of one do not hold up those of another.
 */
import { createGate } from '../scheduling/gate.ts';

export interface ReadGate {
  /** Runs `read` when it is the account's turn; null if the client was gone by then. */
  run<T>(accountId: string, isGone: () => boolean, read: () => Promise<T>): Promise<T | null>;
}

/** The database has three readers; some reads wait for other things between two questions to it. */
const MOST = 8;
/** One account leaves places to others: a read that waits for a mail to be taken apart may take seconds. */
const MOST_OF_ACCOUNT = 6;

/** `most` reads run at once, `mostOfAccount` of one account; its others follow in the order of their coming. */
export function createReadGate(most: number = MOST, mostOfAccount: number = MOST_OF_ACCOUNT): ReadGate {
  const gate = createGate({ most, mostOfShare: mostOfAccount, waiting: Infinity });
  return {
    async run(accountId, isGone, read) {
      const leave = await gate.enter(accountId);
      try {
        return isGone() ? null : await read();
      } finally {
        leave?.();
      }
    },
  };
}
