/** The pages of the menu, in groups and with their tabs, and acts that have a page or a button: for the menu and for the search. */
import { OWN_ACCOUNT } from '../accounts/account-store.ts';
import type { Scope } from '../keys/scopes.ts';
import type { Visit } from './page.ts';

interface Place {
  kind: 'page' | 'act';
  text: string;
  href: string;
  /** The right that a member's role needs for it; without it every role has it. */
  needs?: Scope | 'admin' | undefined;
}

const page = (text: string, href: string, needs?: Place['needs']): Place => ({ kind: 'page', text, href, needs });
const act = (text: string, href: string, needs?: Place['needs']): Place => ({ kind: 'act', text, href, needs });

/** An entry of the menu, and the pages below it. It leads to the first that the member may open; several are shown as tabs. */
type Entry = readonly [icon: string, ...tabs: Place[]];

/** Shown only if there are several; it is found by the search all the same. */
const ACCOUNTS = '/accounts';

/** The groups of the menu with their entries, in their order. */
const groups: Readonly<Record<string, Readonly<Record<string, Entry>>>> = {
  Mail: {
    Overview: ['overview', page('Overview', '/')],
    Messages: [
      'messages',
      page('Messages', '/messages'),
      page('Received', '/messages/received'),
      page('Events', '/events'),
    ],
    Templates: ['templates', page('Templates', '/templates')],
    Suppressions: ['suppressions', page('Suppressions', '/suppressions')],
    Stats: ['stats', page('Stats', '/stats'), page('Reputation', '/reputation')],
  },
  'Set up': {
    Domains: ['domains', page('Domains', '/domains')],
    Webhooks: ['webhooks', page('Webhooks', '/webhooks')],
    Developer: [
      'developer',
      page('API keys', '/developer/keys'),
      page('Request log', '/developer/log'),
      page('Actions', '/developer/actions'),
      page('API', '/developer/api'),
    ],
    Settings: [
      'settings',
      page('Settings', '/settings', 'settings'),
      page('Streams', '/streams'),
      page('Team', '/team', 'admin'),
      page('Accounts', ACCOUNTS, 'admin'),
      page('Addresses', '/settings/sources', 'admin'),
    ],
  },
  Server: {
    Queue: ['queue', page('Queue', '/queue', 'admin')],
    Doctor: ['doctor', page('Doctor', '/doctor', 'admin')],
  },
};

const all: readonly Place[] = [
  ...Object.values(groups).flatMap((entries) => Object.values(entries).flatMap(([, ...tabs]) => tabs)),
  page('First steps', '/welcome', 'key'),
  act('New key', '/developer/keys/new', 'key'),
  act('New template', '/templates/new', 'template'),
  act('New webhook', '/webhooks/new', 'webhook'),
  act('Add a domain', '/domains', 'domain'),
  act('Change your password, second factor', '/profile'),
  // Signing out is a form, not a page.
  act('Sign out', '/logout'),
  act('Pause a domain, hold mail', '/queue?pause#hold', 'admin'),
  act('Nodes, the servers of this database', '/settings/nodes', 'admin'),
];

type Viewer = Pick<Visit, 'isAdmin' | 'may'>;

/** Returns the places that the member's role may open. */
const openTo = ({ isAdmin, may }: Viewer, places: readonly Place[]): Place[] =>
  places.filter(({ needs }) => needs === undefined || (needs === 'admin' ? isAdmin : may(needs)));

/** Returns every place that the member may open, for the search. */
export const placesOf = (viewer: Viewer): Place[] => openTo(viewer, all);

/** Returns the act of an administrator for a recipient domain that was typed: `gmail.com`, `@gmail.com`, `pause gmail.com`. */
export function pausingOf(text: string): Place[] {
  const domain = /^(?:pause\s+|hold\s+)?(?:domain:|@)?((?:[a-z0-9-]{1,63}\.)+[a-z0-9-]{2,63})$/i.exec(text)?.[1];
  if (domain === undefined) return [];
  const name = domain.toLowerCase();
  return [act(`Pause mail to ${name}`, `/queue?domain=${encodeURIComponent(name)}&pause#ask-pause`)];
}

/** There is nothing to choose beside the server's own account; a member who looks at that one gets back. */
export const hasSeveralAccounts = ({ accounts, account }: Pick<Visit, 'accounts' | 'account'>): boolean =>
  accounts.some(({ id }) => id !== account.id && id !== OWN_ACCOUNT);

/** Returns what the menu shows on the page at `path`, and the tabs of the page if it is one of several below its entry. */
export function menuFor(visit: Viewer & Pick<Visit, 'accounts' | 'account'>, path: string) {
  const isSeveral = hasSeveralAccounts(visit);
  let shownTabs: Place[] = [];
  const shown = Object.entries(groups).map(([label, entries]) => ({
    label,
    entries: Object.entries(entries).flatMap(([text, [icon, ...tabs]]) => {
      const open = openTo(visit, tabs).filter(({ href }) => isSeveral || href !== ACCOUNTS);
      const [first] = open;
      if (first === undefined) return [];
      if (open.length > 1 && open.some(({ href }) => href === path)) shownTabs = open;
      return [{ label: text, icon, href: first.href, on: tabs.some(({ href }) => isWithin(path, href)) }];
    }),
  }));
  const tabs = shownTabs.map(({ text, href }) => ({ label: text, href, on: href === path }));
  return { groups: shown.filter(({ entries }) => entries.length > 0), tabs };
}

const isWithin = (path: string, href: string): boolean =>
  href === '/' ? path === '/' : path === href || path.startsWith(`${href}/`);
