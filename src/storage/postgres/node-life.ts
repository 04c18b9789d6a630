/** Which of the other nodes live. Of a node on this machine the process is looked at, of others their signs of life. */
import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';

/** Tells the runs of a process number apart. */
export const PROCESS = randomUUID();

/** The epochs of databases that this process has open. */
export const openHere = new Set<number>();

/** A node that was seen to give no sign of life for this long is dead. It is longer than a node trusts its own lease. */
export const DEAD_AFTER_MS = 12_000;
/** After a pause of this length nothing is known about the others: the database was away, or this process was stopped. */
const LONGEST_GAP_MS = 5000;

/** A row of `nodes` with its last sign of life. */
export interface NodeRow {
  epoch: number;
  name: string;
  version: string;
  facts: string;
  machine: string;
  pid: number;
  process: string;
  is_command: number;
  is_draining: number;
  since_ms: number;
  beat: string;
  quiet_ms: number;
}

export const readNodes = `SELECT n.epoch, n.name, n.version, n.facts, n.machine, n.pid, n.process, n.is_command, n.is_draining,
    (extract(epoch FROM n.begun_at) * 1000)::bigint AS since_ms, b.at::text AS beat,
    (extract(epoch FROM clock_timestamp() - b.at) * 1000)::bigint AS quiet_ms
  FROM nodes n JOIN node_beats b ON b.epoch = n.epoch ORDER BY n.epoch`;

/**
 * Returns whether a node lives, if its process can be looked at; null elsewhere. `machine` is that of this process (`readMachine`): if it is
 * null, nothing is known of the process of another node.
 */
export function livesHere(
  other: Pick<NodeRow, 'epoch' | 'machine' | 'pid' | 'process'>,
  machine: string | null,
): boolean | null {
  if (other.process === PROCESS) return openHere.has(other.epoch);
  if (machine === null || other.machine !== machine) return null;
  return other.pid !== process.pid && isRunning(other.pid);
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}

/** How long each of the others has given no sign of life, by this process's own clock: the clock of the database may have been away. */
export class Silences {
  private readonly seen = new Map<number, { beat: string; since: number }>();
  private lastLook = -Infinity;
  private readonly machine: string | null;

  constructor(machine: string | null) {
    this.machine = machine;
  }

  /** Notes what was read; returns the nodes that are dead. `now` is monotonic, in ms. */
  look(others: readonly NodeRow[], now: number): NodeRow[] {
    if (now - this.lastLook > LONGEST_GAP_MS) this.seen.clear();
    const { lastLook } = this;
    this.lastLook = now;
    for (const epoch of this.seen.keys()) if (others.every((one) => one.epoch !== epoch)) this.seen.delete(epoch);
    return others.filter((one) => {
      const before = this.seen.get(one.epoch);
      if (before?.beat !== one.beat) {
        // A new sign of life was given since the last look: how long ago is told by the database, whose clock may have been set meanwhile.
        const since = before === undefined ? now : Math.max(lastLook, now - Math.max(0, one.quiet_ms));
        this.seen.set(one.epoch, { beat: one.beat, since });
      }
      // A process that is there may be stopped: then only its silence tells.
      if (livesHere(one, this.machine) === false) return true;
      return before?.beat === one.beat && now - before.since >= DEAD_AFTER_MS;
    });
  }

  /** Returns in how many ms the first of the others is dead if it stays silent; Infinity if there are none. */
  untilDead(now: number): number {
    return Math.min(...[...this.seen.values()].map(({ since }) => since + DEAD_AFTER_MS - now));
  }
}

const BOOT_ID = '/proc/sys/kernel/random/boot_id';
const PID_NAMESPACE = '/proc/self/ns/pid';
const HEX_UUID = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;

/**
 * Returns the name of the namespace of process numbers that has this process, in this run of its kernel: of such a process alone it can be said
 * whether it is there. Null if it is not known. `toldBootId` is what the service manager says if a sandbox hides the kernel's own.
 */
export const readMachine = (toldBootId: string | null = null): string | null =>
  machineOf({
    bootId: textOrNull(() => readFileSync(BOOT_ID, 'utf8')) ?? toldBootId,
    pidNamespace: textOrNull(() => readlinkSync(PID_NAMESPACE)),
  });

/**
 * Both parts are needed. A namespace has the same number on machines that have nothing to do with each other: the first one always, those of
 * containers often. No name of a machine is a part, since clones have it, too, and it stays when the machine starts again.
 */
export function machineOf({
  bootId,
  pidNamespace,
}: {
  bootId: string | null;
  pidNamespace: string | null;
}): string | null {
  // The kernel writes it with hyphens, systemd without.
  const digits = bootId?.trim().replaceAll('-', '').toLowerCase() ?? '';
  const parts = HEX_UUID.exec(digits)?.slice(1);
  if (parts === undefined || /^0+$/.test(digits)) return null;
  if (pidNamespace === null || !/^pid:\[\d+\]$/.test(pidNamespace)) return null;
  return `${parts.join('-')} ${pidNamespace}`;
}

function textOrNull(read: () => string): string | null {
  try {
    return read();
  } catch {
    // Not Linux, or hidden.
    return null;
  }
}
