/** Reasons why a PostgreSQL database cannot be opened, each as a sentence for the operator. */
export type RefusalWhy =
  /** Its version, encoding or settings do not keep what is promised. */
  | 'unsuitable'
  /** Another server or command uses it. */
  | 'in_use'
  | 'unreachable';

export class DatabaseRefusal extends Error {
  readonly why: RefusalWhy;

  constructor(why: RefusalWhy, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'DatabaseRefusal';
    this.why = why;
  }
}
