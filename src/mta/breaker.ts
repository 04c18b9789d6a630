/**
 * A breaker per host: after a few failed connections in a row the host is left alone for a while, so that waiting mail does
 * not spend its attempts on a dead machine. When the time is over one connection is let through; it decides.
 */

interface HostHealth {
  failures: number;
  openUntil: number;
  openFor: number;
  probing: boolean;
}

export interface Breaker {
  /** When the host may be dialled: now or earlier, or a time to come. */
  readyAt(host: string, now: number): number;
  /** A dial begins; while a breaker is half open that is the one probe. */
  dialling(host: string): void;
  succeeded(host: string): void;
  failed(host: string, now: number): void;
  /** The clock was set to another time, so many ms on. */
  shift(ms: number): void;
}

const FAILURES = 3;
const FIRST_OPEN_MS = 60_000;
const LONGEST_OPEN_MS = 15 * 60_000;
const PROBE_MS = 30_000;
const MOST_HOSTS = 20_000;

export function createBreaker(): Breaker {
  const hosts = new Map<string, HostHealth>();
  return {
    readyAt(host, now) {
      const health = hosts.get(host);
      if (health === undefined || health.failures < FAILURES) return now;
      return health.probing ? Math.max(health.openUntil, now + PROBE_MS) : health.openUntil;
    },
    dialling(host) {
      const health = hosts.get(host);
      if (health !== undefined && health.failures >= FAILURES) health.probing = true;
    },
    succeeded(host) {
      hosts.delete(host);
    },
    shift(ms) {
      for (const health of hosts.values()) health.openUntil += ms;
    },
    failed(host, now) {
      const health = hosts.get(host) ?? { failures: 0, openUntil: 0, openFor: FIRST_OPEN_MS / 2, probing: false };
      health.failures++;
      health.probing = false;
      if (health.failures >= FAILURES && now >= health.openUntil) {
        health.openFor = Math.min(health.openFor * 2, LONGEST_OPEN_MS);
        health.openUntil = now + health.openFor;
      }
      hosts.set(host, health);
      if (hosts.size > MOST_HOSTS)
        for (const oldest of hosts.keys()) {
          hosts.delete(oldest);
          break;
        }
    },
  };
}
