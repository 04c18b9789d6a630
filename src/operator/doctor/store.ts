/** The doctor's facts from the database, which it only reads, and their checks: the database itself, books, webhooks, nodes and domains. */
import { type DomainWithKeys, recordsOf } from '../../domains/domain-record.ts';
import { pageOfDomains } from '../../domains/domain-store.ts';
import { balance, type Books } from '../../messages/store/books.ts';
import type { Database } from '../../storage/database.ts';
import type { WebhookRow, DomainRow } from '../../storage/tables.ts';
import { sealedSecrets, type SealedUnder } from '../sealed-secrets.ts';
import { pluralize } from '../../base/pluralize.ts';
import { ageText } from './machine-checks.ts';
import { isLoopback } from './outbound.ts';
import { failed, unseen, warning, type Check, type Probes, type Verdict } from './probes.ts';
import { DAY_MS, HOUR_MS } from '../../base/time.ts';
import { isPostgresUrl, readPostgresUrl } from '../../base/postgres-url.ts';
import type { Config } from '../../config/schema.ts';
import { differingSettings } from '../../config/shared-settings.ts';
import { poolsElsewhere } from '../../config/sources.ts';
import { nodeState } from '../server-state.ts';
import { clockOffIn, type NodeRecord } from '../../storage/nodes.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import { formsOf, type DnsRecord } from '../../domains/dns-records.ts';
import { recordName } from '../../domains/lost-records.ts';
import { cureOf, type Mistake } from '../../domains/record-mistakes.ts';
import { lookUpRecords, type Found } from '../../domains/verify.ts';
import { trackingTargetOf } from '../../tracking/host.ts';

const MOST_ENDPOINTS = 100;
const MOST_STREAMS = 20;
/** Fewer failures in a row are normal and are tried again. */
const FAILURES_THAT_COUNT = 3;

interface PostgresFacts {
  version: string;
  fsync: string;
  isEncrypted: boolean;
  /** Servers that replicate now, as far as our user may see them. */
  standbys: number;
  /** The setting `synchronous_standby_names`. */
  synchronousStandbys: string;
  /** How long the oldest transaction that our user may see has been open. */
  oldestSnapshotMs: number;
}

async function readPostgresFacts(read: Database['reader']): Promise<PostgresFacts> {
  const [row] = await read.raw<(Omit<PostgresFacts, 'isEncrypted'> & { encrypted: number })[]>(
    `SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
       COALESCE((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted,
       (SELECT COUNT(*) FROM pg_stat_replication) AS standbys,
       current_setting('synchronous_standby_names') AS "synchronousStandbys",
       COALESCE((SELECT MAX(extract(epoch FROM now() - xact_start)) * 1000 FROM pg_stat_activity
         WHERE datname = current_database() AND backend_xmin IS NOT NULL), 0) AS "oldestSnapshotMs"`,
  );
  if (row === undefined) throw new Error('the database tells nothing about itself');
  const { encrypted, ...facts } = row;
  return { ...facts, isEncrypted: encrypted === 1 };
}

export function storeProbes(db: Pick<Database, 'reader'>) {
  const { reader: read } = db;
  return {
    kind: 'store' as const,
    books: (): Promise<Books> => balance(read),
    /** Returns at most `most`, of all accounts. */
    domains: async (most: number): Promise<readonly DomainWithKeys[]> =>
      (await pageOfDomains({ db }, { accountId: null, limit: most })).domains,
    /** Returns the endpoints that are disabled or failing. */
    async sickEndpoints(): Promise<
      readonly Pick<WebhookRow, 'id' | 'account_id' | 'url' | 'status' | 'disabled_reason' | 'failing_since'>[]
    > {
      return await read<WebhookRow>('webhooks')
        .select('id', 'account_id', 'url', 'status', 'disabled_reason', 'failing_since')
        .where({ status: 'disabled' })
        .orWhere((query) => {
          void query.where({ status: 'active' }).andWhere('failures', '>=', FAILURES_THAT_COUNT);
        })
        .orderBy('id')
        .limit(MOST_ENDPOINTS);
    },
    async endpointCount(): Promise<number> {
      const row = (await read('webhooks').count({ n: '*' }).first()) as { n: number } | undefined;
      return row?.n ?? 0;
    },
    /** Returns slugs of broadcast streams that sent mail after this time. */
    async broadcastsSince(at: number): Promise<readonly string[]> {
      const rows = (await read('streams')
        .join('event_counts as c', (on) =>
          on.on('c.account_id', 'streams.account_id').andOn('c.stream', 'streams.slug'),
        )
        .distinct('streams.slug')
        .where({ 'streams.type': 'broadcast', 'c.span': 'day', 'c.test': 0, 'c.tag': '' })
        .andWhere('c.at', '>=', at)
        .limit(MOST_STREAMS)) as { slug: string }[];
      return rows.map(({ slug }) => slug);
    },
    /** Counts the secrets in the database by the key under which they are sealed. */
    sealedSecrets: (): Promise<readonly SealedUnder[]> => sealedSecrets(read),
    /** Returns what a PostgreSQL database tells about itself. */
    postgres: (): Promise<PostgresFacts> => readPostgresFacts(read),
    /** Returns when the newest event was written, or null. */
    async newestAt(): Promise<number | null> {
      const row = (await read('events').select('at').orderBy('sequence', 'desc').first()) as { at: number } | undefined;
      return row?.at ?? null;
    },
  };
}

