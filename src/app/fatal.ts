/** The error after which the program cannot go on: it stops as at a signal, and ends with this error. */
export interface Fatal {
  /** The error, or null as long as there is none. */
  readonly error: Error | null;
  /** Resolves with the error once there is one. */
  readonly occurred: Promise<Error>;
  /** Only the first error counts. */
  report: (error: Error) => void;
}

export function createFatal(): Fatal {
  let first: Error | null = null;
  let resolve: (error: Error) => void = () => undefined;
  const occurred = new Promise<Error>((resolved) => {
    resolve = resolved;
  });
  return {
    get error() {
      return first;
    },
    occurred,
    report(error) {
      first ??= error;
      resolve(first);
    },
  };
}
