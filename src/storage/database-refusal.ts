/** Reasons why a database cannot be opened, each as a sentence for the operator. */
export type RefusalWhy =
  /** Its version, encoding or settings do not keep what is promised. */
  | 'unsuitable'
  /** Another server or command uses it. */
  | 'in_use'
  | 'unreachable'
  | 'wrong_clock'
  /** Its rows were moved to another database. */
  | 'moved'
  /** A copy into it was broken off. */
  | 'unfinished';

export class DatabaseRefusal extends Error {
  readonly why: RefusalWhy;

  constructor(why: RefusalWhy, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'DatabaseRefusal';
    this.why = why;
  }
}
