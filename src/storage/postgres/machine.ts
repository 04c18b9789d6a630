/**
 * Which processes see each other's numbers: those of one run of one kernel, in one namespace of process numbers. Only of such a process it
 * can be said whether it is there.
 */
import { readFileSync, readlinkSync } from 'node:fs';

const BOOT_ID = '/proc/sys/kernel/random/boot_id';
const PID_NAMESPACE = '/proc/self/ns/pid';
const HEX_UUID = /^([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})$/;

/**
 * Returns the name of the namespace of process numbers that has this process; null if it is not known. `toldBootId` is what the service
 * manager says if a sandbox hides the kernel's own.
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
