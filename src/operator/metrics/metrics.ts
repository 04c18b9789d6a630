/** `/metrics` for Prometheus, on its own port or with `metrics.token` on the API's. The database is read at most every few seconds for it. */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { equalInConstantTime } from '../../base/secret.ts';
import { authorityOf, closeAtOnce, listenOn, logAcceptErrors } from '../../net/listening.ts';
import { version } from '../../version.ts';
import type { OperatorDeps } from '../server-route.ts';
import { exposition, EXPOSITION_TYPE, type Family, counter, gauge, summary } from './exposition.ts';
import type { Meters } from './meters.ts';
import { stat, statfs } from 'node:fs/promises';
import { backupState } from '../../backup/folder.ts';
import { isPostgresUrl } from '../../base/postgres-url.ts';
import { certificateFacts } from '../../config/certificate.ts';
import { readBounceTotals } from '../../events/stats-store.ts';
import { balance } from '../../messages/store/books.ts';
import { databaseFile, mailFolder, type Database } from '../../storage/database.ts';
import type { DeliveryStatus } from '../../storage/tables.ts';
import { HOUR_MS } from '../../base/time.ts';
import { heldFigures } from '../holds.ts';

/** Answers a request for the metrics. Returns false if the request is for another path. */
export type MetricsHandler = (request: IncomingMessage, response: ServerResponse) => boolean;

/** With `metrics.token` null, every client that reaches the port may read. */
export function metricsHandler(deps: OperatorDeps, meters: Meters): MetricsHandler {
  const { clock, nodes, log, config } = deps;
  const startedAt = clock.now();
  const groups = figureGroups.map(({ keptMs, isOfAll, reads }) => ({
    isOfAll,
    read: remembered(clock, keptMs, async () =>
      (await Promise.all(reads.map(async (read) => await read(deps)))).flat(),
    ),
  }));

  async function figures(): Promise<Family[]> {
    const read = await Promise.all(groups.map(async (one) => (one.isOfAll && !nodes.isLeader ? [] : await one.read())));
    return [...read.flat(), ...meters.families(), ...processFigures({ version, startedAt })];
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refusal = refused(request, config.metrics.token);
    if (refusal !== null) {
      send(request, response, ...refusal);
      return;
    }
    try {
      send(request, response, 200, exposition(await figures()), { 'content-type': EXPOSITION_TYPE });
    } catch (error) {
      log.error({ event: 'metrics_failed', err: error }, 'the metrics could not be read');
      send(request, response, 503, 'the figures could not be read; see the log\n');
    }
  }

  return (request, response) => {
    if (pathOf(request) !== '/metrics') return false;
    void answer(request, response);
    return true;
  };
}

/** Reads at most once in `ms`, however often it is called; a failed reading is not kept. */
function remembered(clock: Clock, ms: number, read: () => Promise<Family[]>): () => Promise<Family[]> {
  let kept: { at: number; figures: Promise<Family[]> } | null = null;
  return () => {
    if (kept !== null && clock.monotonic() - kept.at <= ms) return kept.figures;
    const figures = read();
    kept = { at: clock.monotonic(), figures };
    figures.catch(() => (kept = null));
    return figures;
  };
}

const pathOf = ({ url = '' }: IncomingMessage): string => url.split('?', 1)[0] ?? '';

type Refusal = readonly [status: number, text: string, headers?: Record<string, string>];

function refused({ method, headers }: IncomingMessage, token: string | null): Refusal | null {
  if (method !== 'GET' && method !== 'HEAD') return [405, 'only GET\n', { allow: 'GET, HEAD' }];
  const given = /^bearer +(\S+) *$/i.exec((headers.authorization ?? '').slice(0, 5000))?.[1] ?? '';
  if (token === null || equalInConstantTime(given, token)) return null;
  return [401, 'send `Authorization: Bearer <metrics.token>`\n', { 'www-authenticate': 'Bearer realm="metrics"' }];
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  text: string,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    ...headers,
    // A request body is unexpected here, and is not read.
    ...(request.method === 'GET' || request.method === 'HEAD' ? {} : { connection: 'close' }),
  });
  response.end(request.method === 'HEAD' ? undefined : text);
}

const HEAD_MS = 10_000;

export type MetricsServer = Awaited<ReturnType<typeof serveMetrics>>;

