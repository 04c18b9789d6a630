/** The answers of others to our mail: reports of receivers (DMARC, TLS), block lists, and settings that were changed meanwhile. */
import { noAct } from '../support/harness/audit-columns.ts';
import { newId } from '../../src/base/id.ts';
import type { Rows } from '../../src/storage/rows.ts';
import type { Chance } from './chance.ts';
import type { SeedDeps } from './set-up.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const OURS = '192.0.2.25';
const reporters = ['google.com', 'Enterprise Outlook', 'Yahoo', 'mail.ru', 'comcast.net'] as const;

/** For as many days as there is mail. */
export async function seedWorld(
  { db, clock }: SeedDeps,
  chance: Chance,
  { accountId, days }: { accountId: string; days: number },
): Promise<void> {
  const now = clock.now();
  const first = Math.floor(now / DAY_MS - Math.min(days, 60)) * DAY_MS;
  const rows = { dmarc_rows: [], tls_report_rows: [], audit: [], listings: [], list_checks: [] } as {
    [T in 'dmarc_rows' | 'tls_report_rows' | 'audit' | 'listings' | 'list_checks']: NonNullable<Rows[T]>[number][];
  };
  for (let at = first; at < now - DAY_MS; at += DAY_MS)
    for (const org of reporters) {
      const report = {
        report_id: newId('rep', at),
        org,
        report_key: `${org}-${String(at)}`,
        from_at: at,
        until_at: at + DAY_MS,
      };
      const line = (domain: string, source_ip: string, count: number, passes: boolean) =>
        rows.dmarc_rows.push({
          id: newId('rep', at),
          ...report,
          domain,
          source_ip,
          count,
          disposition: passes ? 'none' : 'quarantine',
          dkim: passes ? 'pass' : 'fail',
          spf: passes ? 'pass' : 'fail',
          header_from: domain,
          envelope_from: passes ? `rp.${domain}` : 'elsewhere.example',
          dkim_domain: passes ? domain : '',
          dkim_selector: passes ? 'ph' : '',
          dkim_result: passes ? 'pass' : 'none',
          spf_domain: passes ? `rp.${domain}` : 'elsewhere.example',
          spf_result: passes ? 'pass' : 'softfail',
        });
      line('shop.acme.test', OURS, 200 + chance.below(900), true);
      if (chance.odds(0.2)) line('acme.test', `203.0.113.${String(chance.below(250))}`, 1 + chance.below(20), false);
      if (org === 'google.com' || org === 'Enterprise Outlook')
        rows.tls_report_rows.push({
          id: newId('rep', at),
          ...report,
          domain: 'rp.shop.acme.test',
          policy: 'no-policy-found',
          result: chance.odds(0.1) ? 'certificate-expired' : '',
          mx: 'mail.acme.test',
          source_ip: '',
          ip: '',
          reason: '',
          sessions: 5 + chance.below(60),
        });
    }
  rows.listings.push({
    ip: OURS,
    list: 'psbl.surriel.com',
    since: now - 19 * DAY_MS,
    until: now - 17.5 * DAY_MS,
    codes: '127.0.0.2',
  });
  for (const list of ['bl.spamcop.net', 'psbl.surriel.com', 'zen.spamhaus.org'])
    rows.list_checks.push({ ip: OURS, list, state: list.startsWith('zen') ? 'refused' : 'clear', at: now - HOUR_MS });
  for (const [ago, method, endpoint, operation, summary] of [
    [23, 'POST', '/v1/domains', 'createDomain', 'added the domain shop.acme.test'],
    [18.6, 'CLI', 'queue.limit', 'queue.limit', 'set the limit of the lane google'],
    [9, 'POST', '/v1/domains/{id}/dkim/rotate', 'rotateDomainDkim', 'made new DKIM keys for acme.test'],
    [4, 'PATCH', '/v1/streams/{id}', 'updateStream', 'changed the stream broadcast'],
  ] as const) {
    const at = now - ago * DAY_MS;
    rows.audit.push({
      id: newId('aud', at),
      at,
      account_id: accountId,
      key_id: null,
      actor: method === 'CLI' ? 'operator' : 'member:ana@acme.test',
      ip: method === 'CLI' ? null : '192.0.2.77',
      method,
      endpoint,
      status: 200,
      result: 'ok',
      error_code: null,
      request_id: newId('req', at),
      ms: 5,
      idempotency_replayed: 0,
      user_agent: null,
      ...noAct,
      operation,
      summary,
    });
  }
  await db.commit.insert(rows);
}
