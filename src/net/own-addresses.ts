/** The addresses of this machine, and whether a port of ours is open at one. */
import { createSocket } from 'node:dgram';
import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Clock } from '../base/clock.ts';
import { codeOf } from '../base/error-code.ts';
import { plainAddress } from './ip.ts';

/** Asking the system takes some 50 us, more than all other checks of an address, and addresses seldom change. */
const FRESH_MS = 10_000;

/** Returns the addresses of this machine as they were within the last ten seconds. */
export function createOwnAddresses({ clock }: { clock: Clock }): () => readonly string[] {
  let last: { addresses: readonly string[]; until: number } | null = null;
  return () => {
    const now = clock.monotonic();
    if (last === null || last.until <= now) last = { addresses: present(), until: now + FRESH_MS };
    return last.addresses;
  };
}

const present = (): string[] =>
  Object.values(networkInterfaces()).flatMap((all = []) => all.flatMap(({ address }) => plainAddress(address) ?? []));

/**
 * Returns whether connections can come from the address. The system is asked, by binding a socket: an address may be usable and at no interface
 * (a local route, `ip_nonlocal_bind`).
 */
export function isUsableHere(ip: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket(isIPv4(ip) ? 'udp4' : 'udp6');
    const end = (isUsable: boolean): void => void socket.close(() => resolve(isUsable));
    // Other errors, such as a lack of descriptors, say nothing about the address.
    socket.once('error', (error) => end(!/^(?:EADDRNOTAVAIL|EAFNOSUPPORT|EINVAL)$/.test(codeOf(error))));
    socket.bind({ address: ip, port: 0, exclusive: true }, () => end(true));
  });
}

/** A port of ours: the address that it is bound to, which may be that of all, and its number while it is open. */
export interface OpenPort {
  readonly host: string;
  readonly open: number | null;
}

/** Returns whether one of these ports is open at this address. `own` returns the addresses of this machine. */
export function isOpenAt(
  ports: readonly OpenPort[],
  own: () => readonly string[],
  { ip, port }: { readonly ip: string; readonly port: number },
): boolean {
  return ports.some(({ host, open }) => {
    if (open !== port) return false;
    if (host === '::' || (host === '0.0.0.0' && isIPv4(ip))) return own().includes(plainAddress(ip) ?? ip);
    return plainAddress(host) === plainAddress(ip);
  });
}