export async function* books({ store }: Probes): Check {
  if (store.kind === 'missing') return yield unseen(store);
  const { balanced, accepted, faults } = await store.books();
  if (balanced) return `balanced: ${pluralize(accepted, 'recipient')} accepted`;
  for (const fault of faults)
    yield failed(
      `the books do not balance: ${fault}`,
      'Keep a copy of the data folder and report it. If the file was copied while the server ran, restore a backup instead.',
    );
  return undefined;
}

export async function* webhooks({ store, clock }: Probes): Check {
  if (store.kind === 'missing') return yield unseen(store);
  const [count, sick] = await Promise.all([store.endpointCount(), store.sickEndpoints()]);
  for (const { id, account_id, url, status, disabled_reason: reason, failing_since: since } of sick) {
    const about = { object: 'webhook', id, name: url, account_id } as const;
    const hours = Math.floor((clock.now() - (since ?? clock.now())) / HOUR_MS);
    if (status === 'disabled')
      yield failed(
        `${url} is disabled (${reason ?? 'no reason given'}): its events wait`,
        `Have its owner fix it, then: posthorn webhooks enable ${id}`,
        { about, copy: [`posthorn webhooks enable ${id}`] },
      );
    else
      yield warning(
        `${url} has failed for ${pluralize(hours, 'hour')}`,
        `See what it answers: GET /v1/webhooks/${id}/deliveries; after five days of failures it is disabled.`,
        { about },
      );
  }
  return `${pluralize(count, 'endpoint')}, none failing`;
}

const MONTH_MS = 30 * DAY_MS;

/** Mail readers unsubscribe with one click only over https (RFC 8058 section 3.2), and large providers ask it of broadcasts. */
export async function* oneClick({ store, config, clock }: Probes): Check {
  const { publicUrl } = config.http;
  if (publicUrl.startsWith('https:')) return `${publicUrl} is https`;
  if (store.kind === 'missing') return yield unseen(store);
  const streams = await store.broadcastsSince(clock.now() - MONTH_MS);
  if (streams.length === 0) return 'http, and no broadcast was sent: one-click unsubscribe is not needed';
  return yield warning(
    `${publicUrl} is plain http, so broadcasts (${streams.slice(0, 5).join(', ')}) go without one-click unsubscribe`,
    'Put the API behind https (a proxy, or `http.tls`) and set `http.publicUrl` to that address.',
  );
}

/** Beyond this age an open transaction keeps dead rows from being cleared, and the queue becomes slow. */
const OLD_SNAPSHOT_MS = HOUR_MS;

export async function* database({ config, store, server }: Probes): Check {
  const { url } = config.storage;
  if (store.kind === 'missing' && store.refusal !== undefined) return yield failed(store.why, store.cure);
  const trouble = server.kind === 'server' ? server.writeTrouble() : null;
  if (trouble !== null)
    return yield failed(
      `the database takes no writes, so new mail is refused: ${trouble}`,
      'Look at the disk and the log of the database. Posthorn tries again every five seconds.',
    );
  if (!isPostgresUrl(url)) return 'the database is a file in the data folder';
  if (store.kind === 'missing') return yield failed(`the database cannot be reached: ${store.why}`, store.cure);
  const facts = await store.postgres();
  const isRemote = readPostgresUrl(url).hosts.some(({ host }) => !host.startsWith('/') && !isLoopback(host));
  if (isRemote && !facts.isEncrypted)
    yield warning(
      'all mail goes to the database unencrypted',
      'Switch TLS on at the server, and add sslmode=verify-full to storage.url.',
    );
  else if (isRemote && !readPostgresUrl(url).sslMode.startsWith('verify'))
    yield warning(
      'the certificate of the database server is not looked at, so another server could take its place',
      'Add sslmode=verify-full to storage.url, and sslrootcert=<file> if it is not from a public authority.',
    );
  if (facts.fsync === 'off')
    yield failed(
      'fsync is off: a power cut loses accepted mail, or the whole database',
      'Set fsync = on in postgresql.conf.',
    );
  if (facts.standbys === 0 && facts.synchronousStandbys !== '')
    yield failed(
      'no standby is connected, and commits wait for one (synchronous_standby_names): no mail is accepted or delivered',
      'Start the standby, and look at its log; to go on without one, empty synchronous_standby_names and reload the server.',
    );
  if (facts.standbys > 0 && facts.synchronousStandbys === '')
    yield warning(
      'the standby servers are asynchronous: a failover may lose the last accepted messages',
      'Set synchronous_standby_names (with Patroni: synchronous_mode).',
    );
  if (facts.oldestSnapshotMs > OLD_SNAPSHOT_MS)
    yield warning(
      `a transaction has been open for ${ageText(facts.oldestSnapshotMs)}: rows that are done with cannot be cleared`,
      'Find it: SELECT pid, usename, application_name, xact_start FROM pg_stat_activity ORDER BY xact_start LIMIT 5',
    );
  return `PostgreSQL ${facts.version}`;
}

