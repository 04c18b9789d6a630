/** Settings of the account, with the limits of its plan and how to send by SMTP; and the pages beside it: streams, accounts, sending addresses, nodes. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import MarkdownIt from 'markdown-it';
import { capital } from '../../domains/lost-records.ts';
import { fieldNumber } from '../forms.ts';
import { get, view, type Page, type Visit } from '../page.ts';
import { DAY_MS } from '../../base/time.ts';
import { resource } from '../resource.ts';

/** Names of the server's limits that are not their words. */
const retentionWords: Readonly<Record<string, string>> = {
  audit: 'request log and actions',
  requestDetails: 'details of requests',
};

/** The fields of the form that are one member of the settings. */
const DAYS = ['content_days', 'messages_days', 'events_days'] as const;
/** Age from which the newest backup is marked as old: one is made every night. */
const OLD_BACKUP_MS = 1.5 * DAY_MS;
const BUILT_IN = ['transactional', 'broadcast'];

/** The list of changes as HTML, if it is installed. Its links into the documents, which are not served here, become plain words. */
const [changes] = ['../../..', '../../../..']
  .map((up) => path.resolve(import.meta.dirname, up, 'CHANGELOG.md'))
  .filter((file) => existsSync(file))
  .map((file) =>
    readFileSync(file, 'utf8')
      .replace(/^# .*\n/, '')
      .replaceAll(/\[([^\]]+)\](?:\((?!https?:)[^)]*\)|(?!\())/g, '$1'),
  )
  .map((text) => new MarkdownIt({ html: false }).render(text));

export const settingsPages: readonly Page[] = [
  ...resource({
    path: '/settings',
    view: 'settings',
    title: 'Settings',
    load: settings,
    reads: {
      content_days: ({ form }) => ({
        retention: Object.fromEntries(DAYS.map((name) => [name, fieldNumber(form, name) ?? null])),
      }),
    },
  }),
  get('/settings/changelog', ({ server: { version } }) => view('changelog', 'What is new', { version, changes })),
  ...resource({
    path: '/streams',
    view: 'streams',
    title: 'Streams',
    async load(visit) {
      const { data } = await visit.ask('listStreams', { query: { limit: '100' } });
      return { rows: data.map((stream) => ({ ...stream, isBuiltIn: BUILT_IN.includes(stream.slug) })) };
    },
  }),
  ...resource({
    path: '/accounts',
    view: 'accounts',
    title: 'Accounts',
    who: 'admin',
    async load(visit) {
      const { data } = await visit.ask('accounts.list');
      const rows = data.map((row) => ({ ...row, isThis: row.id === visit.account.id }));
      return { rows, plans: Object.keys(visit.server.config.plans) };
    },
  }),
  ...resource({
    path: '/settings/sources',
    view: 'sources',
    title: 'Addresses',
    who: 'admin',
    load: sources,
    acts: {
      async '/settings/sources/unblock'(visit, body) {
        const { unblocked } = await visit.ask('queue.unblock', { body });
        return unblocked === 0 ? 'No site has refused it.' : 'Mail is sent from it again to the sites that refused it.';
      },
    },
  }),
  ...resource({ path: '/settings/nodes', view: 'nodes', title: 'Nodes', who: 'admin', load: nodes }),
];

async function settings(visit: Visit) {
  const { version, config } = visit.server;
  const [settings, backup] = await Promise.all([
    visit.ask('getSettings'),
    visit.isAdmin ? visit.ask('backup.state') : null,
  ]);
  const newest = backup?.newest ?? null;
  return {
    settings,
    record: { ...settings, ...settings.retention },
    version,
    backup,
    isBackupOld: newest === null || Date.parse(newest.created_at) + OLD_BACKUP_MS < visit.now,
    smtp: { name: config.smtp.hostname, ...config.smtp.submission },
    server: Object.entries(config.retention).map(([what, ms]) => ({
      what: retentionWords[what] ?? what,
      days: Math.floor(ms / DAY_MS),
    })),
  };
}

/** Most sites that are shown for a source, the most used first. */
const SHOWN_SITES = 50;

async function sources(visit: Visit) {
  const [{ data, nodes }, holds] = await Promise.all([visit.ask('queue.sources'), visit.ask('queue.holds')]);
  const rows = data.map((source) => ({
    ...source,
    hold: holds.data.find(({ scope, target }) => scope === 'source' && target === source.name) ?? null,
    sites: source.warm_up
      .map((site) => ({ ...site, isFull: site.cap !== null && site.sent >= site.cap }))
      .sort((a, b) => b.sent - a.sent)
      .slice(0, SHOWN_SITES),
  }));
  return {
    rows,
    isFleet: nodes.length > 1,
    isNobody: rows.every(({ delivers }) => !delivers),
    isSystem: rows.length > 0 && rows.every(({ name }) => name === null),
    warming: rows.filter(({ sites }) => sites.length > 0),
    blocks: rows.flatMap(({ name, node, blocks }) => blocks.map((block) => ({ ...block, name, node }))),
  };
}

async function nodes(visit: Visit) {
  const [{ data }, { data: findings }] = await Promise.all([
    visit.ask('nodes.list'),
    visit.ask('doctor', { body: { checks: ['nodes'] } }),
  ]);
  const rows = data.flatMap((one) => (one.state === 'command' ? [] : [{ ...one, isThis: one.this }]));
  return {
    rows,
    isOne: rows.length < 2,
    commands: data.filter(({ state }) => state === 'command'),
    faults: findings.flatMap(({ status, why, cure }) => (status === 'ok' ? [] : [{ why: capital(why), cure }])),
  };
}
