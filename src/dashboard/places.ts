/** The pages of the menu, and acts that have a page or a button: for the menu and for the search. */
import type { Scope } from '../keys/scopes.ts';
import type { Visit } from './page.ts';

export interface Place {
  kind: 'page' | 'act';
  text: string;
  href: string;
  /** The right that a member's role needs for it; without it every role has it. */
  scope?: Scope;
}

const place =
  (kind: Place['kind']) =>
  (text: string, href: string, scope?: Scope): Place => ({
    kind,
    text,
    href,
    ...(scope === undefined ? {} : { scope }),
  });
const page = place('page');
const act = place('act');

/** The entries of the menu in their order. */
export const menu = {
  forAll: [
    page('Overview', '/'),
    page('Messages', '/messages'),
    page('Events', '/events'),
    page('Stats', '/stats'),
    page('Reputation', '/reputation'),
    page('Templates', '/templates'),
    page('Suppressions', '/suppressions'),
    page('Domains', '/domains'),
    page('Streams', '/streams'),
    page('Webhooks', '/webhooks'),
    page('Developer', '/developer'),
    page('Settings', '/settings', 'settings'),
    page('First steps', '/welcome', 'key'),
  ],
  forAdmins: [page('Queue', '/queue'), page('Doctor', '/doctor'), page('Accounts', '/accounts'), page('Team', '/team')],
} as const;

/** Signing out is a form, not a page. */
export const SIGN_OUT = '/logout';

const acts: readonly Place[] = [
  act('New key', '/developer/keys/new', 'key'),
  act('New template', '/templates/new', 'template'),
  act('New webhook', '/webhooks/new', 'webhook'),
  act('Add a domain', '/domains', 'domain'),
  act('Request log', '/developer/log'),
  act('Change your password, second factor', '/profile'),
  act('Sign out', SIGN_OUT),
];
const actsOfAdmins: readonly Place[] = [
  act('Pause a domain, hold mail', '/queue?pause#hold'),
  act('Addresses that mail is sent from', '/settings/sources'),
  act('Nodes, the servers of this database', '/settings/nodes'),
];

/** Returns the act of an administrator for a recipient domain that was typed: `gmail.com`, `@gmail.com`, `pause gmail.com`. */
export function pausingOf(text: string): Place[] {
  const domain = /^(?:pause\s+|hold\s+)?(?:domain:|@)?((?:[a-z0-9-]{1,63}\.)+[a-z0-9-]{2,63})$/i.exec(text)?.[1];
  if (domain === undefined) return [];
  const name = domain.toLowerCase();
  return [act(`Pause mail to ${name}`, `/queue?domain=${encodeURIComponent(name)}&pause#ask-pause`)];
}

/** Returns the entries that the member's role may open. */
export const openTo = ({ may }: Pick<Visit, 'may'>, places: readonly Place[]): Place[] =>
  places.filter(({ scope }) => scope === undefined || may(scope));

export const placesOf = (visit: Pick<Visit, 'isAdmin' | 'may'>): Place[] =>
  openTo(visit, [...menu.forAll, ...(visit.isAdmin ? [...menu.forAdmins, ...actsOfAdmins] : []), ...acts]);
