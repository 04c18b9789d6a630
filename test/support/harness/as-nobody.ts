/** Runs a function with the rights of Debian's user `nobody`, in this process, which must be root's. */
const NOBODY = 65_534;

/** The effective user is the whole process's, so `act` should be short and synchronous where it matters. */
export async function asNobody<Result>(act: () => Result | Promise<Result>): Promise<Result> {
  process.setegid?.(NOBODY);
  process.seteuid?.(NOBODY);
  try {
    return await act();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}
