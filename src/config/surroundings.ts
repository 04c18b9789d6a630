/** Reads the facts that defaults depend on: the working directory, the rights of this process, the name of this machine. */
import { readFileSync } from 'node:fs';
import os from 'node:os';
import { isatty } from 'node:tty';
import type { Surroundings } from './schema.ts';

export function readSurroundings(): Surroundings {
  return { cwd: process.cwd(), privileged: isPrivileged(), terminal: isatty(1), hostname: fullHostName() };
}

const CAP_NET_BIND_SERVICE = 10n;
const FIRST_PASSED = 3;

/** Returns the descriptors of the sockets that systemd has opened for this process (sd_listen_fds(3)). */
export function passedDescriptors(env = environment()): number[] {
  const count = env['LISTEN_PID'] === String(process.pid) ? Number(env['LISTEN_FDS']) : 0;
  return Array.from({ length: count }, (_, at) => FIRST_PASSED + at);
}

/** Returns whether this process can have ports under 1024, by its rights or from systemd. */
function isPrivileged(): boolean {
  if (process.getuid?.() === 0 || passedDescriptors().length > 0) return true;
  const mask = /^CapEff:\s*([0-9a-f]{1,16})$/m.exec(contentOf('/proc/self/status'))?.[1];
  return mask !== undefined && ((BigInt(`0x${mask}`) >> CAP_NET_BIND_SERVICE) & 1n) === 1n;
}

/** Returns the name that `hostname --fqdn` finds in /etc/hosts; DNS is not asked, since the start must not wait for it. */
function fullHostName(): string {
  const short = os.hostname().toLowerCase();
  if (short.includes('.')) return short;
  return nameInHosts(contentOf('/etc/hosts'), short) ?? short;
}

/** Returns the first dotted name on a line of /etc/hosts that also has the short name, or null. */
export function nameInHosts(hosts: string, short: string): string | null {
  for (const line of hosts.split('\n')) {
    const [, ...names] = (line.split('#')[0] ?? '').trim().toLowerCase().split(/\s+/);
    const full = names.find((name) => name.startsWith(`${short}.`));
    if (full !== undefined) return full;
  }
  return null;
}

/** Returns the text of a file, empty if the system does not have it: each caller has a default for that. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** Returns the environment of this process, which nothing else reads. */
export const environment = (): Readonly<Record<string, string | undefined>> => process.env;
