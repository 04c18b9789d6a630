import { readFileSync } from 'node:fs';

/** User and system time of a process in ms; Linux counts in hundredths of a second. */
export function cpuOf(pid: number): number {
  const fields =
    readFileSync(`/proc/${String(pid)}/stat`, 'utf8')
      .split(') ')[1]
      ?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}
