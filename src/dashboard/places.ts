/** The pages of the menu, and acts that have a page or a button: for the menu and for the search. */

export interface Place {
  kind: 'page' | 'act';
  text: string;
  href: string;
}

const page = (text: string, href: string): Place => ({ kind: 'page', text, href });
const act = (text: string, href: string): Place => ({ kind: 'act', text, href });

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
    page('Exports', '/exports'),
    page('Settings', '/settings'),
    page('First steps', '/welcome'),
  ],
  forAdmins: [page('Queue', '/queue'), page('Doctor', '/doctor'), page('Accounts', '/accounts'), page('Team', '/team')],
} as const;

/** Signing out is a form, not a page. */
export const SIGN_OUT = '/logout';

const acts: readonly Place[] = [
  act('New key', '/developer/keys/new'),
  act('New template', '/templates/new'),
  act('New webhook', '/webhooks/new'),
  act('Add a domain', '/domains'),
  act('Request log', '/developer/log'),
  act('Change your password, second factor', '/profile'),
  act('Sign out', SIGN_OUT),
];
const actsOfAdmins: readonly Place[] = [
  act('Pause a domain, hold mail', '/queue#holds'),
  act('Addresses that mail is sent from', '/settings/sources'),
];

export const placesOf = (isAdmin: boolean): Place[] => [
  ...menu.forAll,
  ...(isAdmin ? menu.forAdmins : []),
  ...(isAdmin ? actsOfAdmins : []),
  ...acts,
];
