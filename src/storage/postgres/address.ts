/** Reads `storage.url` of a PostgreSQL database: `postgres://user:password@host:port,host:port/database?sslmode=verify-full`. */
import { readFileSync } from 'node:fs';
import type { ConnectionOptions as TlsOptions } from 'node:tls';

const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof sslModes)[number];

/** Where the database is and how it is signed in to. */
export interface PostgresAddress {
  /** Servers of which one takes writes. A host that begins with `/` is the folder of a Unix socket. */
  hosts: readonly { host: string; port: number }[];
  user: string;
  password: string | null;
  database: string;
  sslMode: SslMode;
  /** PEM file of the authorities that the server's certificate may chain to; null for those of Node.js. */
  rootCertificate: string | null;
}

const USUAL_PORT = 5432;
const PATTERN =
  /^postgres(?:ql)?:\/\/(?:(?<user>[^:@/?]*)(?::(?<password>[^@/?]*))?@)?(?<hosts>[^/?]*)\/(?<database>[^?]*)(?:\?(?<query>.*))?$/;

export const isPostgresUrl = (url: string): boolean => /^postgres(?:ql)?:/.test(url);

/** Reads the address. Throws an Error that says what is wrong, without the password. */
export function readPostgresUrl(url: string): PostgresAddress {
  const parts = PATTERN.exec(url)?.groups;
  if (parts === undefined) throw new Error('storage.url must be postgres://user@host:port/database');
  const query = new URLSearchParams(parts['query']);
  for (const name of query.keys())
    if (!['sslmode', 'sslrootcert', 'host'].includes(name))
      throw new Error(`storage.url: \`${name}\` is not known; use sslmode, sslrootcert or host`);
  const hosts = hostsOf(query.get('host') ?? decodeURIComponent(parts['hosts'] ?? ''));
  const { user = '', password, database = '' } = parts;
  if (user === '') throw new Error('storage.url must name a user: postgres://user@host/database');
  if (database === '') throw new Error('storage.url must name a database: postgres://user@host/database');
  return {
    hosts,
    user: decodeURIComponent(user),
    password: password === undefined ? null : decodeURIComponent(password),
    database: decodeURIComponent(database),
    sslMode: sslModeOf(query.get('sslmode')),
    rootCertificate: query.get('sslrootcert'),
  };
}

function hostsOf(written: string): PostgresAddress['hosts'] {
  const hosts = written.split(',').map((one) => {
    const { host, port } = /^(?<host>\[[^\]]*\]|[^:]*)(?::(?<port>\d+))?$/.exec(one.trim())?.groups ?? {};
    if (host === undefined || host === '') throw new Error('storage.url must name a host: postgres://user@host/database');
    return { host: host.replace(/^\[(.*)\]$/, '$1'), port: port === undefined ? USUAL_PORT : Number(port) };
  });
  return hosts;
}

function sslModeOf(written: string | null): SslMode {
  if (written === null) return 'prefer';
  const mode = sslModes.find((one) => one === written);
  if (mode === undefined) throw new Error(`storage.url: sslmode must be one of ${sslModes.join(', ')}`);
  return mode;
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

/** Returns the URL without its password, for messages. */
export const withoutPassword = (url: string): string => url.replace(/^(postgres(?:ql)?:\/\/[^:@/?]*):[^@/?]*@/, '$1@');