export async function* nodes({ config, server }: Probes): Check {
  if (!isPostgresUrl(config.storage.url)) return 'a database of SQLite has one server';
  if (server.kind === 'missing') return yield warning(`the nodes are unknown: ${server.why}`, server.cure);
  return yield* verdictsOnNodes(server.nodes.list(), config.delivery.sources);
}

type SourceSettings = Config['delivery']['sources'];

/** Returns what is wrong with the nodes as the database knows them, and with the sources that are bound to them. Pure. */
export async function* verdictsOnNodes(all: readonly NodeRecord[], sources: SourceSettings = []): Check {
  const servers = all.filter(({ isCommand }) => !isCommand);
  // The node that is asked is among them: it has given no sign of life either if the database does not take one.
  const isAway = servers.length > 0 && servers.every((one) => nodeState(one) === 'silent');
  const seconds = (ms: number): string => String(Math.round(ms / 1000));
  if (isAway)
    yield warning(
      `the database has not answered for ${seconds(Math.min(...servers.map(({ quietMs }) => quietMs)))} s, so nothing is known of the nodes`,
      'See the line of `database`. No node is removed because of it, and all go on when the database is back.',
    );
  for (const one of servers) {
    const { name, quietMs } = one;
    if (!isAway && nodeState(one) === 'silent')
      yield warning(
        `the node ${name} has given no sign of life for ${seconds(quietMs)} s`,
        `Look at its machine. The others remove it by themselves soon; at once: posthorn nodes remove ${name}`,
        { copy: [`posthorn nodes remove ${name}`] },
      );
    if (one.isDraining)
      yield warning(
        `the node ${name} is drained: balancers send it nothing`,
        `Stop it, or run: posthorn nodes resume ${name}`,
        { copy: [`posthorn nodes resume ${name}`] },
      );
  }
  if (servers.length > 0 && servers.every(({ isDelivering }) => !isDelivering))
    yield warning(
      'no node delivers: mail waits and webhooks are not called',
      'Give one of them the role delivery in node.roles, and restart it.',
    );
  yield* differences(servers);
  yield* faultsOfSources(servers, sources);
  const [first] = servers;
  return servers.length === 1 && first !== undefined
    ? `${first.name} is the only node: none takes over while it is down`
    : `${pluralize(servers.length, 'node')}, of the same version and with the same settings`;
}

/** Nodes say themselves how far their clocks are from that of the database. */
function* differences(servers: readonly NodeRecord[]): Generator<Verdict> {
  const versions = new Set(servers.map(({ version }) => version));
  if (versions.size > 1)
    yield warning(
      `the nodes have different versions: ${servers.map(({ name, version }) => `${name} ${version}`).join(', ')}`,
      'End the upgrade: install the same version on all of them, one after another.',
    );
  const differing = differingSettings(servers.map(({ facts }) => facts));
  if (differing.length > 0)
    yield warning(
      `the nodes have different settings: ${differing.join(', ')}`,
      'Make them the same in the settings of all nodes, and restart those that have others.',
    );
  for (const { name, facts } of servers) {
    const off = clockOffIn(facts);
    if (off !== 0)
      yield warning(
        `the clock of the node ${name} is ${String(Math.abs(off))} ms ${off > 0 ? 'ahead of' : 'behind'} that of the database: mail that a node accepts for one with an earlier clock waits by the difference`,
        'Let a time service keep the clocks of all machines: systemctl enable --now systemd-timesyncd (or chrony).',
      );
  }
}

/** A node refuses to start without a source of each pool, so that one that runs without was started with other settings. */
function* faultsOfSources(servers: readonly NodeRecord[], sources: SourceSettings): Generator<Verdict> {
  for (const { name } of servers.filter(({ isDelivering }) => isDelivering))
    for (const pool of poolsElsewhere(sources, name))
      yield warning(
        `the node ${name} has no source of the pool ${pool} in delivery.sources`,
        `Name a source of the pool with the node ${name}, or one without a node, in the settings of all nodes, and restart them.`,
      );
  for (const { name, node } of sources)
    if (node !== null && !servers.some((one) => one.name === node))
      yield warning(
        `the source ${name} belongs to the node ${node}, which is not there: nothing is sent from it`,
        'Start that node, or correct `node` of the source in delivery.sources.',
      );
}

