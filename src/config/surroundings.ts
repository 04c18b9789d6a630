/** What defaults depend on besides the settings: the working directory, the rights of this process, the name of this machine. */
import { readFileSync } from 'node:fs';
import os from 'node:os';
import { isatty } from 'node:tty';
import type { Surroundings } from './schema.ts';

/** What this process and machine are like. */
export function readSurroundings(): Surroundings {
  return { cwd: process.cwd(), privileged: isPrivileged(), terminal: isatty(1), hostname: fullHostName() };
}

const CAP_NET_BIND_SERVICE = 10n;

function isPrivileged(): boolean {
  if (process.getuid?.() === 0) return true;
  const mask = /^CapEff:\s*([0-9a-f]{1,16})$/m.exec(contentOf('/proc/self/status'))?.[1];
  return mask !== undefined && ((BigInt(`0x${mask}`) >> CAP_NET_BIND_SERVICE) & 1n) === 1n;
}

/** As `hostname --fqdn` finds it where the name stands in /etc/hosts; DNS is not asked, since a start must not wait for it. */
function fullHostName(): string {
  const short = os.hostname().toLowerCase();
  if (short.includes('.')) return short;
  return nameInHosts(contentOf('/etc/hosts'), short) ?? short;
}

/** The first dotted name on a line of /etc/hosts that also has the short name, or null. */
export function nameInHosts(hosts: string, short: string): string | null {
  for (const line of hosts.split('\n')) {
    const [, ...names] = (line.split('#')[0] ?? '').trim().toLowerCase().split(/\s+/);
    const full = names.find((name) => name.startsWith(`${short}.`));
    if (full !== undefined) return full;
  }
  return null;
}

/** What a system has not is taken as empty: each reader has a default for that. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
