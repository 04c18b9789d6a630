/**
 * Mail of operators' lanes whose own hosts cannot be had now. An operator's lane serves many organisations, each with hosts of its
 * own: one whose hosts are dead or busy must not keep the lane's workers from the others. So its jobs are put aside, by the hosts
 * that they need, and come back to the lane when one of these hosts may have a connection, and at the latest when its gate opens.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import type { Job } from '../due-queue.ts';

/** Looked at again after so long even where nobody calls. */
const LOOK_AGAIN_MS = 2_000;

interface Entry {
  readonly lane: string;
  readonly hosts: readonly string[];
  readonly jobs: Job[];
  timer: Timer | null;
}

export interface Aside {
  /** Puts a job aside that waits for one of these hosts; `until` on the monotonic clock, null where nobody knows. */
  add(lane: string, hosts: readonly string[], job: Job, until: number | null): void;
  /** The lane may have so many connections to this host: as many of its jobs come back. */
  wake(lane: string, host: string, room: number): void;
  /** All jobs of the lane come back. */
  wakeLane(lane: string): void;
  /** Lanes with jobs that wait for this host. */
  lanesWaiting(host: string): readonly string[];
  /** How many jobs of the lane are aside. */
  count(lane: string): number;
  stop(): void;
}

export function createAside(
  { clock }: { clock: Clock },
  comeBack: (lane: string, jobs: readonly Job[]) => void,
): Aside {
  const entries = new Map<string, Entry>();
  const byHost = new Map<string, Set<Entry>>();
  let stopped = false;

  /** A job that comes back may be put aside again at once, in an entry of its own. */
  function release(key: string, entry: Entry, most = Infinity): void {
    if (most < entry.jobs.length) {
      comeBack(entry.lane, entry.jobs.splice(0, most));
      return;
    }
    entry.timer?.cancel();
    entries.delete(key);
    for (const host of entry.hosts) {
      const waiting = byHost.get(host);
      waiting?.delete(entry);
      if (waiting?.size === 0) byHost.delete(host);
    }
    if (!stopped) comeBack(entry.lane, entry.jobs);
  }

  function create(key: string, lane: string, hosts: readonly string[]): Entry {
    const entry: Entry = { lane, hosts, jobs: [], timer: null };
    entries.set(key, entry);
    for (const host of hosts) {
      const waiting = byHost.get(host);
      if (waiting === undefined) byHost.set(host, new Set([entry]));
      else waiting.add(entry);
    }
    return entry;
  }

  const keyOf = (lane: string, hosts: readonly string[]): string => `${lane} ${hosts.join()}`;

  return {
    add(lane, hosts, job, until) {
      const key = keyOf(lane, hosts);
      const entry = entries.get(key) ?? create(key, lane, hosts);
      entry.jobs.push(job);
      const wait = until === null ? LOOK_AGAIN_MS : Math.max(1, until - clock.monotonic());
      entry.timer ??= clock.after(wait, () => {
        release(key, entry);
      });
    },
    wake(lane, host, room) {
      let left = room;
      // What is put aside meanwhile is not looked at again.
      for (const entry of [...(byHost.get(host) ?? [])]) {
        if (entry.lane !== lane || left <= 0) continue;
        const { length } = entry.jobs;
        release(keyOf(lane, entry.hosts), entry, left);
        left -= length;
      }
    },
    wakeLane(lane) {
      for (const [key, entry] of [...entries]) if (entry.lane === lane) release(key, entry);
    },
    lanesWaiting: (host) => {
      const waiting = byHost.get(host);
      return waiting === undefined ? none : [...new Set([...waiting].map(({ lane }) => lane))];
    },
    count(lane) {
      let sum = 0;
      for (const entry of entries.values()) if (entry.lane === lane) sum += entry.jobs.length;
      return sum;
    },
    stop() {
      stopped = true;
      for (const { timer } of entries.values()) timer?.cancel();
    },
  };
}

const none: readonly string[] = [];
