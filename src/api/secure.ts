/** Detects requests over TLS, and has the header for browsers that use it. */
import type { BlockList } from 'node:net';
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { isListed } from '../net/ip.ts';
import { clientAddress } from './client-address.ts';

/** Over TLS here, at the trusted proxy before us, or by what the operator says the address is. */
export function isSecure({ socket, headers }: IncomingMessage, publicUrl: string, trusted: BlockList): boolean {
  if ((socket as Partial<TLSSocket>).encrypted === true || publicUrl.startsWith('https:')) return true;
  return (
    headers['x-forwarded-proto'] === 'https' &&
    isListed(trusted, clientAddress(socket.remoteAddress, undefined, trusted))
  );
}

/**
 * RFC 6797: from now on this host is only asked over TLS, for a year. Its subdomains are not included, as they may serve
 * something else; nor do tracking hosts get it, which are names of customers.
 */
export const HSTS = { 'Strict-Transport-Security': 'max-age=31536000' } as const;
