/** Settings of the account, the limits of its plan with their use, how to send by SMTP, the list of changes. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import MarkdownIt from 'markdown-it';
import { isMissing } from '../../base/error-code.ts';
import type { DashboardDeps } from '../deps.ts';
import { fieldNumber } from '../forms.ts';
import { get, view, type Page, type Visit } from '../page.ts';
import { DAY_MS } from '../../base/time.ts';
import { resource } from '../resource.ts';

const WHERE = '/settings';

/** Names of the server's limits that are not their words. */
const retentionWords: Readonly<Record<string, string>> = {
  audit: 'request log and actions',
  requestDetails: 'details of requests',
};

/** The fields of the form that are one member of the settings. */
const DAYS = ['content_days', 'messages_days', 'events_days'] as const;

export function settingsPages(deps: DashboardDeps): Page[] {
  const versions = readVersions();
  return [
    ...resource(deps, {
      path: WHERE,
      view: 'settings',
      title: 'Settings',
      load: (visit) => load(deps, visit),
      reads: {
        content_days: ({ form }) => ({
          retention: Object.fromEntries(DAYS.map((name) => [name, fieldNumber(form, name) ?? null])),
        }),
        messages_days: () => ({}),
        events_days: () => ({}),
      },
    }),
    get(`${WHERE}/changelog`, ({ query }) => {
      const shown = versions.find(({ name }) => name === query.get('version')) ?? versions[0];
      const chips = versions.map(({ name }) => ({
        label: name,
        href: `${WHERE}/changelog?version=${encodeURIComponent(name)}`,
        on: name === shown?.name,
      }));
      return view('changelog', 'What is new', { version: deps.version, changes: shown?.changes, chips });
    }),
  ];
}

/** Returns the changes of each version as HTML, the newest first. Their links into the documents, which are not served here, become plain words. */
function readVersions(): { name: string; changes: string }[] {
  const text = changelog();
  if (text === null) return [];
  const markdown = new MarkdownIt({ html: false });
  const [, ...sections] = text.split(/^## \[/m);
  return sections.map((section) => {
    const [name = ''] = section.split(']', 1);
    const shown = `## ${section.replace(']', '')}`.replaceAll(/\[([^\]]+)\]\((?!https?:)[^)]*\)/g, '$1');
    return { name, changes: markdown.render(shown) };
  });
}

/** Reads the file from `src/dashboard/pages` and from `dist/src/dashboard/pages` alike; null if it is not installed. */
function changelog(): string | null {
  for (const up of ['../../..', '../../../..']) {
    try {
      return readFileSync(path.resolve(import.meta.dirname, up, 'CHANGELOG.md'), 'utf8');
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
  return null;
}

/** Age from which the newest backup is marked as old: one is made every night. */
const OLD_BACKUP_MS = 1.5 * DAY_MS;

async function load({ version, config }: DashboardDeps, visit: Visit) {
  const [settings, backup] = await Promise.all([
    visit.ask('getSettings'),
    visit.isAdmin ? visit.ask('backup.state') : null,
  ]);
  const { smtp, retention } = config;
  return {
    settings,
    record: { ...settings, ...settings.retention },
    version,
    backup,
    isBackupOld:
      backup !== null && (backup.newest === null || Date.parse(backup.newest.created_at) + OLD_BACKUP_MS < visit.now),
    smtp: {
      host: smtp.hostname,
      listens: smtp.submission.host,
      port: smtp.submission.port,
      tlsPort: smtp.submission.tlsPort,
    },
    server: Object.entries(retention).map(([what, ms]) => ({
      what: retentionWords[what] ?? what,
      days: Math.floor(ms / DAY_MS),
    })),
  };
}
