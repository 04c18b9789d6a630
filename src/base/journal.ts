/** Returns whether the output of this process goes to the journal of systemd, which understands a priority before each line. */
import { fstatSync } from 'node:fs';

/** The priorities of syslog(3) as the journal reads and removes them (sd-daemon(3)); `journalctl -p err` filters by them. */
export const PRIORITY = { error: '<3>', warn: '<4>', info: '<6>', debug: '<7>' } as const;

/** Returns whether a file descriptor is the journal's. `named` is JOURNAL_STREAM, in which systemd gives its device and inode. */
export function isJournal(named: string | undefined, descriptor: number): boolean {
  if (named === undefined) return false;
  try {
    const { dev, ino } = fstatSync(descriptor, { bigint: true });
    return named === `${String(dev)}:${String(ino)}`;
  } catch {
    return false; // a descriptor that is closed
  }
}
