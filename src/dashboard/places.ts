/** The pages of the menu, in groups and with their tabs, and acts that have a page or a button: for the menu and for the search. */
import { OWN_ACCOUNT } from '../accounts/account-store.ts';
import type { Scope } from '../keys/scopes.ts';
import type { Visit } from './page.ts';

export interface Place {
  kind: 'page' | 'act';
  text: string;
  href: string;
  /** The right that a member's role needs for it; without it every role has it. */
  scope?: Scope;
  /** True for what only administrators may open. */
  isForAdmins?: boolean;
  /** True for what is shown only if there are several accounts; it is found by the search all the same. */
  isForSeveral?: boolean;
}

type Conditions = Pick<Place, 'scope' | 'isForAdmins' | 'isForSeveral'>;
type Viewer = Pick<Visit, 'isAdmin' | 'may'> & Partial<Pick<Visit, 'accounts'>>;

const page = (text: string, href: string, conditions: Conditions = {}, kind: Place['kind'] = 'page'): Place => ({
  kind,
  text,
  href,
  ...conditions,
});
const act = (text: string, href: string, conditions?: Conditions): Place => page(text, href, conditions, 'act');
const admins = { isForAdmins: true } as const;

/** An entry of the menu, and the pages below it. It leads to the first that the member may open; several are shown as tabs. */
type Entry = readonly [text: string, icon: string, ...tabs: Place[]];

/** The groups of the menu with their entries, in their order. */
const groups: readonly (readonly [label: string, ...entries: Entry[]])[] = [
  [
    'Mail',
    ['Overview', 'overview', page('Overview', '/')],
    [
      'Messages',
      'messages',
      page('Messages', '/messages'),
      page('Received', '/messages/received'),
      page('Events', '/events'),
    ],
    ['Templates', 'templates', page('Templates', '/templates')],
    ['Suppressions', 'suppressions', page('Suppressions', '/suppressions')],
    ['Stats', 'stats', page('Stats', '/stats'), page('Reputation', '/reputation')],
  ],
  [
    'Set up',
    ['Domains', 'domains', page('Domains', '/domains')],
    ['Webhooks', 'webhooks', page('Webhooks', '/webhooks')],
    [
      'Developer',
      'developer',
      page('API keys', '/developer/keys'),
      page('Request log', '/developer/log'),
      page('Actions', '/developer/actions'),
      page('API', '/developer/api'),
    ],
    [
      'Settings',
      'settings',
      page('Settings', '/settings', { scope: 'settings' }),
      page('Streams', '/streams'),
      page('Team', '/team', admins),
      page('Accounts', '/accounts', { ...admins, isForSeveral: true }),
      page('Addresses', '/settings/sources', admins),
    ],
  ],
  [
    'Server',
    ['Queue', 'queue', page('Queue', '/queue', admins)],
    ['Doctor', 'doctor', page('Doctor', '/doctor', admins)],
  ],
];

/** Signing out is a form, not a page. */
export const SIGN_OUT = '/logout';

const acts: readonly Place[] = [
  page('First steps', '/welcome', { scope: 'key' }),
  act('New key', '/developer/keys/new', { scope: 'key' }),
  act('New template', '/templates/new', { scope: 'template' }),
  act('New webhook', '/webhooks/new', { scope: 'webhook' }),
  act('Add a domain', '/domains', { scope: 'domain' }),
  act('Change your password, second factor', '/profile'),
  act('Sign out', SIGN_OUT),
  act('Pause a domain, hold mail', '/queue?pause#hold', admins),
  act('Nodes, the servers of this database', '/settings/nodes', admins),
];

/** Returns the act of an administrator for a recipient domain that was typed: `gmail.com`, `@gmail.com`, `pause gmail.com`. */
export function pausingOf(text: string): Place[] {
  const domain = /^(?:pause\s+|hold\s+)?(?:domain:|@)?((?:[a-z0-9-]{1,63}\.)+[a-z0-9-]{2,63})$/i.exec(text)?.[1];
  if (domain === undefined) return [];
  const name = domain.toLowerCase();
  return [act(`Pause mail to ${name}`, `/queue?domain=${encodeURIComponent(name)}&pause#ask-pause`)];
}

/** Returns the places that the member's role may open. */
const openTo = ({ isAdmin, may }: Viewer, places: readonly Place[]): Place[] =>
  places.filter(({ scope, isForAdmins = false }) => (isAdmin || !isForAdmins) && (scope === undefined || may(scope)));

/** There is nothing to choose beside the server's own account; a member who looks at that one gets back. */
export const hasSeveralAccounts = ({ accounts, account }: Pick<Visit, 'accounts' | 'account'>): boolean =>
  accounts.some(({ id }) => id !== account.id && id !== OWN_ACCOUNT);

export interface MenuEntry {
  label: string;
  icon: string;
  href: string;
  on: boolean;
}

export interface Menu {
  groups: { label: string; entries: MenuEntry[] }[];
  /** The tabs of the page, if it is one of several below its entry. */
  tabs: { label: string; href: string; on: boolean }[];
}

/** Returns what the menu shows on the page at `path`. */
export function menuFor(visit: Viewer & Pick<Visit, 'accounts' | 'account'>, path: string): Menu {
  const isSeveral = hasSeveralAccounts(visit);
  const menu: Menu = { groups: [], tabs: [] };
  for (const [label, ...entries] of groups) {
    const shown = entries.flatMap(([text, icon, ...tabs]): MenuEntry[] => {
      const open = openTo(visit, tabs).filter((tab) => isSeveral || tab.isForSeveral !== true);
      const [first] = open;
      if (first === undefined) return [];
      if (open.length > 1 && open.some(({ href }) => href === path))
        menu.tabs = open.map((tab) => ({ label: tab.text, href: tab.href, on: tab.href === path }));
      return [{ label: text, icon, href: first.href, on: tabs.some(({ href }) => isWithin(path, href)) }];
    });
    if (shown.length > 0) menu.groups.push({ label, entries: shown });
  }
  return menu;
}

const isWithin = (path: string, href: string): boolean =>
  href === '/' ? path === '/' : path === href || path.startsWith(`${href}/`);

/** Returns every place that the member may open, for the search. */
export const placesOf = (visit: Viewer): Place[] =>
  openTo(visit, [...groups.flatMap(([, ...entries]) => entries.flatMap(([, , ...tabs]) => tabs)), ...acts]);
