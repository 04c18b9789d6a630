/** Numbers by template, as far back as there are events whose message still knows its template. */
import type { Knex } from 'knex';

/** As in events/stats.ts at the time of writing; a migration never changes. */
const providers: Readonly<Record<string, readonly string[]>> = {
  google: ['gmail.com', 'googlemail.com'],
  microsoft: [
    'outlook.com',
    'hotmail.com',
    'live.com',
    'msn.com',
    'hotmail.co.uk',
    'hotmail.fr',
    'hotmail.de',
    'hotmail.it',
    'hotmail.es',
    'outlook.fr',
    'outlook.de',
    'outlook.es',
    'live.fr',
    'live.nl',
    'live.co.uk',
  ],
  yahoo: [
    'yahoo.com',
    'ymail.com',
    'rocketmail.com',
    'aol.com',
    'yahoo.co.uk',
    'yahoo.fr',
    'yahoo.de',
    'yahoo.it',
    'yahoo.es',
    'yahoo.ca',
    'yahoo.com.br',
    'yahoo.co.in',
    'yahoo.in',
  ],
  yahoo_japan: ['yahoo.co.jp'],
  apple: ['icloud.com', 'me.com', 'mac.com'],
  gmx: ['gmx.de', 'gmx.net', 'gmx.at', 'gmx.ch', 'gmx.com', 'web.de', 'mail.com'],
  proton: ['proton.me', 'protonmail.com', 'pm.me'],
  mailru: ['mail.ru', 'bk.ru', 'inbox.ru', 'list.ru'],
  yandex: ['yandex.ru', 'yandex.com', 'ya.ru'],
  qq: ['qq.com', 'foxmail.com'],
  netease: ['163.com', '126.com', 'yeah.net'],
  comcast: ['comcast.net', 'xfinity.com'],
  orange: ['orange.fr', 'wanadoo.fr'],
  free: ['free.fr'],
  telekom: ['t-online.de', 'magenta.de'],
  libero: ['libero.it', 'virgilio.it', 'iol.it'],
  zoho: ['zoho.com', 'zohomail.com'],
  fastmail: ['fastmail.com', 'fastmail.fm'],
};

/** What counts an event under each name. */
const counted: readonly (readonly [type: string, condition: string])[] = [
  ...['sent', 'delivered', 'deferred', 'bounced', 'complained', 'suppressed', 'failed', 'unsubscribed'].map(
    (type) => [type, `e.type = '${type}'`] as const,
  ),
  ...['hard', 'soft', 'block'].map(
    (kind) => [`bounced_${kind}`, `e.type = 'bounced' AND e.detail_json->>'class' = '${kind}'`] as const,
  ),
  ...['opened', 'clicked'].flatMap((type) => [
    [type, `e.type = '${type}' AND e.machine = 0`] as const,
    [`unique_${type}`, `e.type = '${type}' AND e.machine = 0 AND e.detail_json->>'first' = 1`] as const,
    [`machine_${type}`, `e.type = '${type}' AND e.machine = 1`] as const,
  ]),
];

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Their events are grouped in memory. */
const MESSAGES_AT_ONCE = 5000;

export async function up(knex: Knex): Promise<void> {
  const names = counted.map(([type]) => type).join(', ');
  const target = `INSERT INTO event_counts (account_id, span, test, tag, at, stream, domain, provider, ${names})`;
  const byDomain = Object.entries(providers).flatMap(([name, domains]) => domains.map((domain) => [domain, name]));
  await knex.raw('CREATE TEMP TABLE provider_names (domain TEXT PRIMARY KEY, name TEXT NOT NULL) WITHOUT ROWID');
  await knex.raw('INSERT INTO provider_names SELECT value->>0, value->>1 FROM json_each(?)', [
    JSON.stringify(byDomain),
  ]);
  for (let after = ''; ;) {
    const [next] = await knex.raw<{ last: string | null }[]>(
      'SELECT MAX(id) AS last FROM (SELECT id FROM messages WHERE id > ? ORDER BY id LIMIT ?)',
      [after, MESSAGES_AT_ONCE],
    );
    if (next?.last == null) break;
    await knex.raw(
      `${target} SELECT e.account_id, 'template_hour', e.test, m.template_id, e.at - e.at % ${String(HOUR_MS)}, m.stream, m.from_domain,
         COALESCE(p.name, 'other'), ${counted.map(([, condition]) => `COUNT(CASE WHEN ${condition} THEN 1 END)`).join(', ')}
       FROM messages m CROSS JOIN events e INDEXED BY events_by_message ON e.message_id = m.id CROSS JOIN deliveries d ON d.id = e.delivery_id
         LEFT JOIN provider_names p ON p.domain = substr(d.address, instr(d.address, '@') + 1)
       WHERE m.id > ? AND m.id <= ? AND m.template_id IS NOT NULL
         AND e.type IN ('sent', 'delivered', 'deferred', 'bounced', 'complained', 'suppressed', 'failed', 'unsubscribed', 'opened', 'clicked')
       GROUP BY 1, 3, 4, 5, 6, 7, 8
       ON CONFLICT (account_id, span, test, tag, at, stream, domain, provider)
       DO UPDATE SET ${counted.map(([type]) => `${type} = event_counts.${type} + excluded.${type}`).join(', ')}`,
      [after, next.last],
    );
    after = next.last;
  }
  await knex.raw(
    `${target} SELECT account_id, 'template_day', test, tag, at - at % ${String(DAY_MS)}, stream, domain, provider,
       ${counted.map(([type]) => `SUM(${type})`).join(', ')}
     FROM event_counts WHERE span = 'template_hour' GROUP BY 1, 3, 4, 5, 6, 7, 8`,
  );
  await knex.raw('DROP TABLE provider_names');
}
