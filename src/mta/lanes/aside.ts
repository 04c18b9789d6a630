/**
 * Jobs of operators' lanes whose hosts cannot be reached now are put aside by these hosts: dead or busy hosts of one organisation must not keep the
 * lane's workers from the others. They come back when one of the hosts may have a connection, and at the latest when its gate opens.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import { addTo, takeFrom } from '../../base/sets.ts';
import type { Job } from '../due-queue.ts';

/** Jobs come back after so long even if the pool does not wake them. */
const LOOK_AGAIN_MS = 2_000;

interface Entry {
  readonly lane: string;
  readonly hosts: readonly string[];
  jobs: Job[];
  timer: Timer | null;
  /** When the timer runs, on the monotonic clock. */
  comesBackAt: number;
}

export type Aside = ReturnType<typeof createAside>;

export function createAside({ clock }: { clock: Clock }, comeBack: (lane: string, jobs: readonly Job[]) => void) {
  const entries = new Map<string, Entry>();
  const byHost = new Map<string, Set<Entry>>();
  const byLane = new Map<string, Set<Entry>>();
  let stopped = false;

  function remove(key: string, entry: Entry): void {
    entry.timer?.cancel();
    entries.delete(key);
    for (const host of entry.hosts) takeFrom(byHost, host, entry);
    takeFrom(byLane, entry.lane, entry);
  }

  /** Brings jobs back. A job may be put aside again at once, in a new entry. */
  function release(key: string, entry: Entry, most = Infinity): void {
    // It may have been taken out while others came back.
    if (entries.get(key) !== entry) return;
    if (most < entry.jobs.length) {
      comeBack(entry.lane, entry.jobs.splice(0, most));
      return;
    }
    remove(key, entry);
    if (!stopped) comeBack(entry.lane, entry.jobs);
  }

  function create(key: string, lane: string, hosts: readonly string[]): Entry {
    const entry: Entry = { lane, hosts, jobs: [], timer: null, comesBackAt: Infinity };
    entries.set(key, entry);
    for (const host of hosts) addTo(byHost, host, entry);
    addTo(byLane, lane, entry);
    return entry;
  }

  const keyOf = (lane: string, hosts: readonly string[]): string => `${lane} ${hosts.join()}`;

  return {
    /** Puts a job aside that waits for one of these hosts; `until` is on the monotonic clock, null if it is not known. */
    add(lane: string, hosts: readonly string[], job: Job, until: number | null): void {
      const key = keyOf(lane, hosts);
      const entry = entries.get(key) ?? create(key, lane, hosts);
      entry.jobs.push(job);
      if (entry.timer !== null) return;
      const wait = until === null ? LOOK_AGAIN_MS : Math.max(1, until - clock.monotonic());
      entry.comesBackAt = clock.monotonic() + wait;
      entry.timer = clock.after(wait, () => release(key, entry));
    },
    /** Removes and returns the jobs that come back in `ms` or later and are `unwanted`, with the time until then, in ms. */
    takeOut(ms: number, unwanted: (job: Job) => boolean): { jobs: readonly Job[]; wait: number }[] {
      const now = clock.monotonic();
      const late = [...entries].filter(([, { comesBackAt }]) => comesBackAt - now >= ms);
      return late.map(([key, entry]) => {
        const jobs = entry.jobs.filter(unwanted);
        entry.jobs = entry.jobs.filter((job) => !unwanted(job));
        if (entry.jobs.length === 0) remove(key, entry);
        return { jobs, wait: entry.comesBackAt - now };
      });
    },
    /** Brings back as many of the lane's jobs as it may have connections to this host (`room`). */
    wake(lane: string, host: string, room: number): void {
      let left = room;
      // Jobs that are put aside meanwhile are not brought back again.
      for (const entry of [...(byHost.get(host) ?? [])]) {
        if (entry.lane !== lane || left <= 0) continue;
        const { length } = entry.jobs;
        release(keyOf(lane, entry.hosts), entry, left);
        left -= length;
      }
    },
    wakeLane(lane: string): void {
      for (const entry of [...(byLane.get(lane) ?? [])]) release(keyOf(lane, entry.hosts), entry);
    },
    lanesWaiting: (host: string) => {
      const waiting = byHost.get(host);
      return waiting === undefined ? none : [...new Set([...waiting].map(({ lane }) => lane))];
    },
    count(lane: string): number {
      let sum = 0;
      for (const { jobs } of byLane.get(lane) ?? []) sum += jobs.length;
      return sum;
    },
    has: (lane: string): boolean => byLane.has(lane),
    stop(): void {
      stopped = true;
      for (const { timer } of entries.values()) timer?.cancel();
    },
  };
}

const none: readonly string[] = [];
