import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts in hundredths of a second. */
const TICK_MS = 10;

/** Returns the fields of /proc/PID/stat behind the name of the program; null if the process is gone. */
function statOf(pid: number): readonly string[] | null {
  try {
    return (
      readFileSync(`/proc/${String(pid)}/stat`, 'utf8')
        .split(') ')[1]
        ?.split(' ') ?? null
    );
  } catch {
    return null;
  }
}

/** User and system time of a process in ms. */
export function cpuOf(pid: number): number {
  const fields = statOf(pid) ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** The same of a process, all processes under it, and those of them that have ended. */
export function cpuOfTree(root: number): number {
  const stats = new Map<number, readonly string[]>();
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : null;
    if (stat !== null) stats.set(Number(name), stat);
  }
  const timesOf = (pid: number): number => {
    const fields = stats.get(pid) ?? [];
    const own = [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at] ?? 0), 0) * TICK_MS;
    const children = [...stats].filter(([, stat]) => Number(stat[1]) === pid);
    return children.reduce((sum, [child]) => sum + timesOf(child), own);
  };
  return timesOf(root);
}
