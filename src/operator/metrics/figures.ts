/** Figures that are read at a scrape. */
import { stat, statfs } from 'node:fs/promises';
import { backupState } from '../../backup/folder.ts';
import type { Clock } from '../../base/clock.ts';
import { certificateFacts, type CertificateState } from '../../config/certificate.ts';
import { readBounceTotals } from '../../events/stats-store.ts';
import { counter, gauge, summary, type Family } from './exposition.ts';
import { balance } from '../../messages/store/books.ts';
import type { Resolver } from '../../net/resolver.ts';
import { databaseFile, mailFolder, type Database } from '../../storage/database.ts';
import type { DeliveryStatus } from '../../storage/tables.ts';
import type { LaneFactsDeps } from '../lanes.ts';
import type { Nodes } from '../../storage/nodes.ts';
import type { OperatorDeps } from '../deps.ts';

export interface FigureDeps extends LaneFactsDeps, Pick<OperatorDeps, 'listeners' | 'laneFacts' | 'limits'> {
  db: Database;
  clock: Clock;
  resolver: Pick<Resolver, 'load'>;
  /** `storage.url`. */
  url: string;
  /** `dataDir`. */
  dataDir: string;
  /** `backup.dir`; null on PostgreSQL, whose backups are its own. */
  backupDir: string | null;
  /** The certificate in force. */
  certificate: () => CertificateState;
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
export async function bookFigures({ db }: Pick<FigureDeps, 'db'>): Promise<Family[]> {
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
export async function bounceFigures({ db }: Pick<FigureDeps, 'db'>): Promise<Family[]> {
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

export function resolverFigures({ resolver }: Pick<FigureDeps, 'resolver'>): Family[] {
  const { inFlight, waiting } = resolver.load();
  return [
    gauge('posthorn_dns_lookups_running', 'DNS look-ups that ask now.', inFlight),
    gauge('posthorn_dns_lookups_waiting', 'DNS look-ups that wait for their turn.', waiting),
  ];
}

/** Reads the partial index of waiting deliveries once: about 0.1 s for a million, on a reader. */
export async function queueFigures({ db, clock, mta }: Pick<FigureDeps, 'db' | 'clock' | 'mta'>): Promise<Family[]> {
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
export async function laneFigures({ mta }: { mta: Pick<OperatorDeps['mta'], 'reports'> }): Promise<Family[]> {
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

export function commitFigures({ db }: Pick<FigureDeps, 'db'>): Family[] {
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

export async function fileFigures({ db, url, dataDir }: Pick<FigureDeps, 'db' | 'url' | 'dataDir'>): Promise<Family[]> {
  const [sizes, { bavail, bsize }] = await Promise.all([
    databaseSizes(db, databaseFile(url)),
    statfs(mailFolder({ storage: { url }, dataDir })),
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
export async function backupFigures({ clock, backupDir }: Pick<FigureDeps, 'clock' | 'backupDir'>): Promise<Family[]> {
  if (backupDir === null) return [];
  const state = await backupState(backupDir, clock.now());
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

export function processFigures({ version, startedAt }: { version: string; startedAt: number }): Family[] {
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

export function serverFigures({ listeners, certificate }: Pick<FigureDeps, 'listeners' | 'certificate'>): Family[] {
  return [
    gauge(
      'posthorn_listener_up',
      'Whether the port for mail is open; 0 while another program has it.',
      listeners().map(({ name, open }) => ({ labels: { listener: name }, value: open === null ? 0 : 1 })),
    ),
    gauge(
      'posthorn_certificate_not_after_seconds',
      'When the certificate in force expires, Unix time.',
      certificateFacts(certificate().cert).notAfter / 1000,
    ),
  ];
}

/** Figures of the servers that use one database, as this one sees them. */
export function nodeFigures(nodes: Pick<Nodes, 'isLeader' | 'list'>): Family[] {
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

export async function webhookFigures({ db, clock }: Pick<FigureDeps, 'db' | 'clock'>): Promise<Family[]> {
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
export async function domainFigures({ db }: Pick<FigureDeps, 'db'>): Promise<Family[]> {
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
export async function hindranceFigures({ db }: Pick<FigureDeps, 'db'>): Promise<Family[]> {
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
export async function reportFigures({ db }: Pick<FigureDeps, 'db'>): Promise<Family[]> {
  const rows: { kind: string | null; state: string; n: number }[] = await db
    .reader('reports')
    .select('kind', 'state')
    .count({ n: '*' })
    .groupBy('kind', 'state');
  const known = [{ kind: null, state: 'new', n: 0 }, ...rows];
  const sums = new Map<string, { labels: { kind: string; state: string }; value: number }>();
  for (const { kind, state, n } of known) {
    const labels = { kind: kind ?? 'unread', state };
    const key = `${labels.kind} ${state}`;
    sums.set(key, { labels, value: (sums.get(key)?.value ?? 0) + n });
  }
  return [
    gauge(
      'posthorn_reports',
      'Mails to our own addresses that are kept, by what they were taken for and what became of them.',
      [...sums.values()],
    ),
  ];
}

/** Counts every recipient, so it runs once an hour. */
export async function balanceFigures({ db }: Pick<FigureDeps, 'db'>): Promise<Family[]> {
  const { balanced } = await balance(db.reader);
  return [
    gauge('posthorn_books_balanced', 'Whether counters and rows agree, looked at once an hour.', balanced ? 1 : 0),
  ];
}
