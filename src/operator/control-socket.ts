/**
 * The control socket: `<dataDir>/posthorn.sock`, HTTP over a Unix socket that only its owner may open.
 * `POST /<operation>` with the arguments as JSON; the answer is `{ "result": ... }` or `{ "problem": { code, message, field } }`.
 */
import net from 'node:net';
import path from 'node:path';
import { Problem } from '../base/problem.ts';
import { ConfigError } from '../config/load.ts';
import { Unavailable } from './unavailable.ts';

/** Arguments of one command at most. A mail with html and text of the largest size allowed, and every character escaped, is below this. */
export const LARGEST_COMMAND_BYTES = 32 * 2 ** 20;
/** sun_path has 108 bytes with its final NUL; the system would silently cut a longer name. */
const LONGEST_PATH_BYTES = 107;

/** Returns the socket's path. Throws `ConfigError` if it is longer than a socket's name can be. */
export function socketPath(dataDir: string): string {
  const file = path.join(dataDir, 'posthorn.sock');
  if (Buffer.byteLength(file) <= LONGEST_PATH_BYTES) return file;
  const most = LONGEST_PATH_BYTES - Buffer.byteLength('/posthorn.sock');
  throw new ConfigError([
    `dataDir: expected a path of at most ${String(most)} bytes, since a socket is made in it, found ${dataDir}`,
  ]);
}

/** Returns what is at the socket's path: a server, the socket of a dead one, or nothing. Throws `Unavailable` if it may not be opened. */
export function lookAtSocket(file: string): Promise<'live' | 'stale' | 'none'> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(file);
    socket.once('connect', () => {
      socket.destroy();
      resolve('live');
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      const absence = absenceOf(error);
      if (absence !== null) resolve(absence);
      else reject(refusal(file, error));
    });
  });
}

/** Returns `none` if there is no socket, `stale` if no process listens on it, and null for other errors. */
export function absenceOf({ code }: NodeJS.ErrnoException): 'stale' | 'none' | null {
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'none';
  return code === 'ECONNREFUSED' ? 'stale' : null;
}

/** The refusal of a command whose arguments are longer than `LARGEST_COMMAND_BYTES`. */
export const tooLarge = (): Problem =>
  new Problem('payload_too_large', `at most ${String(LARGEST_COMMAND_BYTES)} bytes`);

export function refusal(file: string, error: NodeJS.ErrnoException): Error {
  if (error.code !== 'EACCES' && error.code !== 'EPERM')
    return new Error(`the control socket ${file} cannot be used`, { cause: error });
  return new Unavailable(
    'no_access',
    `${file} may not be opened: run this as the user that the server runs as, or as root`,
  );
}
