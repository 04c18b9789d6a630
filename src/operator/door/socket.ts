/** The control socket: `<dataDir>/posthorn.sock`, the API over a Unix socket that only its owner may open. */
import net from 'node:net';
import path from 'node:path';
import { ConfigError } from '../../config/load.ts';
import { Unavailable } from '../../base/unavailable.ts';
import { userInfo } from 'node:os';

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

export function refusal(file: string, error: NodeJS.ErrnoException): Error {
  if (error.code !== 'EACCES' && error.code !== 'EPERM')
    return new Error(`the control socket ${file} cannot be used`, { cause: error });
  return new Unavailable(
    'no_access',
    `${file} may not be opened: run this as the user that the server runs as, or as root`,
  );
}

/** Returns the path of an operation on the server, such as `/v1/server/queue/lanes` of `queue.lanes`. */
export const serverPath = (name: string): string => `/v1/server/${name.replaceAll('.', '/')}`;

const NAME = /^[\w.@-]{1,64}$/;

/** Returns the name of the system user, with the one who became it by sudo: `root (sudo by lea)`; '' if the system does not tell. */
export function systemUser(env: Readonly<Record<string, string | undefined>>): string {
  const { SUDO_USER: by = '' } = env;
  const name = nameOrEmpty();
  if (!NAME.test(name)) return '';
  return NAME.test(by) && by !== name ? `${name} (sudo by ${by})` : name;
}

/** A user id without an entry in the user database has no name. */
function nameOrEmpty(): string {
  try {
    return userInfo().username;
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}

/** Returns the user agent of the audit for the user that a command names. Only who may open the socket can name one. */
export function agentOf(user: string | undefined): string | null {
  return user !== undefined && /^[\w.@-]{1,64}(?: \(sudo by [\w.@-]{1,64}\))?$/.test(user) ? `cli:${user}` : null;
}
