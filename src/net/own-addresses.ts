/** The addresses of this machine, whether a port of ours is open at one, and which IPv6 address receivers trust. */
import { createSocket } from 'node:dgram';
import { isIPv4, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Clock } from '../base/clock.ts';
import { codeOf } from '../base/error-code.ts';
import { plainAddress, isPublicAddress } from './ip.ts';
import type { Resolver } from './resolver.ts';

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

/** Returns whether connections can come from the address, by binding a socket: it may be usable and at no interface (`ip_nonlocal_bind`). */
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

/** Addresses or names that are looked up at most. */
const MOST_ASKED = 8;

type Dns = Pick<Resolver, 'ptr' | 'aaaa'>;

export interface NamedIpv6 {
  /** The first of this machine's addresses whose PTR has an AAAA that leads back, or null. */
  address: string | null;
  /** False if there may be one, since DNS did not answer. */
  isSure: boolean;
}

/** Finds an IPv6 address of this machine that receivers trust: one with a name (PTR) that leads back to it. */
export async function namedIpv6Address(deps: { resolver: Dns }, own: readonly string[]): Promise<NamedIpv6> {
  const candidates = own.filter((ip) => isIPv6(ip) && isPublicAddress(ip)).slice(0, MOST_ASKED);
  let isSure = true;
  for (const ip of candidates) {
    const does = await leadsBack(deps, ip);
    if (does === true) return { address: ip, isSure: true };
    if (does === null) isSure = false;
  }
  return { address: null, isSure };
}

/** Returns null if DNS did not answer. */
async function leadsBack({ resolver }: { resolver: Dns }, ip: string): Promise<boolean | null> {
  const names = await resolver.ptr(ip);
  if (names.kind !== 'found') return names.kind === 'trouble' ? null : false;
  const answers = await Promise.all(names.records.slice(0, MOST_ASKED).map((name) => resolver.aaaa(name)));
  if (answers.some((answer) => answer.kind === 'found' && answer.records.some((back) => isSame(back, ip)))) return true;
  return answers.some(({ kind }) => kind === 'trouble') ? null : false;
}

const isSame = (a: string, b: string): boolean => plainAddress(a) === plainAddress(b);
