/**
 * Watches the free disk space. Below the limit new mail is refused, while accepted mail is delivered: the last space is kept for it. A database that
 * took no writes is tried again, since no caller may come while this server is not ready.
 */
import { statfs } from 'node:fs/promises';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Committer } from './commit.ts';

/** A burst of mail fills far less than half a gigabyte in this time. */
const LOOK_MS = 5_000;
/** Strangers, and backups beside the data, may fill the disk down to this many times the space that is kept for our own mail. */
export const STRANGERS_LEAVE = 2;

/** `minFreeBytes` is `storage.minFreeBytes`; `free` returns the free bytes in `dir`. */
export function createDiskGuard(
  { clock, log, commit }: { clock: Clock; log: Log; commit: Pick<Committer, 'retry'> },
  { dir, minFreeBytes }: { dir: string; minFreeBytes: number },
  free: (dir: string) => Promise<number> = freeBytes,
) {
  let room = true;
  let roomForStrangers = true;
  let timer: Timer | null = null;
  let stopped = false;

  async function look(): Promise<void> {
    // Nothing waits for it: on a database that hangs it ends late.
    void commit.retry();
    try {
      const bytes = await free(dir);
      const [before, beforeForStrangers] = [room, roomForStrangers];
      room = bytes >= minFreeBytes;
      roomForStrangers = bytes >= minFreeBytes * STRANGERS_LEAVE;
      const fields = { free_bytes: bytes, min_free_bytes: minFreeBytes };
      if (room && !before)
        log.info({ event: 'disk_room', ...fields }, 'there is room on the disk again: new mail is taken');
      if (!room && before)
        log.error({ event: 'disk_low', ...fields }, 'too little room on the disk: new mail is refused');
      const ofStrangers = { free_bytes: bytes, min_free_bytes: minFreeBytes * STRANGERS_LEAVE };
      if (roomForStrangers && !beforeForStrangers)
        log.info({ event: 'disk_room_for_strangers', ...ofStrangers }, 'port 25 takes mail again');
      if (!roomForStrangers && beforeForStrangers)
        log.warn(
          { event: 'disk_low_for_strangers', ...ofStrangers },
          'little room on the disk: port 25 refuses mail with 452 until there is more',
        );
    } catch (error) {
      // A disk that cannot be asked may be full or gone; the writes will fail then.
      log.warn({ event: 'disk_unknown', err: error }, 'the free disk space could not be read');
    }
    if (!stopped) timer = clock.after(LOOK_MS, () => void look(), { background: true });
  }

  return {
    /** Returns whether there was room for new mail at the last look. */
    hasRoom: (): boolean => room,
    /** Returns whether there was also room for mail from strangers, which is refused long before new mail is. */
    hasRoomForStrangers: (): boolean => roomForStrangers,
    /** Looks now. Never rejects. */
    look,
    stop(): void {
      stopped = true;
      timer?.cancel();
    },
  };
}

export type DiskGuard = ReturnType<typeof createDiskGuard>;

/** Returns the size in bytes of the disk with the folder. */
export async function diskBytes(dir: string): Promise<number> {
  const { blocks, bsize } = await statfs(dir);
  return blocks * bsize;
}

async function freeBytes(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}