/** Listens on the separate port. Rejects if the port is taken. */
export async function serveMetrics(
  deps: { clock: Clock; log: Log },
  handler: MetricsHandler,
  host: string,
  port: number,
): Promise<{ url: string; close(): Promise<void> }> {
  const server = http.createServer(
    { requestTimeout: HEAD_MS, headersTimeout: HEAD_MS, maxHeaderSize: 16 * 1024 },
    (request, response) => {
      if (!handler(request, response)) send(request, response, 404, 'only /metrics is here\n');
    },
  );
  server.maxConnections = 64;
  logAcceptErrors(deps, server, 'metrics');
  await listenOn(server, { host, port });
  return { url: `http://${authorityOf(server)}/metrics`, close: () => closeAtOnce(server) };
}

/** Each of these is a separate counter; `bounced` is counted by class instead. */
const COUNTED: readonly (readonly [status: DeliveryStatus, help: string])[] = [
  [
    'delivered',
    'Recipients whose mail was delivered, simulated, or discarded by a route (posthorn_attempts_total tells them apart).',
  ],
  ['deferred', 'Recipients whose mail was put off, each time.'],
  ['complained', 'Recipients who complained.'],
  ['suppressed', 'Recipients that were left out because they are on the suppression list.'],
  ['failed', 'Recipients whose mail failed through a fault of ours.'],
  ['canceled', 'Recipients whose mail was canceled.'],
];

/** Reads counters from the books, so that they continue after a restart and count the mail of all nodes. */
async function bookFigures({ db }: OperatorDeps): Promise<Family[]> {
  const rows: { from_status: string; to_status: string; n: number }[] = await db
    .reader('counters')
    .select('from_status', 'to_status')
    .sum({ n: 'n' })
    .groupBy('from_status', 'to_status');
  const total = (matches: (row: (typeof rows)[number]) => boolean): number =>
    rows.filter(matches).reduce((sum, { n }) => sum + n, 0);
  return [
    counter(
      'posthorn_accepted_total',
      'Recipients whose mail was accepted.',
      total(({ from_status }) => from_status === 'none'),
    ),
    ...COUNTED.map(([status, help]) =>
      counter(
        `posthorn_${status}_total`,
        help,
        total(({ to_status }) => to_status === status),
      ),
    ),
  ];
}

/** Reads the bounces from the statistics, which know their classes. */
async function bounceFigures({ db }: OperatorDeps): Promise<Family[]> {
  const bounces = await readBounceTotals(db.reader);
  return [
    counter(
      'posthorn_bounced_total',
      'Recipients whose mail bounced, by class.',
      Object.entries(bounces).map(([name, value]) => ({ labels: { class: name }, value })),
    ),
  ];
}

interface Waiting {
  waiting: number;
  due: number;
  oldest: number;
}

/** Each lane is a time series of Prometheus; lanes beyond this number share one. */
const MOST_LANES = 50;
const OTHER_LANES = '~other';
/** Domains whose lanes are looked up for the figures; 20,000 rows would hold the main loop for a tenth of a second. */
const MOST_DOMAINS = 5_000;

function resolverFigures({ resolver }: OperatorDeps): Family[] {
  const { inFlight, waiting } = resolver.load();
  return [
    gauge('posthorn_dns_lookups_running', 'DNS look-ups that ask now.', inFlight),
    gauge('posthorn_dns_lookups_waiting', 'DNS look-ups that wait for their turn.', waiting),
  ];
}

/** Reads the partial index of waiting deliveries once: about 0.1 s for a million, on a reader. */
export async function queueFigures({ db, clock, mta }: OperatorDeps): Promise<Family[]> {
  const now = clock.now();
  const rows = await db.reader.raw<(Waiting & { domain: string | null })[]>(
    `WITH by_domain AS MATERIALIZED (
       SELECT domain, COUNT(*) AS waiting, SUM(CASE WHEN due_at <= ? THEN 1 ELSE 0 END) AS due, MIN(due_at) AS oldest
       FROM deliveries WHERE due_at IS NOT NULL GROUP BY domain),
     the_first AS MATERIALIZED (SELECT * FROM by_domain ORDER BY due DESC, waiting DESC, domain LIMIT ?)
     SELECT * FROM the_first UNION ALL
     SELECT NULL, SUM(waiting), SUM(due), MIN(oldest) FROM by_domain WHERE domain NOT IN (SELECT domain FROM the_first) HAVING COUNT(*) > 0`,
    // The domains beyond these, which have the least due, are one row, and among the other lanes.
    [now, MOST_DOMAINS],
  );
  const lanes = largest(
    addedUp(rows.map((row) => [row.domain === null ? OTHER_LANES : mta.reports.laneOf(row.domain), row] as const)),
  );
  const each = (value: (lane: Waiting) => number): Family['samples'] =>
    [...lanes].map(([lane, one]) => ({ labels: { lane }, value: value(one) }));
  const total = [...lanes.values()].reduce((sum, { waiting }) => sum + waiting, 0);
  return [
    gauge('posthorn_queue_total_depth', 'Recipients that are not finished.', total),
    gauge(
      'posthorn_queue_depth',
      'Recipients that are not finished, by lane.',
      each(({ waiting }) => waiting),
    ),
    gauge(
      'posthorn_queue_due',
      'Recipients that could be tried now, by lane.',
      each(({ due }) => due),
    ),
    gauge(
      'posthorn_queue_oldest_due_age_seconds',
      'How long the longest due recipient has been due, by lane; 0 if none is.',
      each(({ oldest }) => Math.max(0, now - oldest) / 1000),
    ),
  ];
}

