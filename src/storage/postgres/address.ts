/** How a PostgreSQL server is reached and signed in to. */
import { readFileSync } from 'node:fs';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import { readPostgresUrl, type PostgresUrl } from '../../base/postgres-url.ts';
import type { StoreAddress } from '../database.ts';
import { DatabaseRefusal } from '../mark.ts';

export interface PostgresAddress extends PostgresUrl {
  /** Returns the password; null if there is none. Its file is read for each connection, since the password may have been changed. */
  readonly password: () => string | null;
}

/** Returns the address with its password. Throws `DatabaseRefusal` if a file that it names cannot be read. */
export function addressOf({ url, password = null, passwordFile = null }: StoreAddress): PostgresAddress {
  const fromFile = (): string | null => readNamed('storage.passwordFile', passwordFile)?.replace(/\r?\n$/, '') ?? null;
  let last = password ?? fromFile();
  const readPassword = (): string | null => {
    try {
      last = password ?? fromFile();
    } catch (error) {
      // The file may be away while it is replaced; if it stays away, the password of before is as good as none.
      if (!(error instanceof DatabaseRefusal)) throw error;
    }
    return last;
  };
  const address = { ...readPostgresUrl(url), password: readPassword };
  readNamed('storage.url (sslrootcert)', address.rootCertificate);
  return address;
}

function readNamed(setting: string, file: string | null): string | null {
  if (file === null) return null;
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new DatabaseRefusal('unsuitable', `${setting}: expected a readable file: ${why}`, error);
  }
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
