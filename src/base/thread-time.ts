/** Measures the time that a thread has worked, for time limits: on a busy machine honest jobs would else be refused for what others do. */
import { readFileSync } from 'node:fs';
import { systemClock } from './clock.ts';

/** Milliseconds between two looks at the operating system's figures: one costs 10 us. */
const LOOK_MS = 1;

/** Makes a clock of the CPU time of the calling thread, in milliseconds, at most 1 ms behind. It must stay in that thread. */
export function createThreadClock(): () => number {
  let lookedAt = -Infinity;
  let worked = 0;
  return () => {
    const now = systemClock.monotonic();
    if (now - lookedAt < LOOK_MS) return worked;
    lookedAt = now;
    worked = cpuMs() ?? now;
    return worked;
  };
}

/** Node 20 lacks `process.threadCpuUsage`, and its types do too. */
const { threadCpuUsage } = process as { threadCpuUsage?: () => { user: number; system: number } };

/** Returns null if neither Node nor the system tells (Node 20 on another system than Linux). */
function cpuMs(): number | null {
  // Linux brings the figures of a running thread up to date every 1 to 10 ms (CONFIG_HZ), and when the usage of its process is asked for.
  process.cpuUsage();
  if (threadCpuUsage !== undefined) {
    const { user, system } = threadCpuUsage.call(process);
    return (user + system) / 1000;
  }
  try {
    // The first figure is the time on a processor in nanoseconds (Documentation/scheduler/sched-stats.rst of Linux).
    return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1e6;
  } catch {
    return null;
  }
}