/** Returns the connections of the lanes at this node, the busiest first; lanes beyond the fiftieth are left out. */
export async function laneFigures({ mta }: OperatorDeps): Promise<Family[]> {
  const busiest = await mta.reports.lanes(MOST_LANES, 'busiest');
  return [
    gauge(
      'posthorn_lane_connections',
      'Connections of this node in use, by lane.',
      busiest.map(({ name, slots }) => ({ labels: { lane: name }, value: slots })),
    ),
    gauge(
      'posthorn_lane_connection_limit',
      'Connections that the lane may use at this node now.',
      busiest.map(({ name, limit }) => ({ labels: { lane: name }, value: limit })),
    ),
  ];
}

function addedUp(rows: readonly (readonly [lane: string, waiting: Waiting])[]): Map<string, Waiting> {
  const lanes = new Map<string, Waiting>();
  for (const [lane, { waiting, due, oldest }] of rows) {
    const sum = lanes.get(lane) ?? { waiting: 0, due: 0, oldest: Infinity };
    lanes.set(lane, { waiting: sum.waiting + waiting, due: sum.due + due, oldest: Math.min(sum.oldest, oldest) });
  }
  return lanes;
}

/** Returns the lanes with the most due, then the most waiting; the rest as one. */
function largest(lanes: ReadonlyMap<string, Waiting>): Map<string, Waiting> {
  const sorted = [...lanes].sort(([, a], [, b]) => b.due - a.due || b.waiting - a.waiting);
  const shown = sorted.filter(([lane]) => lane !== OTHER_LANES).slice(0, MOST_LANES);
  const names = new Set(shown.map(([lane]) => lane));
  const rest = sorted.flatMap(([lane, one]) => (names.has(lane) ? [] : [[OTHER_LANES, one] as const]));
  return new Map([...shown, ...addedUp(rest)]);
}

function commitFigures({ db }: OperatorDeps): Family[] {
  const { groups, units, failedUnits } = db.commit.stats;
  return [
    summary('posthorn_commit_batch_size', 'Writes that shared one commit.', [
      { suffix: '_sum', value: units },
      { suffix: '_count', value: groups },
    ]),
    counter('posthorn_commit_failures_total', 'Writes that the database did not take.', failedUnits),
    gauge('posthorn_commit_waiting', 'Writes that wait for the next commit.', db.commit.waiting),
  ];
}

async function fileFigures({ db, config }: OperatorDeps): Promise<Family[]> {
  const [sizes, { bavail, bsize }] = await Promise.all([
    databaseSizes(db, databaseFile(config.storage.url)),
    statfs(mailFolder(config)),
  ]);
  return [
    gauge(
      'posthorn_database_bytes',
      'Size of the database, and of its write-ahead log if it is a file.',
      sizes.map(([file, value]) => ({ labels: { file }, value })),
    ),
    gauge(
      'posthorn_disk_free_bytes',
      'Room on the disk of the database if it is a file, else of the data folder.',
      bavail * bsize,
    ),
  ];
}

/** Without a backup the age is counted from 1970, so that the alert covers this case too. */
async function backupFigures({ clock, config }: OperatorDeps): Promise<Family[]> {
  if (isPostgresUrl(config.storage.url)) return [];
  const state = await backupState(config.backup.dir, clock.now());
  const newest = state.kind === 'read' ? state.newest : null;
  return [
    gauge(
      'posthorn_backup_age_seconds',
      'Since the newest backup was made; since 1970 if there is none.',
      (clock.now() - (newest?.at ?? 0)) / 1000,
    ),
    gauge('posthorn_backup_bytes', 'Size of the newest backup; 0 if there is none.', newest?.bytes ?? 0),
  ];
}

