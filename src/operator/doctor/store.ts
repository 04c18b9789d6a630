/** The doctor's facts from the database; it only reads. */
import type { DomainWithKeys } from '../../domains/domain-record.ts';
import { pageOfDomains } from '../../domains/domain-store.ts';
import { balance, type Books } from '../../messages/store/books.ts';
import type { Database } from '../../storage/database.ts';
import type { WebhookRow } from '../../storage/tables.ts';
import { sealedSecrets, type SealedUnder } from '../sealed-secrets.ts';

const MOST_ENDPOINTS = 100;
const MOST_STREAMS = 20;
/** Fewer failures in a row are normal and are tried again. */
const FAILURES_THAT_COUNT = 3;

export interface PostgresFacts {
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
