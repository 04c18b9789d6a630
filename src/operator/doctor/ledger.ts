/** Checks of the database: whether the books balance, webhook endpoints work, and recipients can unsubscribe with one click. */
import { pluralize } from '../../base/pluralize.ts';
import { failed, ok, orWell, unseen, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';
import { DAY_MS, HOUR_MS } from '../../base/time.ts';

export async function books({ store }: Probes): Promise<readonly Verdict[]> {
  if (store.kind === 'missing') return [unseen(store)];
  const { balanced, accepted, faults } = await store.books();
  if (balanced) return [ok(`balanced: ${pluralize(accepted, 'recipient')} accepted`)];
  return faults.map((fault) =>
    failed(
      `the books do not balance: ${fault}`,
      'Keep a copy of the data folder and report it. If the file was copied while the server ran, restore a backup instead.',
    ),
  );
}

export async function webhooks({ store, clock }: Probes): Promise<readonly Verdict[]> {
  if (store.kind === 'missing') return [unseen(store)];
  const [count, sick] = await Promise.all([store.endpointCount(), store.sickEndpoints()]);
  const faults = sick.map(({ id, account_id, url, status, disabled_reason: reason, failing_since: since }) => {
    const about = { object: 'webhook', id, name: url, account_id } as const;
    if (status === 'disabled')
      return failed(
        `${url} is disabled (${reason ?? 'no reason given'}): its events wait`,
        `Have its owner fix it, then: posthorn webhooks enable ${id}`,
        { about, copy: [`posthorn webhooks enable ${id}`] },
      );
    const hours = Math.floor((clock.now() - (since ?? clock.now())) / HOUR_MS);
    return warning(
      `${url} has failed for ${pluralize(hours, 'hour')}`,
      `See what it answers: GET /v1/webhooks/${id}/deliveries; after five days of failures it is disabled.`,
      { about },
    );
  });
  return orWell(faults, `${pluralize(count, 'endpoint')}, none failing`);
}

const MONTH_MS = 30 * DAY_MS;

/** Mail readers unsubscribe with one click only over https (RFC 8058 section 3.2), and large providers ask it of broadcasts. */
export async function oneClick({ store, config, clock }: Probes): Promise<readonly Verdict[]> {
  const { publicUrl } = config.http;
  if (publicUrl.startsWith('https:')) return [ok(`${publicUrl} is https`)];
  if (store.kind === 'missing') return [unseen(store)];
  const streams = await store.broadcastsSince(clock.now() - MONTH_MS);
  if (streams.length === 0) return [ok('http, and no broadcast was sent: one-click unsubscribe is not needed')];
  return [
    warning(
      `${publicUrl} is plain http, so broadcasts (${streams.slice(0, 5).join(', ')}) go without one-click unsubscribe`,
      'Put the API behind https (a proxy, or `http.tls`) and set `http.publicUrl` to that address.',
    ),
  ];
}
