/** Figures other than those of mail: sending domains, webhook backlog, reports, and whether the books balance. */
import type { Clock } from '../../base/clock.ts';
import { gauge, type Family } from './exposition.ts';
import { balance } from '../../messages/store/books.ts';
import type { Database } from '../../storage/database.ts';

interface Deps {
  db: Pick<Database, 'reader'>;
  clock: Clock;
}

const ENDPOINT_STATES = ['active', 'paused', 'disabled'];

export async function webhookFigures({ db, clock }: Deps): Promise<Family[]> {
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
export async function domainFigures({ db }: Pick<Deps, 'db'>): Promise<Family[]> {
  const rows = await db.reader.raw<{ state: string; n: number }[]>(
    `SELECT CASE WHEN status = 'verified' AND (failing_since IS NULL OR found_again_at IS NOT NULL) THEN 'verified'
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
export async function hindranceFigures({ db }: Pick<Deps, 'db'>): Promise<Family[]> {
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
export async function reportFigures({ db }: Pick<Deps, 'db'>): Promise<Family[]> {
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
export async function balanceFigures({ db }: Pick<Deps, 'db'>): Promise<Family[]> {
  const { balanced } = await balance(db.reader);
  return [
    gauge('posthorn_books_balanced', 'Whether counters and rows agree, looked at once an hour.', balanced ? 1 : 0),
  ];
}
