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

/** The processes of a tree, by id, with their fields of /proc/PID/stat. */
function treeOf(root: number): Map<number, readonly string[]> {
  const stats = new Map<number, readonly string[]>();
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : null;
    if (stat !== null) stats.set(Number(name), stat);
  }
  const tree = new Map<number, readonly string[]>();
  const add = (pid: number): void => {
    tree.set(pid, stats.get(pid) ?? []);
    for (const [child, stat] of stats) if (Number(stat[1]) === pid) add(child);
  };
  add(root);
  return tree;
}

/** User and system time in ms of a process, all processes under it, and those of them that have ended. */
export const cpuOfTree = (root: number): number =>
  [...treeOf(root).values()].reduce(
    (sum, fields) => sum + [11, 12, 13, 14].reduce((own, at) => own + Number(fields[at] ?? 0), 0) * TICK_MS,
    0,
  );

/** A figure of the memory of a process and all under it, in MiB. */
export const memoryOfTree = (root: number, figure: 'VmRSS' | 'VmHWM'): number =>
  [...treeOf(root).keys()].reduce((sum, pid) => sum + memoryOf(pid, figure), 0);

const memoryOf = (pid: number, figure: string): number =>
  Number(new RegExp(`${figure}:\\s+(\\d+)`).exec(readFileSync(`/proc/${String(pid)}/status`, 'utf8'))?.[1] ?? 0) / 1024;