/** The log of PostgreSQL belongs to the whole server, so its size says nothing here. */
async function databaseSizes(
  { prepared }: Pick<Database, 'prepared'>,
  file: string | null,
): Promise<(readonly [file: string, bytes: number])[]> {
  if (file !== null) return [['database', await sizeOf(file)] as const, ['wal', await sizeOf(`${file}-wal`)] as const];
  const [row] = await prepared.all<{ bytes: number }>('SELECT pg_database_size(current_database()) AS bytes');
  return [['database', row?.bytes ?? 0] as const];
}

/** Returns 0 for a missing file: there is no log between its removal and the next write. */
async function sizeOf(file: string): Promise<number> {
  return await stat(file).then(
    ({ size }) => size,
    () => 0,
  );
}

function processFigures({ version, startedAt }: { version: string; startedAt: number }): Family[] {
  const { user, system } = process.cpuUsage();
  return [
    gauge('posthorn_build_info', 'Always 1; the labels say what runs.', [
      { labels: { version, node: process.versions.node }, value: 1 },
    ]),
    gauge('process_resident_memory_bytes', 'Memory in use.', process.memoryUsage.rss()),
    counter('process_cpu_seconds_total', 'CPU time used.', (user + system) / 1e6),
    gauge('process_start_time_seconds', 'When the process was started, Unix time.', startedAt / 1000),
  ];
}

function serverFigures({ listeners, certificate }: OperatorDeps): Family[] {
  return [
    gauge(
      'posthorn_listener_up',
      'Whether the port for mail is open; 0 while another program has it.',
      listeners().map(({ name, open }) => ({ labels: { listener: name }, value: open === null ? 0 : 1 })),
    ),
    gauge(
      'posthorn_certificate_not_after_seconds',
      'When the certificate in force expires, Unix time.',
      certificateFacts(certificate.state().cert).notAfter / 1000,
    ),
  ];
}

/** Figures of the servers that use one database, as this one sees them. */
export function nodeFigures({ nodes }: { nodes: Pick<OperatorDeps['nodes'], 'isLeader' | 'list'> }): Family[] {
  const servers = nodes.list().filter(({ isCommand }) => !isCommand);
  return [
    gauge('posthorn_nodes', 'Servers that use the database, as this one sees them.', servers.length),
    gauge(
      'posthorn_node_leads',
      'Whether this server does the chores: 1 on one of several. All of them deliver.',
      Number(nodes.isLeader),
    ),
    gauge(
      'posthorn_node_sign_of_life_age_seconds',
      'Since the last sign of life of a server, by the clock of the database.',
      servers.map(({ name, quietMs }) => ({ labels: { node: name }, value: quietMs / 1000 })),
    ),
  ];
}

const ENDPOINT_STATES = ['active', 'paused', 'disabled'];

export async function webhookFigures({ db, clock }: OperatorDeps): Promise<Family[]> {
  const { reader: read } = db;
  const states: { status: string; n: number }[] = await read('webhooks')
    .select('status')
    .count({ n: '*' })
    .groupBy('status');
  // Calls of an endpoint that is paused, disabled or resting are not late.
  const [calls] = await read.raw<{ n: number; oldest: number | null }[]>(
    `SELECT COUNT(*) AS n, MIN(CASE WHEN w.status <> 'active' THEN NULL WHEN w.rests_until > c.due_at THEN w.rests_until
         ELSE c.due_at END) AS oldest
       FROM webhook_calls c JOIN webhooks w ON w.id = c.webhook_id WHERE c.due_at IS NOT NULL`,
  );
  const [behind] = await read.raw<{ n: number | null }[]>(
    `SELECT MAX((SELECT MAX(sequence) FROM events) - cursor) AS n FROM webhooks WHERE status = 'active'`,
  );
  const late = calls?.oldest == null ? 0 : Math.max(0, clock.now() - calls.oldest) / 1000;
  return [
    gauge(
      'posthorn_webhook_endpoints',
      'Webhook endpoints by status.',
      ENDPOINT_STATES.map((status) => ({
        labels: { status },
        value: states.find((one) => one.status === status)?.n ?? 0,
      })),
    ),
    gauge('posthorn_webhook_calls_waiting', 'Webhook calls that are to be made again.', calls?.n ?? 0),
    gauge('posthorn_webhook_oldest_due_age_seconds', 'How long the longest due call has been due; 0 if none is.', late),
    gauge(
      'posthorn_webhook_backlog_events',
      'Events that the active endpoint furthest behind has not looked at.',
      Math.max(0, behind?.n ?? 0),
    ),
  ];
}

