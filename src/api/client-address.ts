/** The address of the client, on which allow-lists depend, as the connection or a trusted proxy has it; and whether it came over TLS. */
import type { BlockList } from 'node:net';
import { isListed, isPublicAddress, plainAddress } from '../net/ip.ts';
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';

/** Returns the address in canonical form. `X-Forwarded-For` is read from its end while the writer is trusted: clients' entries never count. */
export function clientAddress(
  remote: string | undefined,
  forwardedFor: string | undefined,
  trusted: BlockList,
): string {
  let address = plainAddress(remote ?? '') ?? '0.0.0.0';
  if (forwardedFor === undefined || !isListed(trusted, address)) return address;
  const hops = forwardedFor.split(',');
  while (hops.length > 0 && isListed(trusted, address)) {
    const named = plainAddress(withoutPort(hops.pop()?.trim() ?? ''));
    if (named === null) break;
    address = named;
  }
  return address;
}

/** Keeps the first ten addresses with untrusted `X-Forwarded-For`; returns whether this is new. Not public ones: any client can write the header. */
export function isNewProxy(known: Set<string>, remote: string | undefined, trusted: BlockList): boolean {
  const ip = plainAddress(remote ?? '');
  if (ip === null || known.has(ip) || known.size >= 10 || isPublicAddress(ip) || isListed(trusted, ip)) return false;
  known.add(ip);
  return true;
}

/** Some proxies write `1.2.3.4:5678` or `[2001:db8::1]:5678`. */
function withoutPort(hop: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(hop)?.[1];
  return bracketed ?? hop.replace(/^([0-9.]+):\d{1,5}$/, '$1');
}

/** Over TLS here, at the trusted proxy before us, or by what the operator says the address is. */
export function isSecure({ socket, headers }: IncomingMessage, publicUrl: string, trusted: BlockList): boolean {
  if ((socket as Partial<TLSSocket>).encrypted === true || publicUrl.startsWith('https:')) return true;
  return (
    headers['x-forwarded-proto'] === 'https' &&
    isListed(trusted, clientAddress(socket.remoteAddress, undefined, trusted))
  );
}

/** RFC 6797: TLS only, for a year. Subdomains are left out, as they may serve something else; so are tracking hosts, names of customers. */
export const HSTS = { 'Strict-Transport-Security': 'max-age=31536000' } as const;
