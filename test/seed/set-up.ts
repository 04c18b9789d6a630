/** Everything around the mail: account, keys, sending domains, streams, templates, endpoints and people who must not be mailed. */
import { addAccount, ensureDefaultAccount } from '../../src/accounts/account-store.ts';
import type { Clock } from '../../src/base/clock.ts';
import type { Keyring } from '../../src/base/keyring.ts';
import { addDomain } from '../../src/domains/domain-store.ts';
import { createKey } from '../../src/keys/key-store.ts';
import { scopeNames } from '../../src/keys/scopes.ts';
import type { Database } from '../../src/storage/database.ts';
import { addSuppressions } from '../../src/suppressions/suppression-store.ts';
import { createTemplate } from '../../src/templates/template-store.ts';
import { createEndpoint } from '../../src/webhooks/endpoint-store.ts';

export interface SeedDeps {
  db: Database;
  clock: Clock;
  keyring: Keyring;
}

/** An account as the mail of it needs it. */
export interface Sender {
  accountId: string;
  keyId: string;
  testKeyId: string;
  /** The key itself, with every scope. */
  key: string;
  domains: readonly [string, ...string[]];
  templates: ReadonlyMap<string, { id: string; version: number }>;
}

/** Hosts of these endpoints exist nowhere; the first two are well, one is paused, one fails. */
export const endpoints = [
  'https://hooks.acme.test/posthorn',
  'https://crm.acme.test/mail-events',
  'https://old.acme.test/hook',
  'https://broken.acme.test/hook',
] as const;

const by = { createdBy: 'operator' };

/** The default account with all that can be set up, and a second one that has little. Throws if it was done before. */
export async function setUp(deps: SeedDeps): Promise<[Sender, Sender]> {
  const { id: first } = await ensureDefaultAccount(deps);
  const { id: second } = await addAccount(deps, { name: 'harbour-foods', plan: 'unlimited' });
  const acme = await senderOf(deps, first, ['acme.test', 'mail.acme.test', 'shop.acme.test']);
  const harbour = await senderOf(deps, second, ['harbour.test']);
  await addDomain(deps, { accountId: first, name: 'new-brand.test' });
  await createKey(deps, {
    ...by,
    accountId: first,
    name: 'Old newsletter tool',
    scopes: ['campaign'],
    expiresAt: deps.clock.now() + 86_400_000,
  });
  await suppressSome(deps, first);
  for (const [place, url] of endpoints.entries())
    await createEndpoint(
      { ...deps, changed: () => undefined },
      {
        ...by,
        accountId: first,
        url,
        description: `Endpoint ${String(place + 1)}`,
        events: ['delivered', 'bounced', 'complained', 'opened', 'clicked'],
        include_engagement: place === 1,
        concurrency: 1,
        enabled: place !== 2,
      },
      () => ({}),
    );
  return [acme, harbour];
}

async function senderOf(deps: SeedDeps, accountId: string, domains: Sender['domains']): Promise<Sender> {
  for (const name of domains) await addDomain(deps, { accountId, name, trusted: true });
  const made = await createKey(deps, { ...by, accountId, name: 'Shop', scopes: scopeNames });
  const test = await createKey(deps, { ...by, accountId, name: 'Shop (test)', mode: 'test', scopes: scopeNames });
  const templates = new Map<string, { id: string; version: number }>();
  for (const [alias, subject] of [
    ['order-receipt', 'Your order {{ order.number }} is confirmed'],
    ['order-shipped', 'Order {{ order.number }} is on its way'],
    ['draft-welcome', 'Welcome, {{ name }}'],
  ] as const) {
    const { row } = await createTemplate(deps, {
      accountId,
      alias,
      name: alias.replace('-', ' '),
      publish: alias !== 'draft-welcome',
      by: 'operator',
      body: {
        subject,
        from: null,
        replyTo: [],
        html: `<h1>${subject}</h1>{% for item in items %}<p>{{ item.name }}</p>{% endfor %}`,
        text: null,
        variables: [],
        locale: 'en',
        timezone: 'UTC',
        strict: false,
        sample: null,
      },
    });
    templates.set(alias, { id: row.id, version: 1 });
  }
  return { accountId, keyId: made.row.id, testKeyId: test.row.id, key: made.key, domains, templates };
}

/** Lists that came from elsewhere: some for everything, some for newsletters, some that end. */
async function suppressSome(deps: SeedDeps, accountId: string): Promise<void> {
  const reasons = ['manual', 'hard_bounce', 'complaint', 'unsubscribe'] as const;
  const entries = Array.from({ length: 1000 }, (_, n) => ({
    ...by,
    accountId,
    email: `former-customer-${String(n)}@elsewhere.example`,
    stream: n % 3 === 0 ? 'broadcast' : null,
    reason: reasons[n % reasons.length] ?? reasons[0],
    note: n % 10 === 0 ? 'from the list of the old system' : null,
    expiresAt: n % 50 === 0 ? deps.clock.now() + 30 * 86_400_000 : null,
  }));
  await addSuppressions(deps, entries);
}