const DOMAIN_STATES = ['verified', 'failing', 'refused', 'unverified'];

/** `failing` sends until its countdown ends, `refused` lost a record for longer; a domain that was never verified, or that another account has, is neither. */
async function domainFigures({ db }: OperatorDeps): Promise<Family[]> {
  const rows = await db.reader.raw<{ state: string; n: number }[]>(
    `SELECT CASE WHEN status = 'verified' AND failing_since IS NULL THEN 'verified'
       WHEN status = 'verified' THEN 'failing' WHEN status = 'failed' AND verified_at IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM domains o WHERE o.name = domains.name AND o.status = 'verified') THEN 'refused' ELSE 'unverified' END AS state,
       COUNT(*) AS n FROM domains GROUP BY state`,
  );
  const samples = DOMAIN_STATES.map((state) => ({
    labels: { state },
    value: rows.find((row) => row.state === state)?.n ?? 0,
  }));
  return [
    gauge(
      'posthorn_domains',
      'Sending domains by whether their DNS records are found and mail from them goes.',
      samples,
    ),
  ];
}

/** Counts holds of operators, and addresses that block lists have; housekeeping asks the lists every few hours. */
export async function hindranceFigures({ db }: OperatorDeps): Promise<Family[]> {
  const { reader: read } = db;
  const [holds]: { endless: number; ending: number }[] = await read('limits')
    .where({ kind: 'hold', ended: 0 })
    .select(read.raw('COUNT(*) FILTER (WHERE until = 0) AS endless, COUNT(*) FILTER (WHERE until > 0) AS ending'));
  const [listed]: { n: number }[] = await read('listings').whereNull('until').count({ n: '*' });
  return [
    gauge('posthorn_holds', 'Holds that operators set, by whether they end by themselves.', [
      { labels: { end: 'none' }, value: holds?.endless ?? 0 },
      { labels: { end: 'timed' }, value: holds?.ending ?? 0 },
    ]),
    gauge(
      'posthorn_blocklist_listings',
      'Addresses of ours that a block list has, once for each list.',
      listed?.n ?? 0,
    ),
  ];
}

/** Reads all rows that `retention.reports` keeps, so it should run seldom. */
export async function reportFigures({ db }: OperatorDeps): Promise<Family[]> {
  const rows = await db.reader.raw<{ kind: string; state: string; n: number }[]>(
    `SELECT kind, state, SUM(n) AS n FROM (
       SELECT COALESCE(kind, 'unread') AS kind, state, 1 AS n FROM reports UNION ALL SELECT 'unread', 'new', 0) r GROUP BY kind, state`,
  );
  return [
    gauge(
      'posthorn_reports',
      'Mails to our own addresses that are kept, by what they were taken for and what became of them.',
      rows.map(({ kind, state, n }) => ({ labels: { kind, state }, value: n })),
    ),
  ];
}

/** Counts every recipient, so it runs once an hour. */
export async function balanceFigures({ db }: OperatorDeps): Promise<Family[]> {
  const { balanced } = await balance(db.reader);
  return [
    gauge('posthorn_books_balanced', 'Whether counters and rows agree, looked at once an hour.', balanced ? 1 : 0),
  ];
}

/** A second scrape within this time sees the same queue. */
const FRESH_MS = 5_000;
/** The same for figures that read more rows. */
const SELDOM_MS = 30_000;

interface Group {
  keptMs: number;
  /** Figures of the whole installation are shown by the node that leads alone: then sums over all nodes stay true. */
  isOfAll: boolean;
  reads: readonly ((deps: OperatorDeps) => Family[] | Promise<Family[]>)[];
}

const figureGroups: readonly Group[] = [
  {
    keptMs: FRESH_MS,
    isOfAll: false,
    reads: [commitFigures, resolverFigures, laneFigures, serverFigures, nodeFigures, fileFigures],
  },
  { keptMs: SELDOM_MS, isOfAll: false, reads: [backupFigures] },
  { keptMs: FRESH_MS, isOfAll: true, reads: [bookFigures, queueFigures] },
  {
    keptMs: SELDOM_MS,
    isOfAll: true,
    reads: [bounceFigures, heldFigures, domainFigures, hindranceFigures, webhookFigures, reportFigures],
  },
  { keptMs: HOUR_MS, isOfAll: true, reads: [balanceFigures] },
];
