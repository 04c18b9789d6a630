/** Sets of scopes that fit most keys. Pure. */
import { scopeNames, scopes, type Scope } from './scopes.ts';

export interface Preset {
  name: string;
  label: string;
  /** The program that it is for. */
  about: string;
  scopes: readonly Scope[];
}

export const presets: readonly Preset[] = [
  { name: 'send', label: 'Send only', about: 'one program that sends mail', scopes: ['send'] },
  {
    name: 'app',
    label: 'App server',
    about: 'sends, and looks up whether it arrived',
    scopes: ['send', 'message:read', 'template:read', 'suppression:read'],
  },
  {
    name: 'marketing',
    label: 'Marketing',
    about: 'bulk sends, templates, suppressions',
    scopes: ['send', 'campaign', 'campaign:read', 'message:read', 'template', 'suppression'],
  },
  {
    name: 'read',
    label: 'Read only',
    about: 'reports and monitoring',
    scopes: scopeNames.filter((name) => name.endsWith(':read')),
  },
  { name: 'all', label: 'Everything', about: 'all thirty', scopes: scopeNames },
];

export interface ScopeGroup {
  area: string;
  scopes: { name: Scope; meaning: string }[];
}

/** Returns the thirty scopes by area, in the order of the documentation. */
export function scopeGroups(): ScopeGroup[] {
  const groups = new Map<string, ScopeGroup>();
  for (const name of scopeNames) {
    const area = name === 'send' ? 'campaign' : (name.split(':')[0] ?? name);
    const group = groups.get(area) ?? { area, scopes: [] };
    group.scopes.push({ name, meaning: scopes[name] });
    groups.set(area, group);
  }
  return [...groups.values()].map((group) => (group.area === 'campaign' ? { ...group, area: 'sending' } : group));
}
