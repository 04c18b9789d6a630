/** The menu. Pure. */

export interface Entry {
  label: string;
  href: string;
  on: boolean;
}

const forAll = [
  ['Overview', '/'],
  ['Messages', '/messages'],
  ['Events', '/events'],
  ['Stats', '/stats'],
  ['Reputation', '/reputation'],
  ['Templates', '/templates'],
  ['Suppressions', '/suppressions'],
  ['Domains', '/domains'],
  ['Streams', '/streams'],
  ['Webhooks', '/webhooks'],
  ['Developer', '/developer'],
  ['Settings', '/settings'],
] as const;

const forAdmins = [
  ['Queue', '/queue'],
  ['Doctor', '/doctor'],
  ['Accounts', '/accounts'],
  ['Team', '/team'],
] as const;

/** Returns the entries in order, with the one of `path` marked. */
export function navigation(path: string, isAdmin: boolean): { main: Entry[]; admin: Entry[] } {
  const entry = ([label, href]: readonly [string, string]): Entry => ({
    label,
    href,
    on: href === '/' ? path === '/' : path === href || path.startsWith(`${href}/`),
  });
  return { main: forAll.map(entry), admin: isAdmin ? forAdmins.map(entry) : [] };
}
