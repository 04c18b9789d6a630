/** The servers of `npm run torture -- nodes`: three servers of Posthorn, each before a proxy of its own, on a PostgreSQL with a synchronous standby. */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startAppliance, type Appliance } from '../bench/appliance.ts';
import { freePort, until } from '../bench/peers.ts';
import { PostgresServer, startProxy, urlOn, type Proxy } from '../support/harness/postgres-server.ts';

/** A supervisor starts a server that ended after this time. */
const RESTART_MS = 1000;

const LOOK_MS = 100;
/** For a start on a machine that has others to serve, while a dead node of its name is waited for. */
const START_MS = 90_000;

/** One server with its proxy and its supervisor. */
export interface TortureNode {
  readonly name: string;
  readonly proxy: Proxy;
  readonly httpPort: number;
  readonly smtpPort: number;
  /** The built tree that it runs from its next start on; null for this one. */
  dir: string | null;
  /** Null while it is down. */
  appliance: Appliance | null;
  /** The supervisor does not start it while this is true. */
  isKeptDown: boolean;
  /** A fault is killing it. */
  isKilled: boolean;
  /** How it ended each time that it was not killed. */
  readonly ends: (number | string)[];
}

/** A PostgreSQL whose commits wait for its standby. */
export class Pair {
  primary: PostgresServer;
  private standby: PostgresServer | null = null;
  private made = 0;
  private readonly root: string;

  constructor(root: string) {
    this.root = root;
    this.primary = this.next();
  }

  async start(): Promise<void> {
    this.primary.initialize();
    await this.primary.start();
    await this.primary.query('CREATE DATABASE posthorn');
    await this.renewStandby();
  }

  /** Makes a standby for the primary. It is copied before the primary waits for one, so that it waits for none when it is promoted. */
  async renewStandby(): Promise<void> {
    const standby = this.next();
    standby.copyOf(this.primary);
    await standby.start();
    this.standby = standby;
    await this.primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
    await this.primary.query('SELECT pg_reload_conf()');
    await until(() => this.isSynchronous(), 'a synchronous standby', 60_000);
  }

  /** Ends the primary as a crash would, and starts it again after `ms`. */
  async crash(ms: number): Promise<void> {
    await this.primary.stopAtOnce();
    await sleep(ms);
    await this.primary.start();
  }

  /** Ends the primary as a crash would, and promotes the standby. */
  async failOver(): Promise<void> {
    const { standby } = this;
    if (standby === null) throw new Error('there is no standby');
    await this.primary.stopAtOnce();
    await standby.query('SELECT pg_promote()');
    this.primary = standby;
    this.standby = null;
  }

  /** Ends the standby as a crash would, and starts it again after `ms`. Commits of the primary wait for it meanwhile. */
  async crashStandby(ms: number): Promise<void> {
    const { standby } = this;
    if (standby === null) throw new Error('there is no standby');
    await standby.stopAtOnce();
    await sleep(ms);
    await standby.start();
    await until(() => this.isSynchronous(), 'a synchronous standby', 60_000);
  }

  async stop(): Promise<void> {
    await this.standby?.stopAtOnce();
    await this.primary.stopAtOnce();
  }

  private async isSynchronous(): Promise<boolean> {
    const rows = await this.primary.query<{ n: string }>(
      "SELECT count(*) AS n FROM pg_stat_replication WHERE sync_state = 'sync'",
    );
    return rows[0]?.n === '1';
  }

  private next(): PostgresServer {
    return new PostgresServer(path.join(this.root, `database${String(this.made++)}`));
  }
}

/** Moves the clock of the program that it is loaded into. */
const CLOCK_HOOK = path.resolve(import.meta.dirname, 'clock-hook.mjs');

/** Programs that see none of each other's processes, so that the nodes take each other for other machines. */
const APART = ['unshare', '--pid', '--fork', '--kill-child'];

export interface ClusterOptions {
  env: Record<string, string>;
  /** Each node takes the others for other machines: a dead process is seen by its silence only. Needs root. */
  areApart: boolean;
  /** The built tree that all nodes run at the beginning; null for this one. */
  dir: string | null;
}

export class NodeCluster {
  readonly nodes: TortureNode[] = [];
  readonly pair: Pair;
  private readonly root: string;
  private readonly options: ClusterOptions;
  private isStopping = false;

  constructor(root: string, options: ClusterOptions) {
    this.root = root;
    this.options = options;
    this.pair = new Pair(root);
  }

  /** Starts the database and the servers, one after the other; the later ones get the key file of the first. */
  async start(count: number): Promise<void> {
    await this.pair.start();
    for (let at = 1; at <= count; at++) {
      const name = `node${String(at)}`;
      const node: TortureNode = {
        name,
        proxy: await startProxy(path.join(this.root, `proxy-${name}`), this.pair.primary),
        httpPort: await freePort(),
        smtpPort: await freePort(),
        dir: this.options.dir,
        appliance: null,
        isKeptDown: false,
        isKilled: false,
        ends: [],
      };
      mkdirSync(this.folderOf(node));
      const [first] = this.nodes;
      if (first !== undefined)
        copyFileSync(path.join(this.folderOf(first), 'secret.key'), path.join(this.folderOf(node), 'secret.key'));
      this.nodes.push(node);
      await this.startNode(node);
    }
  }

