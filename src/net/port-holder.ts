/**
 * Finds the program that listens on a TCP port, as far as Linux tells this user. The user is in the kernel's table of sockets, which
 * every process may read; the process itself is visible only to root and to programs of the same user.
 */
import { open, readdir, readFile, readlink } from 'node:fs/promises';
import path from 'node:path';

/** Listening sockets come first in the table, so its beginning is enough on a machine with many connections. */
const TABLE_BYTES = 256 * 1024;
const PASSWD_BYTES = 1024 * 1024;
const MOST_PROCESSES = 5000;
const LISTENING = '0A';

interface Socket {
  uid: number;
  inode: string;
}

/** Returns words such as `master (process 812, user root)`; null if the system does not tell. Never rejects. */
export async function portHolder(port: number, root = '/'): Promise<string | null> {
  try {
    const socket = await listeningSocket(port, root);
    if (socket === null) return null;
    const [user, holder] = await Promise.all([userName(socket.uid, root), processOf(socket.inode, root)]);
    return holder === null
      ? `a program of the user ${user}`
      : `${holder.name} (process ${String(holder.pid)}, user ${user})`;
  } catch {
    return null; // the words are only a help: not every system has these files
  }
}

async function listeningSocket(port: number, root: string): Promise<Socket | null> {
  for (const table of ['tcp', 'tcp6']) {
    const text = await beginningOf(path.join(root, 'proc/self/net', table), TABLE_BYTES);
    const found = text === null ? null : listenerIn(text, port);
    if (found !== null) return found;
  }
  return null;
}

/** Reads the text of /proc/net/tcp: hexadecimal addresses and ports, the state, and further on the user and the inode. */
function listenerIn(table: string, port: number): Socket | null {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  for (const line of table.split('\n')) {
    const [, local = '', , state, , , , uid = '', , inode = ''] = line.trim().split(/\s+/);
    if (state === LISTENING && local.endsWith(wanted)) return { uid: Number(uid), inode };
  }
  return null;
}

async function userName(uid: number, root: string): Promise<string> {
  const text = (await beginningOf(path.join(root, 'etc/passwd'), PASSWD_BYTES)) ?? '';
  const line = text.split('\n').find((one) => one.split(':')[2] === String(uid));
  return line?.split(':')[0] ?? String(uid);
}

/** Looks for the process with this socket among its open files; null if this user may not look into it. */
async function processOf(inode: string, root: string): Promise<{ pid: number; name: string } | null> {
  const proc = path.join(root, 'proc');
  const pids = (await readdir(proc)).filter((name) => /^\d+$/.test(name)).slice(0, MOST_PROCESSES);
  for (const pid of pids) {
    const folder = path.join(proc, pid, 'fd');
    const files = await readdir(folder).catch(() => []);
    for (const file of files) {
      const target = await readlink(path.join(folder, file)).catch(() => '');
      if (target !== `socket:[${inode}]`) continue;
      const name = (await readFile(path.join(proc, pid, 'comm'), 'utf8').catch(() => '')).trim();
      return name === '' ? null : { pid: Number(pid), name };
    }
  }
  return null;
}

async function beginningOf(file: string, most: number): Promise<string | null> {
  const handle = await open(file, 'r').catch(() => null);
  if (handle === null) return null;
  try {
    const buffer = Buffer.alloc(most);
    let length = 0;
    for (let n = -1; n !== 0 && length < most; length += n)
      ({ bytesRead: n } = await handle.read(buffer, length, most - length, null));
    return buffer.toString('utf8', 0, length);
  } finally {
    await handle.close();
  }
}
