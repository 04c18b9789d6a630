/** Writes entries of the audit log for people: who, what changed, where the object is, how to undo it, how to ask again. Pure. */
import type { AuditEntry, AuditEntryDetails } from '../client/types.ts';
import { linkTo } from './links.ts';
import type { Visit } from './page.ts';
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

/** Returns the members that changed, each as it was and as it is. */
export function changesOf({ before, after }: Pick<AuditEntry, 'before' | 'after'>) {
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

export interface Undo {
  label: string;
  action: string;
  fields: Readonly<Record<string, string>>;
}

const textIn = (record: AuditEntry['before'], name: string): string => {
  const value = record?.[name];
  return typeof value === 'string' ? value : '';
};

/** Returns the field for the scope of the one entry that was removed; null if there were several, which one form cannot make. */
function scopeOfOnly(before: AuditEntry['before']): { stream?: string } | null {
  const entries = before?.['entries'];
  if (!Array.isArray(entries) || entries.length !== 1) return null;
  const only: unknown = entries[0];
  if (typeof only !== 'object' || only === null || !('scope' in only)) return null;
  const { scope } = only;
  if (scope === 'account') return {};
  return typeof scope === 'string' && scope.startsWith('stream:') ? { stream: scope.slice('stream:'.length) } : null;
}

/** Returns whether the operation sets a hold or a limit, which ends by itself, by hand, or not at all. */
export const isHold = (operation: string | null): boolean => operation === 'queue.hold' || operation === 'queue.limit';

/** Returns the form that does the inverse of an act, or null if there is no inverse operation, or nothing is left to undo. */
export function undoOf(
  { operation, status, object_id: object, path, before, after }: Omit<AuditEntry, 'object'>,
  { isAdmin, may }: Pick<Visit, 'isAdmin' | 'may'>,
  holdsInForce: ReadonlySet<string>,
): Undo | null {
  if (status >= 300 || object === null) return null;
  const form = (label: string, action: string, fields: Undo['fields'] = {}): Undo => ({ label, action, fields });
  const resumed = (place: string): Undo =>
    after?.['paused'] === true ? form('Resume it', `${place}/resume`) : form('Pause it again', `${place}/pause`);
  const isAddress = object.includes('@');
  if (operation === 'deleteSuppression' && isAddress && may('suppression')) {
    const scope = scopeOfOnly(before);
    return scope === null ? null : form('Suppress it again', '/suppressions', { email: object, ...scope });
  }
  if (operation === 'createSuppression' && isAddress && may('suppression:delete') && textIn(after, 'email') !== '')
    return form('Remove it again', '/suppressions/remove', { email: object, scope: textIn(after, 'scope') });
  const [, stream] = /^\/v1\/streams\/(str_\w+)$/.exec(path ?? '') ?? [];
  const isChanged = before?.['paused'] !== after?.['paused'];
  if (operation === 'updateStream' && stream !== undefined && may('stream') && isChanged)
    return resumed(`/streams/${stream}`);
  const hold = textIn(after, 'id');
  if (isHold(operation) && isAdmin && holdsInForce.has(hold))
    return form(operation === 'queue.hold' ? 'Release it' : 'End the limit', '/queue/release', { id: hold });
  if (operation === 'accounts.pause' && isAdmin && before !== null)
    return resumed(`/accounts/${encodeURIComponent(object)}`);
  return null;
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
