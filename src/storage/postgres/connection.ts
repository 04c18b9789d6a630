/** One connection to PostgreSQL that keeps its prepared statements and sends statements without waiting for the answers of earlier ones. */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import pg from 'pg';
import { systemClock } from '../../base/clock.ts';
import { LOST_CONNECTION, StorageUnavailable } from '../commit.ts';
import type { Connection, Value } from '../connection.ts';
import { DatabaseRefusal } from '../mark.ts';
import { textFor, type Statement } from '../sql.ts';
import { readFileSync } from 'node:fs';
import { readPostgresUrl, type PostgresUrl } from '../../base/postgres-url.ts';
import type { StoreAddress } from '../database.ts';
import { LRUCache } from 'lru-cache';

export interface SessionSettings {
  /** SQL that is run once on each new connection. */
  setUp: readonly string[];
  /** Sends statements one after the other without waiting; knex's connections do not. */
  pipeline?: boolean;
  /** If a pooler answers, looks with a second connection whether it gives each client a session of its own: for one connection of a program. */
  looksAtPooler?: boolean;
}

const CONNECT_MS = 5000;
/**
 * Takes back what an administrator has set for the role or database of other sessions: time limits and isolation. These connections are idle for
 * hours, and what needs a limit sets its own. Servers before 17 have no `transaction_timeout`.
 */
export const OWN_SESSION = `SELECT set_config(name, CASE name WHEN 'default_transaction_isolation' THEN 'read committed' ELSE '0' END, false)
  FROM pg_settings WHERE name IN ('default_transaction_isolation', 'idle_in_transaction_session_timeout', 'idle_session_timeout',
    'lock_timeout', 'statement_timeout', 'transaction_timeout')`;
/** Statements beyond these, such as those with a variable number of placeholders, are not kept by the server. */
const MOST_STATEMENTS = 300;

/** Thrown when no server of the address takes writes, for whatever reason: it may also be a name, a certificate or a password. */
export class NoWritableServer extends StorageUnavailable {}

/** Connects to the first of the hosts that takes writes. */
export async function connectTo(
  address: PostgresAddress,
  { setUp, pipeline = true, looksAtPooler = false }: SessionSettings,
): Promise<pg.Client> {
  const refusals: string[] = [];
  const isOnly = address.hosts.length === 1;
  for (const { host, port } of address.hosts) {
    try {
      const client = await connectToHost(address, host, port, pipeline);
      const isPooled = await withinTime(client, () => isBehindPooler(client));
      if (isPooled && looksAtPooler)
        await refuseSharedSessions(client, () => connectToHost(address, host, port, pipeline));
      if (await withinTime(client, () => isSetUp(client, setUp))) return client;
      await client.end();
      refusals.push(`${host} takes no writes`);
    } catch (error) {
      if (error instanceof DatabaseRefusal) throw error;
      const why = error instanceof Error ? error.message : String(error);
      if (isOnly) throw new NoWritableServer(why, { cause: error });
      refusals.push(`${host}: ${why}`);
    }
  }
  throw new NoWritableServer(`no server of storage.url takes writes: ${refusals.join('; ')}`);
}

/** A server that does not answer in time loses the connection. */
async function withinTime<Result>(client: pg.Client, work: () => Promise<Result>): Promise<Result> {
  const limit = { isOver: false };
  const late = systemClock.after(CONNECT_MS, () => {
    limit.isOver = true;
    dropSocket(client);
  });
  try {
    return await work();
  } catch (error) {
    if (!limit.isOver) throw error;
    throw new Error(
      `no answer to the first question within ${String(CONNECT_MS / 1000)} seconds; a pooler may have no session left, or no database`,
      { cause: error },
    );
  } finally {
    late.cancel();
  }
}

async function isSetUp(client: pg.Client, setUp: readonly string[]): Promise<boolean> {
  if (!(await takesWrites(client))) return false;
  for (const sql of [OWN_SESSION, ...setUp]) await client.query(sql);
  return true;
}

/** Ends the connection at this side only: a server that is gone would not answer a good-bye. Its statements fail as lost. */
export function dropSocket(client: pg.Client): void {
  (client as pg.Client & { connection: { stream: Socket } }).connection.stream.destroy();
}

export const configOf = (
  { user, password, database }: PostgresAddress,
  host: string,
  port: number,
  ssl: boolean | TlsOptions,
) => {
  const known = password();
  return {
    host,
    port,
    user,
    database,
    ...(known === null ? {} : { password: known }),
    ssl,
    types,
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_MS,
    application_name: 'posthorn',
  };
};

async function connectToHost(
  address: PostgresAddress,
  host: string,
  port: number,
  pipeline: boolean,
): Promise<pg.Client> {
  const kinds = tlsOf(address, host);
  for (const [place, ssl] of kinds.entries()) {
    const client = new pg.Client({ ...configOf(address, host, port, ssl ?? false), pipeline });
    // A lost connection also fails its statements, which say so.
    client.on('error', () => undefined);
    try {
      await client.connect();
      return client;
    } catch (error) {
      const isWithoutTls = error instanceof Error && error.message.includes('does not support SSL');
      if (place === kinds.length - 1 || !isWithoutTls) throw error;
    }
  }
  throw new Error('there is no way to connect');
}

