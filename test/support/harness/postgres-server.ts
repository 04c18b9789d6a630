/** A PostgreSQL with its real settings for durability, which a test stops, promotes, has encrypt, or puts behind a proxy. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { asPostgres, postgresPrograms } from './postgres.ts';

const USER = 'posthorn';
const SOCKET = '.s.PGSQL.5432';

export class PostgresServer {
  readonly folder: string;
  private readonly settings: readonly string[];
  private readonly port: number;
  private child: ChildProcess | null = null;

  /** `folder` is its own; the socket is in it. */
  constructor(folder: string, settings: readonly string[] = [], port = 5432) {
    this.folder = folder;
    this.settings = settings;
    this.port = port;
  }

  private get data(): string {
    return path.join(this.folder, 'data');
  }

  private run(program: string, args: readonly string[]): void {
    const bin = postgresPrograms();
    if (bin === null) throw new Error('PostgreSQL is not installed (apt-get install postgresql)');
    const [command, given] = asPostgres(path.join(bin, program), args);
    execFileSync(command, given, { stdio: 'pipe', cwd: this.folder });
  }

  private makeFolder(): void {
    mkdirSync(this.folder, { recursive: true });
    chmodSync(this.folder, 0o755);
    if (process.getuid?.() === 0) execFileSync('chown', ['postgres:postgres', this.folder]);
  }

  /** Adds a file that only the server may read. */
  addFile(name: string, text: string): void {
    const file = path.join(this.data, name);
    writeFileSync(file, text, { mode: 0o600 });
    if (process.getuid?.() === 0) execFileSync('chown', ['postgres:postgres', file]);
  }

  initialize(): void {
    this.makeFolder();
    this.run('initdb', [
      ...['-D', this.data, '-U', USER, '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'],
    ]);
  }

  /** Makes this server a standby of another, which waits for it with each commit. */
  copyOf(primary: PostgresServer): void {
    this.makeFolder();
    this.run('pg_basebackup', ['-h', primary.folder, '-U', USER, '-D', this.data, '-R', '-X', 'stream', '-c', 'fast']);
  }

  async start(): Promise<void> {
    const bin = postgresPrograms() ?? '';
    const settings = ['listen_addresses=', 'max_connections=60', 'shared_buffers=64MB', ...this.settings];
    const [command, args] = asPostgres(path.join(bin, 'postgres'), [
      ...[
        '-D',
        this.data,
        '-k',
        this.folder,
        '-p',
        String(this.port),
        ...settings.flatMap((setting) => ['-c', setting]),
      ],
    ]);
    this.child = spawn(command, args, { stdio: 'ignore', cwd: this.folder });
    for (let tries = 0; !(await this.answers()); tries++) {
      if (tries > 2400) throw new Error(`PostgreSQL in ${this.folder} does not start`);
      await sleep(50);
    }
  }

  /** Ends it at once, as a crash would. */
  async stopAtOnce(): Promise<void> {
    const { child } = this;
    if (child === null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGQUIT');
    await ended;
    this.child = null;
  }

  async query<Row>(sql: string, database = 'postgres'): Promise<Row[]> {
    const client = new pg.Client({ host: this.folder, port: this.port, user: USER, database });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query(sql)).rows as Row[];
    } finally {
      await client.end();
    }
  }

  private async answers(): Promise<boolean> {
    return this.query('SELECT 1').then(
      () => true,
      () => false,
    );
  }
}

/** The URL of a database on these hosts, each a folder with a socket. */
export const urlOn = (folders: readonly string[], database: string): string =>
  `postgres://${USER}@/${database}?host=${folders.join(',')}`;

export interface Proxy {
  /** The folder of its socket. */
  folder: string;
  /** Withholds the next answer to a COMMIT, and calls `withheld` instead. */
  withholdCommit(withheld: () => void): void;
  /** New connections go to this server. */
  pointTo(server: PostgresServer): void;
  /** Passes nothing on any more and keeps the connections open, as a network does that is cut; new ones get no answer either. */
  cut(): void;
  /** Ends what was cut off, and serves again. */
  mend(): void;
  close(): Promise<void>;
}

/** Listens in a folder and passes everything on to the server. */
export async function startProxy(folder: string, first: PostgresServer): Promise<Proxy> {
  mkdirSync(folder, { recursive: true });
  let server = first;
  let withheld: (() => void) | null = null;
  let isCut = false;
  const open = new Set<net.Socket>();
  const listener = net.createServer((client) => {
    if (isCut) {
      open.add(client);
      client.on('error', () => undefined).on('close', () => open.delete(client));
      return;
    }
    const upstream = net.connect(path.join(server.folder, SOCKET));
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        open.delete(socket);
        other.destroy();
      });
    }
    client.on('data', (data) => (isCut ? undefined : void upstream.write(data)));
    upstream.on('data', (data) => {
      if (isCut) return;
      if (withheld === null || !data.includes('COMMIT\0')) return void client.write(data);
      withheld();
      withheld = null;
      client.destroy();
    });
  });
  await new Promise<void>((resolve) => listener.listen(path.join(folder, SOCKET), resolve));
  return {
    folder,
    withholdCommit(call) {
      withheld = call;
    },
    pointTo(next) {
      server = next;
    },
    cut() {
      isCut = true;
    },
    mend() {
      isCut = false;
      for (const socket of open) socket.destroy();
    },
    async close() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
