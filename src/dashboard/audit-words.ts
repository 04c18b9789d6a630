/** Writes entries of the audit log for people: who, what changed, where the object is, how to ask again. Pure. */
import type { AuditEntry, AuditEntryDetails } from '../client/types.ts';
import { linkTo } from './links.ts';
import { laneLink } from './queue-rows.ts';
import { wordsOf } from './words.ts';

/** Returns the one who acted, without the prefixes of the log. */
export function whoText({ actor, user_agent: agent }: Pick<AuditEntry, 'actor' | 'user_agent'>): string {
  const [, kind = '', name = ''] = /^(\w+):(.*)$/s.exec(actor) ?? [];
  if (kind === 'member') return name;
  if (kind === 'key') return `key ${name}`;
  if (kind === 'webhook' || actor === 'server') return 'the server';
  const user = /^cli:(.*)$/s.exec(agent ?? '')?.[1];
  if (actor === 'operator') return user === undefined ? 'the command line' : `${user}, on the command line`;
  return actor === 'api' || actor === 'smtp' ? 'unknown key' : actor;
}

/** Returns the way in, in a word. */
export const doorText = ({ method, actor }: Pick<AuditEntry, 'method' | 'actor'>): string =>
  ({ CLI: 'command line', SYSTEM: 'server', SMTP: 'SMTP' })[method] ??
  (actor.startsWith('member:') ? 'dashboard' : 'API');

const places: Readonly<Record<string, (id: string) => string>> = {
  message: (id) => `/messages/${id}`,
  batch: (id) => linkTo('/messages', { q: id }),
  key: (id) => `/developer/keys/${id}`,
  template: (id) => `/templates/${id}`,
  webhook: (id) => `/webhooks/${id}`,
  suppression: (id) => linkTo('/suppressions', { q: id }),
  domain: () => '/domains',
  stream: () => '/streams',
  hold: () => '/queue',
  lane: laneLink,
  member: () => '/team',
  account: () => '/accounts',
  settings: () => '/settings',
};
const forAdmins: ReadonlySet<string> = new Set(['hold', 'lane', 'account', 'member']);

/** Returns the page of the object, or null if there is none, or not for this member. */
export function objectLink(
  { object_type: type, object_id: id, status }: Pick<AuditEntry, 'object_type' | 'object_id' | 'status'>,
  isAdmin: boolean,
): string | null {
  if (type === null || id === null || status >= 400 || (forAdmins.has(type) && !isAdmin)) return null;
  if (['message', 'batch', 'key', 'template', 'webhook'].includes(type) && !/^[a-z]{3}_[0-9a-z]{26}$/.test(id))
    return null;
  return places[type]?.(id) ?? null;
}

export interface Change {
  name: string;
  before: string | null;
  after: string | null;
}

/** Returns the members that changed, each as it was and as it is. */
export function changesOf({ before, after }: Pick<AuditEntry, 'before' | 'after'>): Change[] {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names.map((name) => ({
    name: wordsOf(name),
    before: before === null ? null : valueText(before[name]),
    after: after === null ? null : valueText(after[name]),
  }));
}

/** Lists with commas, records as `name: value`, times as they are. */
function valueText(value: unknown): string {
  if (value === undefined || value === null || value === '') return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(valueText).join(', ');
  if (typeof value === 'string') return value;
  if (typeof value !== 'object') return JSON.stringify(value);
  return Object.entries(value)
    .filter(([, one]) => one !== null && one !== '')
    .map(([name, one]) => `${wordsOf(name)}: ${valueText(one)}`)
    .join(', ');
}

/** Returns the command that asks the same again; the key is a variable, and a body that is not kept is left out. */
export function curlOf(
  { method, path, query, body, idempotency_key: key }: AuditEntryDetails,
  url: string,
): string | null {
  if (path === null) return null;
  const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;
  const parts = [
    `curl -sS${method === 'GET' ? '' : ` -X ${method}`} ${quoted(`${url}${path}${query === null ? '' : `?${query}`}`)}`,
    '-H "Authorization: Bearer $POSTHORN_API_KEY"',
    ...(key === null ? [] : [`-H ${quoted(`Idempotency-Key: ${key}`)}`]),
    ...(body === null ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`]),
  ];
  return parts.join(' \\\n  ');
}