async function takesWrites(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ is_read_only: string }>(
    "SELECT current_setting('transaction_read_only') AS is_read_only",
  );
  return rows[0]?.is_read_only === 'off';
}

async function readProcess(client: pg.Client): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  return rows[0]?.pid;
}

/**
 * Returns whether another program answers for the server: it hands out a process number that does not run the query. What the last client left in the
 * session is cleared, since the pooler may not do it.
 */
async function isBehindPooler(client: pg.Client): Promise<boolean> {
  const { processID } = client as pg.Client & { processID: number | null };
  if ((await readProcess(client)) === processID) return false;
  await client.query('DISCARD ALL');
  return true;
}

/** Rounds of questions: other clients of the pooler may ask in between, so that a single one can tell too little. */
const POOLER_ROUNDS = 8;

/**
 * Throws `DatabaseRefusal` if a pooler gives one session of the server to several clients: settings and prepared statements would be those of others,
 * and notices missed. Such a pooler lets an idle session answer the next client that asks, so one process answers two clients, or several one.
 */
async function refuseSharedSessions(client: pg.Client, connect: () => Promise<pg.Client>): Promise<void> {
  const other = await connect();
  try {
    const own = await withinTime(client, () => readProcess(client));
    for (let round = 0; round < POOLER_ROUNDS; round++) {
      const others = await withinTime(other, () => readProcess(other));
      // An odd number of questions: a pooler that takes two sessions in turn would otherwise give each client the same one again.
      const first = await withinTime(client, () => readProcess(client));
      const second = await withinTime(client, () => readProcess(client));
      if (others === own || first !== own || second !== own) throw sharedSessions();
    }
  } catch (error) {
    dropSocket(client);
    throw error;
  } finally {
    dropSocket(other);
  }
}

const sharedSessions = (): DatabaseRefusal =>
  new DatabaseRefusal(
    'unsuitable',
    'a pooler gives sessions of the database to several clients: set pool_mode = session for it (PgBouncer), or name the server itself in storage.url',
  );

/** A connection and what the committer needs beyond its statements. */
export interface PostgresConnection extends Connection {
  /** Runs a statement and returns its tag, such as `COMMIT`, with the notices that came with it. */
  tagOf(sql: string): Promise<{ tag: string; notices: readonly string[] }>;
  /** Connects if there is no connection. */
  ready(): Promise<void>;
  /** Gives the connection up as lost, without waiting for the server, if it was opened before this time of the monotonic clock. */
  drop(openedBefore: number): void;
}

/** Makes a connection that connects at its first use. `reconnects`: the next statement replaces a lost one; not for transactions, which must fail. */
export function createPostgresConnection(
  connect: () => Promise<pg.Client>,
  { reconnects }: { reconnects: boolean },
): PostgresConnection {
  const names = new Map<string, string>();
  /** Unlike that of any other connection: if a pooler mixes sessions up, a statement is then missing, and no other one runs in its place. */
  const prefix = `s${randomBytes(4).toString('hex')}_`;
  let client: pg.Client | null = null;
  let openedAt = 0;
  let connecting: Promise<pg.Client> | null = null;
  let notices: string[] = [];
  let isClosed = false;

  /** A statement that comes after the close must not connect again: the process would never end. */
  function opened(): Promise<pg.Client> {
    if (isClosed) return Promise.reject(new ConnectionLost());
    return (connecting ??= connect().then(
      (fresh) => {
        connecting = null;
        client = fresh;
        openedAt = systemClock.monotonic();
        fresh.on('notice', ({ code }) => {
          if (code !== undefined) notices.push(code);
        });
        const forget = (): void => {
          if (client === fresh) client = null;
        };
        fresh.once('error', forget);
        fresh.once('end', forget);
        return fresh;
      },
      (error: unknown) => {
        connecting = null;
        throw error;
      },
    ));
  }

  function nameOf(text: string): string | undefined {
    const before = names.get(text);
    if (before !== undefined || names.size >= MOST_STATEMENTS) return before;
    const name = `${prefix}${String(names.size)}`;
    names.set(text, name);
    return name;
  }

  function send(on: pg.Client, sql: string | Statement, values: readonly Value[]): Promise<pg.QueryResult> {
    const { text, json } = postgresText(textFor('postgres', sql));
    const name = nameOf(text);
    return new Promise((resolve, reject) => {
      on.query(
        { text, values: cleaned(values, json) as Value[], ...(name === undefined ? {} : { name }) },
        (error: Error | undefined, result: pg.QueryResult) => {
          // The types say that there is always an error object.
          if (error) reject(error);
          else resolve(result);
        },
      );
    });
  }

  async function perform(sql: string | Statement, values: readonly Value[] = []): Promise<pg.QueryResult> {
    if (client === null && !reconnects) throw new ConnectionLost();
    try {
      return await send(client ?? (await opened()), sql, values);
    } catch (error) {
      if (!reconnects || !isConnectionLoss(error)) throw error;
      return await send(client ?? (await opened()), sql, values);
    }
  }

  return {
    engine: 'postgres',
    async all<Row>(sql: string | Statement, values?: readonly Value[]): Promise<Row[]> {
      return (await perform(sql, values)).rows as Row[];
    },
    async run(sql, values) {
      await perform(sql, values);
    },
    async tagOf(sql) {
      notices = [];
      const { command } = await perform(sql);
      return { tag: command, notices };
    },
    async ready() {
      if (client === null) await opened();
    },
    drop(openedBefore) {
      if (client !== null && openedAt < openedBefore) dropSocket(client);
    },
    async close() {
      isClosed = true;
      const last = client ?? (await connecting?.catch(() => null)) ?? null;
      client = null;
      await last?.end();
    },
  };
}

