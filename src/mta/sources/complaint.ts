/** Counts a complaint against the source that the mail left from. */
import type { Database } from '../../storage/database.ts';
import type { Sites } from '../sites/sites.ts';
import type { Sources } from './sources.ts';

export interface ComplaintDeps {
  db: Pick<Database, 'prepared'>;
  sites: Pick<Sites, 'find'>;
  sources: Pick<Sources, 'named' | 'complained'>;
}

export async function noteComplaint({ db, sites, sources }: ComplaintDeps, deliveryId: string): Promise<void> {
  if (!sources.named) return;
  const [row] = await db.prepared.all<{ source: string | null; domain: string }>(
    `SELECT a.source, d.domain FROM deliveries d JOIN attempts a ON a.message_id = d.message_id AND a.delivery_id = d.id
     WHERE d.id = ? AND a.outcome = 'accepted' ORDER BY a.id DESC LIMIT 1`,
    [deliveryId],
  );
  if (row?.source == null) return;
  const destination = await sites.find(row.domain);
  if (destination.kind === 'site') sources.complained(row.source, destination.name);
}