  /** Returns the node that leads as the database says: the one with the smallest epoch; null if it is down. */
  async leader(): Promise<TortureNode | null> {
    const rows = await this.pair.primary.query<{ name: string }>(
      'SELECT name FROM nodes WHERE NOT is_command ORDER BY epoch LIMIT 1',
      'posthorn',
    );
    return this.nodes.find(({ name }) => name === rows[0]?.name) ?? null;
  }

  /** All proxies lead to the primary of now. */
  repoint(): void {
    for (const { proxy } of this.nodes) proxy.pointTo(this.pair.primary);
  }

  /** Waits until every server runs and is ready. */
  async whole(ms: number): Promise<void> {
    for (const node of this.nodes) node.isKeptDown = false;
    const ready = async (): Promise<boolean> => {
      await sleep(LOOK_MS);
      if (this.nodes.some(({ appliance }) => appliance === null)) return false;
      return (await Promise.all(this.nodes.map(({ httpPort }) => isReady(httpPort)))).every((one) => one);
    };
    await until(ready, 'all nodes', ms);
  }

  /** Sets the clock of a node this many ms ahead of the machine's, or behind it. It sees that within a fraction of a second. */
  setClock(node: TortureNode, aheadMs: number): void {
    writeFileSync(this.clockOf(node), String(aheadMs));
  }

  /** Sends a signal to the program of a node; nothing if it is down. */
  signal({ appliance }: TortureNode, signal: NodeJS.Signals): void {
    if (appliance === null) return;
    const { pid } = appliance;
    const children = readFileSync(`/proc/${String(pid)}/task/${String(pid)}/children`, 'utf8');
    process.kill(this.options.areApart ? Number(children.trim().split(' ')[0]) : pid, signal);
  }

  /** Sends a signal that ends the node's program; resolves when it has. */
  async end(node: TortureNode, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const exited = node.appliance?.exited;
    node.isKilled = signal === 'SIGKILL' && node.appliance !== null;
    this.signal(node, signal);
    await exited;
  }

  /** Runs a command of one of the nodes that run. */
  async command(...args: string[]): Promise<unknown> {
    const running = this.nodes.find(({ appliance }) => appliance !== null)?.appliance;
    if (running == null) throw new Error('no node runs');
    return running.command(...args);
  }

  /** Ends all servers in order, the database last. */
  async stop(): Promise<void> {
    this.isStopping = true;
    await Promise.all(this.nodes.map((node) => this.end(node, 'SIGTERM')));
    await Promise.all(this.nodes.map(({ proxy }) => proxy.close()));
    await this.pair.stop();
  }

  private folderOf({ name }: { name: string }): string {
    return path.join(this.root, name);
  }

  private clockOf(node: TortureNode): string {
    return path.join(this.folderOf(node), 'clock');
  }

  private async startNode(node: TortureNode): Promise<void> {
    const appliance = await startAppliance({
      dataDir: this.folderOf(node),
      nodeArgs: ['--import', CLOCK_HOOK],
      port: node.httpPort,
      patienceMs: START_MS,
      under: this.options.areApart ? APART : [],
      ...(node.dir === null ? {} : { dir: node.dir }),
      env: {
        ...this.options.env,
        POSTHORN_NODE__NAME: node.name,
        TORTURE_CLOCK: this.clockOf(node),
        // The receiver tells the nodes apart by what they say with EHLO.
        POSTHORN_SMTP__HOSTNAME: `${node.name}.torture.test`,
        POSTHORN_STORAGE__URL: urlOn([node.proxy.folder], 'posthorn'),
        POSTHORN_SMTP__MX__PORT: '0',
        POSTHORN_SMTP__SUBMISSION__PORT: String(node.smtpPort),
        POSTHORN_SMTP__SUBMISSION__TLS_PORT: '0',
        POSTHORN_SMTP__SUBMISSION__TRUSTED_NETWORKS: '127.0.0.0/8',
      },
    });
    node.appliance = appliance;
    void appliance.exited.then((how) => {
      node.appliance = null;
      if (!node.isKilled) node.ends.push(how);
      node.isKilled = false;
      void this.restart(node);
    });
  }

  /** Starts a server that ended, as a supervisor does: again and again, while the database is away as well. */
  private async restart(node: TortureNode): Promise<void> {
    for (;;) {
      await sleep(RESTART_MS);
      if (this.isStopping) return;
      if (node.isKeptDown) continue;
      try {
        await this.startNode(node);
        return;
      } catch {
        // It has written why into its log.
      }
    }
  }
}

async function isReady(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${String(port)}/readyz`, { signal: AbortSignal.timeout(2000) }).then(
    (answer) => answer.ok,
    () => false,
  );
}
