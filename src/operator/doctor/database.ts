/** Checks whether the database takes writes, and what PostgreSQL promises. A file of SQLite has the checks of the disk and of versions. */
import { isPostgresUrl, readPostgresUrl } from '../../base/postgres-url.ts';
import { DAY_MS, HOUR_MS } from '../../base/time.ts';
import { failed, ok, orWell, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';

/** Beyond this age an open transaction keeps dead rows from being cleared, and the queue becomes slow. */
const OLD_SNAPSHOT_MS = HOUR_MS;

export async function database({ config, store, server }: Probes): Promise<readonly Verdict[]> {
  const { url } = config.storage;
  if (store.kind === 'missing' && store.refusal !== undefined) return [failed(store.why, store.cure)];
  const trouble = server.kind === 'server' ? server.writeTrouble() : null;
  if (trouble !== null)
    return [
      failed(
        `the database takes no writes, so new mail is refused: ${trouble}`,
        'Look at the disk and the log of the database. Posthorn tries again every five seconds.',
      ),
    ];
  if (!isPostgresUrl(url)) return [ok('the database is a file in the data folder')];
  if (store.kind === 'missing') return [failed(`the database cannot be reached: ${store.why}`, store.cure)];
  const facts = await store.postgres();
  const faults: Verdict[] = [];
  const isRemote = readPostgresUrl(url).hosts.some(({ host }) => !host.startsWith('/') && !isLoopback(host));
  if (isRemote && !facts.isEncrypted)
    faults.push(
      warning(
        'all mail goes to the database unencrypted',
        'Switch TLS on at the server, and add sslmode=verify-full to storage.url.',
      ),
    );
  else if (isRemote && !readPostgresUrl(url).sslMode.startsWith('verify'))
    faults.push(
      warning(
        'the certificate of the database server is not looked at, so another server could take its place',
        'Add sslmode=verify-full to storage.url, and sslrootcert=<file> if it is not from a public authority.',
      ),
    );
  if (facts.fsync === 'off')
    faults.push(
      failed(
        'fsync is off: a power cut loses accepted mail, or the whole database',
        'Set fsync = on in postgresql.conf.',
      ),
    );
  if (facts.standbys === 0 && facts.synchronousStandbys !== '')
    faults.push(
      failed(
        'no standby is connected, and commits wait for one (synchronous_standby_names): no mail is accepted or delivered',
        'Start the standby, and look at its log; to go on without one, empty synchronous_standby_names and reload the server.',
      ),
    );
  if (facts.standbys > 0 && facts.synchronousStandbys === '')
    faults.push(
      warning(
        'the standby servers are asynchronous: a failover may lose the last accepted messages',
        'Set synchronous_standby_names (with Patroni: synchronous_mode).',
      ),
    );
  if (facts.oldestSnapshotMs > OLD_SNAPSHOT_MS)
    faults.push(
      warning(
        `a transaction has been open for ${ageText(facts.oldestSnapshotMs)}: rows that are done with cannot be cleared`,
        'Find it: SELECT pid, usename, application_name, xact_start FROM pg_stat_activity ORDER BY xact_start LIMIT 5',
      ),
    );
  return orWell(faults, `PostgreSQL ${facts.version}`);
}

const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || host.startsWith('127.');

const ageText = (ms: number): string =>
  ms < 2 * DAY_MS ? `${String(Math.floor(ms / HOUR_MS))} h` : `${String(Math.floor(ms / DAY_MS))} days`;
