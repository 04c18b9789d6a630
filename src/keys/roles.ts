/**
 * The roles of members of the dashboard. A role is a named set of scopes: the calls of a member carry them, and the same check
 * that refuses a key refuses the member. Only administrators also have the server: queue, accounts, team. Pure.
 */
import { Problem } from '../base/problem.ts';
import type { MemberRow } from '../storage/tables.ts';
import { scopeAllows, scopeNames, type Scope } from './scopes.ts';

export type Role = MemberRow['role'];

/** The names, as the command line and the database have them. */
export const roleNames = ['administrator', 'developer', 'support', 'read_only'] as const satisfies readonly Role[];

export interface RoleRights {
  name: Role;
  label: string;
  /** The purpose of the role, as the form of the team says it. */
  about: string;
  scopes: readonly Scope[];
  /** True for the role that sees all accounts and may perform the operations of the server. */
  hasServer: boolean;
}

const reading = scopeNames.filter((name) => name.endsWith(':read'));

/** All roles, the one with the most rights first; each has the rights of those after it. */
export const roles: readonly RoleRights[] = [
  {
    name: 'administrator',
    label: 'Administrator',
    about: 'everything in all accounts; the queue, the accounts and the team',
    scopes: scopeNames,
    hasServer: true,
  },
  {
    name: 'developer',
    label: 'Developer',
    about: 'everything in the accounts chosen below, keys and webhooks included',
    scopes: scopeNames,
    hasServer: false,
  },
  {
    name: 'support',
    label: 'Support',
    about: 'reads everything, message contents included; sends a message again; lifts suppressions',
    scopes: [...reading, 'template:render', 'message:content', 'suppression:delete', 'send'],
    hasServer: false,
  },
  {
    name: 'read_only',
    label: 'Read only',
    about: 'lists, states and numbers; no message contents, and no changes',
    scopes: [...reading, 'template:render'],
    hasServer: false,
  },
];

const byName = new Map(roles.map((role) => [role.name, role]));

export function rightsOf(name: Role): RoleRights {
  const role = byName.get(name);
  if (role === undefined) throw new Error(`there is no role ${name}`);
  return role;
}

/** Returns the refusal of a member; it names the roles that have the right. `needed`: any one of these scopes; null for operations of the server. */
export function refusedByRole(needed: readonly Scope[] | null): Problem {
  const able = roles.filter(({ scopes, hasServer }) =>
    needed === null ? hasServer : needed.some((scope) => scopeAllows(scopes, scope)),
  );
  const people = able.map(({ label }) => `${label.toLowerCase()}s`);
  const last = people.pop() ?? '';
  const who = people.length === 0 ? last : `${people.join(', ')} and ${last}`;
  const right = needed === null ? '' : ` It needs the right ${needed.map((one) => `\`${one}\``).join(' or ')}.`;
  return new Problem('insufficient_scope', `Your role does not allow this. Only ${who} may do it.${right}`);
}
