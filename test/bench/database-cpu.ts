/** The CPU time of a PostgreSQL on this machine: its main process and all that it has started, those that have ended as well. */
import { readdirSync, readFileSync } from 'node:fs';
import { isPostgresUrl } from '../../src/base/postgres-url.ts';
import { addressOf, connectTo } from '../../src/storage/postgres/connection.ts';

/** The fields of /proc/PID/stat behind the name: parent, and times in hundredths of a second; null if the process has ended. */
function statOf(pid: number): { parent: number; own: number; ofEnded: number } | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${String(pid)}/stat`, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH') return null;
    throw error;
  }
  const fields = text
    .slice(text.lastIndexOf(') ') + 2)
    .split(' ')
    .map(Number);
  const at = (place: number): number => fields[place] ?? NaN;
  return { parent: at(1), own: at(11) + at(12), ofEnded: at(13) + at(14) };
}

/** Returns the function that tells the time used so far in ms. It is always 0 for SQLite, which works in the process of the program. */
export async function databaseCpu(url: string): Promise<() => number> {
  if (!isPostgresUrl(url)) return () => 0;
  const client = await connectTo(addressOf({ url }), { setUp: [] });
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  const main = statOf(rows[0]?.pid ?? NaN)?.parent;
  await client.end();
  if (main === undefined) throw new Error('the server of the database does not run on this machine');
  return () => {
    const own = statOf(main);
    if (own === null) throw new Error('the server of the database has ended');
    const children = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((name) => statOf(Number(name)))
      .filter((stat) => stat?.parent === main);
    return 10 * children.reduce((sum, stat) => sum + (stat?.own ?? 0), own.own + own.ofEnded);
  };
}
