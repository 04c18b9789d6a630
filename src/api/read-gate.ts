/**
 * Runs a few reads at a time. More would only wait for the database's readers, where they cannot be canceled: a read whose client
 * disconnects while it waits here never begins, so that people who reload a slow page leave no work behind.
 */
interface Waiting {
  isGone: () => boolean;
  enter: (isIn: boolean) => void;
}

export interface ReadGate {
  /** Runs `read` when it is its turn; null where the client was gone by then. */
  run<T>(isGone: () => boolean, read: () => Promise<T>): Promise<T | null>;
}

/** The database has three readers; some reads wait for other things between two questions to it. */
const MOST = 8;

/** `most` reads run at once; the others follow in the order of their coming. */
export function createReadGate(most: number = MOST): ReadGate {
  const waiting: Waiting[] = [];
  let running = 0;

  /** A read whose client is gone gets null and takes no slot. */
  function letIn(next: Waiting): void {
    const isIn = !next.isGone();
    if (isIn) running++;
    next.enter(isIn);
  }

  function leave(): void {
    running--;
    for (let next = waiting.shift(); next !== undefined; next = running < most ? waiting.shift() : undefined)
      letIn(next);
  }

  const turn = (isGone: () => boolean): Promise<boolean> =>
    new Promise((enter) => {
      if (running < most) letIn({ isGone, enter });
      else waiting.push({ isGone, enter });
    });

  return {
    async run(isGone, read) {
      if (!(await turn(isGone))) return null;
      try {
        return await read();
      } finally {
        leave();
      }
    },
  };
}
