/** Settings of the account, the limits of its plan with their use, how to send by SMTP, the list of changes. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import MarkdownIt from 'markdown-it';
import { isMissing } from '../../base/error-code.ts';
import type { Problem } from '../../base/problem.ts';
import type { Settings } from '../../client/types.ts';
import type { DashboardDeps } from '../deps.ts';
import { filledIn, fieldNumber } from '../forms.ts';
import { get, move, post, view, withFault, type Page, type Shown, type Visit } from '../page.ts';
import { DAY_MS } from '../../base/time.ts';
import { refuseStale, seenIn } from '../stale-forms.ts';

const WHERE = '/settings';

/** Names of the server's limits that are not their words. */
const retentionWords: Readonly<Record<string, string>> = {
  audit: 'request log and actions',
  requestDetails: 'details of requests',
};

type Deps = Pick<DashboardDeps, 'version' | 'config'>;

export function settingsPages(deps: Deps): Page[] {
  const versions = readVersions();
  return [
    get(WHERE, (visit) => show(deps, visit, null)),
    post(
      WHERE,
      withFault(change, (visit, fault) => show(deps, visit, fault)),
    ),
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

async function show({ version, config }: Deps, visit: Visit, fault: Problem | null): Promise<Shown> {
  const [settings, backup] = await Promise.all([
    visit.ask('getSettings'),
    visit.isAdmin ? visit.ask('backup.state') : null,
  ]);
  const entered = fault === null ? { ...settings, ...settings.retention } : filledIn(visit.form);
  const { smtp, retention } = config;
  const data = {
    settings,
    seen: seenIn(visit.form, fault, changeable(settings)),
    entered,
    fault,
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
  return view('settings', 'Settings', data);
}

/** Returns what the form changes. */
const changeable = ({ track_opens: opens, track_clicks: clicks, retention }: Settings): unknown => [
  opens,
  clicks,
  retention,
];

async function change(visit: Visit): Promise<Shown> {
  const { form } = visit;
  refuseStale(form, changeable(await visit.ask('getSettings')));
  const retention = Object.fromEntries(
    ['content_days', 'messages_days', 'events_days'].map((name) => [name, fieldNumber(form, name) ?? null]),
  );
  const body = {
    track_opens: form.get('track_opens') !== null,
    track_clicks: form.get('track_clicks') !== null,
    retention,
  };
  await visit.ask('updateSettings', { body });
  return move(WHERE, 'Changed.');
}
