/** The thirty permission scopes. `<area>` includes all its verbs; areas without a bare name (message, event, stats, audit) are granted by verb. */

/** Every scope and what it allows, in the order of the documentation. */
export const scopes = {
  send: 'send single messages; read the status of messages sent by the same key',
  campaign: 'send in bulk; read the status of messages sent by the same key; includes campaign:read',
  'campaign:read': 'list and read batches',
  'message:read': 'list messages and read the status of all of them',
  'message:content': 'read stored bodies, raw source and attachments',
  'message:cancel': 'cancel or move scheduled messages',
  'message:delete': "erase content or a person's data",
  template: 'create, edit, publish and delete templates; includes template:read and template:render',
  'template:read': 'read and list templates',
  'template:render': 'validate and preview templates',
  suppression: 'add suppressions; includes suppression:read and suppression:delete',
  'suppression:read': 'list and look up suppressions',
  'suppression:delete': 'remove suppressions',
  webhook: 'register, change and delete webhook endpoints; includes webhook:read, webhook:replay and webhook:secret',
  'webhook:read': 'read webhook endpoints and their delivery log',
  'webhook:replay': 'test, resend and replay webhook deliveries',
  'webhook:secret': 'reveal and rotate webhook secrets',
  'event:read': 'read the event stream',
  'event:engagement': 'see IP address and user agent of opens and clicks',
  'stats:read': 'read counters and rates',
  domain: 'add, change and delete domains; includes domain:read, domain:verify and domain:dkim',
  'domain:read': 'list domains, their records and status',
  'domain:verify': 'run the DNS check of a domain now',
  'domain:dkim': 'rotate DKIM keys',
  stream: 'manage streams and IP pools; includes stream:read',
  'stream:read': 'read streams and IP pools',
  key: 'create and revoke API keys, never with more than the caller has; includes key:read',
  'key:read': 'list API keys, without their secrets',
  'audit:read': 'read the audit log',
  settings: 'read and change account settings: retention, tracking defaults, limits',
} as const;

export type Scope = keyof typeof scopes;

export const scopeNames = Object.keys(scopes) as Scope[];

export const isScope = (text: string): text is Scope => Object.hasOwn(scopes, text);

/** Returns whether `granted` allows `needed`: it has the scope itself or the bare name of its area. */
export function scopeAllows(granted: readonly string[], needed: Scope): boolean {
  if (granted.includes(needed)) return true;
  const colon = needed.indexOf(':');
  if (colon < 0) return false;
  const area = needed.slice(0, colon);
  return isScope(area) && granted.includes(area);
}

/** Returns the header of a 403 `insufficient_scope` (RFC 6750 section 3.1), with the scopes that would do; none if scopes alone do not. */
export const scopeChallenge = (...needed: readonly string[]): Record<string, string> => ({
  'WWW-Authenticate': `Bearer realm="api", error="insufficient_scope"${needed.length === 0 ? '' : `, scope="${needed.join(' ')}"`}`,
});

interface Preset {
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

interface ScopeGroup {
  area: string;
  scopes: { name: Scope; meaning: string }[];
}

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
