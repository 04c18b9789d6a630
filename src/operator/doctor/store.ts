/** The doctor's looks at the database: reading only. */
import { listDomains } from '../../domains/domain-store.ts';
import { balance } from '../../messages/store/books.ts';
import type { Database } from '../../storage/database.ts';
import type { HoldRow, WebhookRow } from '../../storage/tables.ts';
import { sealedSecrets } from '../sealed-secrets.ts';
import type { Store, WaitingIn } from './probes.ts';

const MOST_ENDPOINTS = 100;
const MOST_STREAMS = 20;
/** A failure now and then is tried again and needs nobody. */
const FAILURES_THAT_COUNT = 3;

export function storeProbes(db: Pick<Database, 'reader'>): Store {
  const { reader: read } = db;
  return {
    kind: 'store',
    books: () => balance(read),
    domains: (most) => listDomains({ db }, { accountId: null, limit: most }),
    sickEndpoints: () =>
      read<WebhookRow>('webhooks')
        .select('id', 'url', 'status', 'disabled_reason', 'failing_since')
        .where({ status: 'disabled' })
        .orWhere((query) => {
          void query.where({ status: 'active' }).andWhere('failures', '>=', FAILURES_THAT_COUNT);
        })
        .orderBy('id')
        .limit(MOST_ENDPOINTS),
    async endpointCount() {
      const row = (await read('webhooks').count({ n: '*' }).first()) as { n: number } | undefined;
      return row?.n ?? 0;
    },
    async broadcastsSince(at) {
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
    waiting: (most) =>
      read.raw<WaitingIn[]>(
        `SELECT domain, COUNT(*) AS waiting FROM deliveries WHERE due_at IS NOT NULL
         GROUP BY domain ORDER BY waiting DESC, domain LIMIT ?`,
        [most],
      ),
    endlessHolds: (most) => read<HoldRow>('holds').where({ kind: 'hold', until: null }).orderBy('id').limit(most),
    async sealKeyIds() {
      return (await sealedSecrets(read)).map(({ keyId }) => keyId);
    },
    async newestAt() {
      const row = (await read('events').select('at').orderBy('sequence', 'desc').first()) as { at: number } | undefined;
      return row?.at ?? null;
    },
  };
}
