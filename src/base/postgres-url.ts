/** Reads a PostgreSQL URL as `storage.url` has it: `postgres://user@host:port,host:port/database?sslmode=verify-full`. */

const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof sslModes)[number];

export interface PostgresUrl {
  /** Servers of which one takes writes. A host that begins with `/` is the folder of a Unix socket. */
  hosts: readonly { host: string; port: number }[];
  user: string;
  database: string;
  sslMode: SslMode;
  /** PEM file of the authorities that the server's certificate may chain to; null for those of Node.js. */
  rootCertificate: string | null;
}

const USUAL_PORT = 5432;
const PATTERN = /^postgres(?:ql)?:\/\/(?:(?<user>[^:@/?]*)@)?(?<hosts>[^/?]*)\/(?<database>[^?]*)(?:\?(?<query>.*))?$/;

/** Before all else: a password may have any character, and no message about the parts may quote one. */
const WITH_PASSWORD = /^[^@]*:\/\/[^@]*:.*@/s;

export const isPostgresUrl = (url: string): boolean => /^postgres(?:ql)?:/.test(url);

/** Reads the address. Throws an Error that says what is wrong. */
export function readPostgresUrl(url: string): PostgresUrl {
  if (WITH_PASSWORD.test(url))
    throw new Error('storage.url must not have the password: give it as storage.password or storage.passwordFile');
  const parts = PATTERN.exec(url)?.groups;
  if (parts === undefined) throw new Error('storage.url must be postgres://user@host:port/database');
  const query = new URLSearchParams(parts['query']);
  for (const name of query.keys())
    if (!['sslmode', 'sslrootcert', 'host'].includes(name))
      throw new Error(`storage.url: \`${name}\` is not known; use sslmode, sslrootcert or host`);
  const hosts = hostsOf(query.get('host') ?? decodeURIComponent(parts['hosts'] ?? ''));
  const { user = '', database = '' } = parts;
  if (user === '') throw new Error('storage.url must name a user: postgres://user@host/database');
  if (database === '') throw new Error('storage.url must name a database: postgres://user@host/database');
  return {
    hosts,
    user: decodeURIComponent(user),
    database: decodeURIComponent(database),
    sslMode: sslModeOf(query.get('sslmode')),
    rootCertificate: query.get('sslrootcert'),
  };
}

function hostsOf(written: string): PostgresUrl['hosts'] {
  const hosts = written.split(',').map((one) => {
    const { host, port } = /^(?<host>\[[^\]]*\]|[^:]*)(?::(?<port>\d+))?$/.exec(one.trim())?.groups ?? {};
    if (host === undefined || host === '')
      throw new Error('storage.url must name a host: postgres://user@host/database');
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

export function postgresUrlFault(url: string): string | null {
  try {
    readPostgresUrl(url);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
