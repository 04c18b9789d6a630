/** Reasons why an operation cannot be performed here, although the request itself is right. */

export type UnavailableWhy =
  /** No server answers at the data folder. */
  | 'not_running'
  /** A server runs, and must not. */
  | 'already_running'
  | 'no_database'
  /** The socket or the files belong to another user. */
  | 'no_access'
  /** The database has to be changed by this version, and the backup before that cannot be made. */
  | 'no_backup'
  /** The server had to stop: another node has taken its place. */
  | 'taken_over'
  /** The server had to stop: the clock of its machine is wrong. */
  | 'wrong_clock';

/** The message is a sentence for the operator; the command line has an exit code for each reason. */
export class Unavailable extends Error {
  readonly why: UnavailableWhy;

  constructor(why: UnavailableWhy, message: string) {
    super(message);
    this.name = 'Unavailable';
    this.why = why;
  }
}

/** Returns the error of an operation that needs the server while none runs. */
export const notRunning = (): Unavailable =>
  new Unavailable('not_running', 'the server is not running: start it with `posthorn serve`');
