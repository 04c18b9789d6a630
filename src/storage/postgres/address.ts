/** How a PostgreSQL server is reached and signed in to. */
import { readFileSync } from 'node:fs';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import { readPostgresUrl, type PostgresUrl } from '../../base/postgres-url.ts';
import type { StoreAddress } from '../database.ts';

export interface PostgresAddress extends PostgresUrl {
  password: string | null;
}

/** Returns the address with its password. Throws if the file with the password cannot be read. */
export function addressOf({ url, password = null, passwordFile = null }: StoreAddress): PostgresAddress {
  const fromFile = passwordFile === null ? null : readFileSync(passwordFile, 'utf8').replace(/\r?\n$/, '');
  return { ...readPostgresUrl(url), password: password ?? fromFile };
}

/**
 * Returns the kinds of TLS to try with a host, in their order; null is none. As with PostgreSQL's own programs, `prefer` and `require`
 * encrypt and do not look at the certificate, and a socket of this machine is never encrypted.
 */
export function tlsOf({ sslMode, rootCertificate }: PostgresAddress, host: string): (TlsOptions | null)[] {
  if (host.startsWith('/') || sslMode === 'disable') return [null];
  const unchecked: TlsOptions = { rejectUnauthorized: false };
  if (sslMode === 'prefer') return [unchecked, null];
  if (sslMode === 'require') return [unchecked];
  const checked: TlsOptions = {
    rejectUnauthorized: true,
    ...(rootCertificate === null ? {} : { ca: readFileSync(rootCertificate, 'utf8') }),
  };
  return [sslMode === 'verify-ca' ? { ...checked, checkServerIdentity: () => undefined } : checked];
}