/** Thrown by statements of a transaction whose connection was lost. */
export class ConnectionLost extends StorageUnavailable {
  constructor() {
    super('the connection to the database was lost');
  }
}

/** Returns whether the error says that the connection is lost or the server stops: SQLSTATE class 08, 57P01 to 57P05, or the socket's. */
export function isConnectionLoss(error: unknown): boolean {
  if (error instanceof ConnectionLost || error instanceof NoWritableServer || error instanceof DatabaseRefusal)
    return true;
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  // 25006: the server has become a standby. 25P03: it ended the session, since this process paused within a transaction.
  return (
    /^(?:08...|57P0[1-5]|25006|25P03|ECONNRESET|ECONNREFUSED|EPIPE|ENOENT|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|E(?:HOST|NET)(?:UNREACH|DOWN))$/.test(
      code,
    ) || LOST_CONNECTION.test(error.message)
  );
}

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
 * Returns the kinds of TLS to try with a host, in order; null is none. As with PostgreSQL's programs, `prefer` and `require` encrypt without a look
 * at the certificate, and a socket of this machine is never encrypted.
 */
function tlsOf({ sslMode, rootCertificate }: PostgresAddress, host: string): (TlsOptions | null)[] {
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

interface PostgresText {
  text: string;
  /** The places of the values that are JSON, whose escapes PostgreSQL reads. */
  json: readonly number[];
}

const MOST_TEXTS = 1000;
const known = new LRUCache<string, PostgresText>({ max: MOST_TEXTS });

/** Numbers the placeholders of a statement: `?` is `$1`, then `$2`. A question mark inside quotes is not a placeholder. */
export function postgresText(sql: string): PostgresText {
  const before = known.get(sql);
  if (before !== undefined) return before;
  let place = 0;
  const text = sql.replaceAll(/'(?:[^']|'')*'|"[^"]*"|\?/g, (part) => (part === '?' ? `$${String(++place)}` : part));
  const made = { text, json: jsonPlaces(text) };
  known.set(sql, made);
  return made;
}

/** Returns the places of the values that a statement with numbered placeholders reads as JSON. */
export const jsonPlaces = (text: string): number[] =>
  [...text.matchAll(/\$(\d+)::jsonb/g)].map(([, place]) => Number(place) - 1);

/** Stands for characters that PostgreSQL cannot store. */
const REPLACEMENT = '\uFFFD';
const REPLACEMENT_ESCAPE = '\\ufffd';
const NUL = '\0';

/** Replaces what PostgreSQL refuses: NUL, and lone surrogates in JSON. A reply with one could not be written, and the mail would be sent for ever. */
export function cleaned(values: readonly Value[], json: readonly number[]): readonly Value[] {
  if (!values.some((value, place) => needsCleaning(value, json.includes(place)))) return values;
  return values.map((value, place) => {
    if (typeof value !== 'string') return value;
    const text = value.replaceAll(NUL, REPLACEMENT);
    return json.includes(place) ? cleanedJson(text) : text;
  });
}

const needsCleaning = (value: Value, isJson: boolean): boolean =>
  typeof value === 'string' && (value.includes(NUL) || (isJson && value.includes('\\u')));

/** JSON.stringify escapes NUL and lone surrogates; a backslash in front of the escape would make it the text of one. */
const cleanedJson = (json: string): string =>
  json.replaceAll(/\\\\|\\u0000|\\ud[89ab][0-9a-f]{2}|\\ud[c-f][0-9a-f]{2}/gi, (found) =>
    found === '\\\\' ? found : REPLACEMENT_ESCAPE,
  );

/** The types that the program reads as numbers, by their number in PostgreSQL's catalogue: bool, int8, int2, int4, float4, float8, numeric. */
const BOOLEAN = 16;
const NUMBERS: ReadonlySet<number> = new Set([20, 21, 23, 700, 701, 1700]);
const BYTES = 17;

const number = (text: string): number => Number(text);
const flag = (text: string): number => (text === 't' ? 1 : 0);
const bytes = (text: string): Buffer => Buffer.from(text.slice(2), 'hex');
const same = (text: string): string => text;

/** How the driver reads values: numbers and flags as numbers, as SQLite gives them, everything else as text. */
export const types = {
  getTypeParser(oid: number): (text: string) => unknown {
    if (NUMBERS.has(oid)) return number;
    if (oid === BOOLEAN) return flag;
    return oid === BYTES ? bytes : same;
  },
};