const MOST_DOMAINS = 200;
const AT_ONCE = 8;

export async function* domains(probes: Probes): Check {
  const { store } = probes;
  if (store.kind === 'missing') return yield unseen(store);
  const all = await store.domains(MOST_DOMAINS + 1);
  const looked = all.filter(({ row }) => row.trusted === 0).slice(0, MOST_DOMAINS);
  if (all.length === 0) return 'there is no sending domain yet; `posthorn domains add` adds one';
  yield* (await inTurn(looked, (domain) => faultsOf(probes, domain))).flat();
  if (all.length > MOST_DOMAINS)
    yield warning(
      `only the newest ${String(MOST_DOMAINS)} domains were looked at`,
      'For another: posthorn domains verify NAME; all are checked every six hours, and the log tells those that break (event `domain_status`).',
    );
  const trusted = all.filter(({ row }) => row.trusted === 1).length;
  const rest = trusted === 0 ? '' : `; ${String(trusted)} more trusted without DNS`;
  return `${pluralize(looked.length, 'domain')} with all records in DNS${rest}`;
}

async function faultsOf({ config, resolver }: Probes, domain: DomainWithKeys): Promise<Verdict[]> {
  const wanted = recordsOf(domain, config.smtp.hostname, trackingTargetOf(config));
  const found = await lookUpRecords({ resolver }, wanted);
  const { row } = domain;
  return wanted.flatMap((record, at) => faultOf(row, record, found[at] ?? { status: 'unknown' }));
}

function faultOf(row: DomainRow, record: DnsRecord, found: Found): Verdict[] {
  if (found.status === 'ok' || isLeftOut(record, found)) return [];
  const { name, status } = row;
  const what = `${name}: the ${recordName(record)}`;
  if (found.status === 'unknown') return [warning(`${what} cannot be looked up`, 'See the line of `resolver`.')];
  const fault = `${what} ${faultText(found)}`;
  const why = record.required ? `${fault}${meaningOf(row)}` : fault;
  const copy = copyOf(record, found);
  const said = cureOf(record, found) ?? '';
  // A value to be copied is shown below the cure, not in it.
  const short = `the ${record.type} record of ${record.host} with this value`;
  const advice = copy.length === 0 ? said : said.replace(formsOf(record).zone_line, () => short);
  const cure = `${advice}   (all of them: posthorn domains records ${name})`;
  const more = { about: { object: 'domain', id: row.id, name, account_id: row.account_id }, copy } as const;
  return [record.required && status !== 'pending' ? failed(why, cure, more) : warning(why, cure, more)];
}

/** Optional records other than those of DMARC may be left out by choice, as an Ed25519 key or a tracking host; one at a wrong name is not. */
const isLeftOut = ({ required, purpose }: DnsRecord, found: Found): boolean =>
  found.status === 'missing' && !required && !purpose.startsWith('dmarc') && found.mistake !== 'doubled_name';

/** Returns the form of the record that its mistake asks for. */
function copyOf(record: DnsRecord, { mistake }: Exclude<Found, { status: 'unknown' }>): string[] {
  if (mistake === 'several' || mistake === 'doubled_name') return [];
  const { quoted } = formsOf(record);
  return [mistake === 'cut_off' && quoted !== null ? quoted : record.value];
}

function faultText({ status, found, mistake }: Exclude<Found, { status: 'unknown' }>): string {
  if (mistake === 'doubled_name') return 'is at a name with the domain twice';
  if (mistake === 'alias') return 'cannot be there: the name is an alias (CNAME)';
  if (status === 'missing') return 'is missing';
  const how = mistake === undefined ? undefined : mistakeTexts[mistake];
  return `${how ?? 'is not as it should be'}: ${short(found)}`;
}

const mistakeTexts: Readonly<Partial<Record<Mistake, string>>> = {
  cut_off: 'is cut off',
  quoted: 'has quotation marks in its value',
  spaces: 'has spaces or line ends in its value',
  several: 'is there more than once',
};

/** Returns the consequence of a lost record for the domain's mail. */
function meaningOf({ status, refused_at: at }: DomainRow): string {
  if (at === null) return '';
  return status === 'verified'
    ? `; mail from it keeps going until ${rfc3339(at)}`
    : `; mail from it is refused since ${rfc3339(at)}`;
}

const short = (text: string | null): string => (text ?? '').replaceAll('\n', ' | ').slice(0, 120);

async function inTurn<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE)
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))));
  return results;
}
