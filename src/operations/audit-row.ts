/** Makes the rows of the audit log, for every way in (HTTP, dashboard, command line, SMTP, the server itself), so that all name things alike. */
import { newId } from '../base/id.ts';
import type { AuditRow } from '../storage/tables.ts';

/** The words of the audit for an operation, declared with the operation. */
export interface ActWords {
  /** A sentence without its subject, such as `removed {email} from suppressions`: `{object}` and members of the record are filled in. */
  says: string;
  /** The kind of object, such as `suppression`. */
  type: string;
  /** The member of the record that names the object (default: `id`); null if the audit must not name it. */
  named?: string | null;
  /** Members of the record that the audit keeps. Others, secrets first of all, never reach it. */
  keeps?: readonly string[];
}

type JsonRecord = Readonly<Record<string, unknown>>;

export interface Deed {
  /** The object's name if no record has it, such as an id in a path. */
  object?: string | null;
  /** Members of the request that name an object whose creation failed. */
  asked?: JsonRecord | null;
  before?: object | null;
  after?: object | null;
}

export interface AuditEntry extends Pick<AuditRow, 'at' | 'actor' | 'method' | 'endpoint' | 'status'> {
  accountId: string | null;
  keyId?: string | null;
  ip?: string | null;
  userAgent?: string | null;
  requestId: string;
  /** How long it took, in milliseconds. */
  ms?: number;
  /** If the status alone does not say how it ended. */
  result?: AuditRow['result'];
  code?: string | null;
  isReplay?: boolean;
  /** The path as it was asked, if it differs from `endpoint`. */
  path?: string | null;
  /** The field that was refused. */
  field?: string | null;
  idempotencyKey?: string | null;
  /** The operation's name; null if a request reached none. */
  operation: string | null;
  /** Null for what only reads. */
  words?: ActWords | null;
  deed?: Deed | undefined;
}

const LONGEST_NAME = 200;
const LONGEST_AGENT = 512;
const LONGEST_PATH = 500;

export function auditRow(entry: AuditEntry): AuditRow {
  const { at, actor, method, endpoint, status, words = null } = entry;
  const result = entry.result ?? (status >= 500 ? 'failed' : status >= 400 ? 'refused' : 'ok');
  return {
    id: newId('aud', at),
    at,
    account_id: entry.accountId,
    key_id: entry.keyId ?? null,
    actor,
    ip: entry.ip ?? null,
    method,
    endpoint,
    status,
    result,
    error_code: entry.code ?? null,
    request_id: entry.requestId,
    ms: Math.round(entry.ms ?? 0),
    idempotency_replayed: entry.isReplay === true ? 1 : 0,
    user_agent: entry.userAgent?.slice(0, LONGEST_AGENT).toWellFormed() ?? null,
    operation: entry.operation,
    path: entry.path?.slice(0, LONGEST_PATH).toWellFormed() ?? null,
    error_field: entry.field?.slice(0, LONGEST_NAME).toWellFormed() ?? null,
    idempotency_key: entry.idempotencyKey ?? null,
    ...(words === null ? noAct : describe(words, entry, endingOf(result, entry))),
  };
}

type Description = Pick<AuditRow, 'object_type' | 'object_id' | 'before_json' | 'after_json' | 'summary'>;

const noAct: Description = {
  object_type: null,
  object_id: null,
  before_json: null,
  after_json: null,
  summary: null,
};

function endingOf(result: AuditRow['result'], { code, isReplay }: AuditEntry): string {
  if (result === 'refused' || result === 'failed') return ` (${result}${code == null ? '' : `: ${code}`})`;
  return isReplay === true ? ' (an earlier answer was given again)' : '';
}

function describe(words: ActWords, { operation, deed = {} }: AuditEntry, ending: string): Description {
  const { object, asked, before, after } = deed;
  const [was, is] = [before as JsonRecord | null | undefined, after as JsonRecord | null | undefined];
  const { named = 'id' } = words;
  const name =
    named === null ? null : (textOf(is?.[named]) ?? textOf(was?.[named]) ?? object ?? textOf(asked?.[named]) ?? null);
  const kind = is?.['object'];
  const { keeps = [] } = words;
  const changed = keeps.filter((member) => JSON.stringify(was?.[member]) !== JSON.stringify(is?.[member]));
  const filled = filledIn(words.says, (member, isAlone) =>
    // The record's own member of this name is the kind of the record.
    member === 'object'
      ? (name ?? `a ${words.type}`)
      : (textOf(is?.[member]) ??
        textOf(was?.[member]) ??
        textOf(asked?.[member]) ??
        (isAlone || member === named ? name : null)),
  );
  // Of a refused act often nothing is known.
  const isUnknown = filled.split('…').length > 2 && filled === filledIn(words.says, () => null);
  return {
    object_type: typeof kind === 'string' && kind !== 'list' && named === 'id' ? kind : words.type,
    object_id: name?.slice(0, LONGEST_NAME).toWellFormed() ?? null,
    before_json: keptJson(was, changed),
    after_json: keptJson(is, changed),
    summary: (isUnknown && operation !== null ? `tried ${operation}` : filled) + ending,
  };
}

/** `isAlone`: the sentence has no other member. */
function filledIn(says: string, valueOf: (member: string, isAlone: boolean) => string | null): string {
  const isAlone = says.indexOf('{') === says.lastIndexOf('{');
  return says.replaceAll(/\{(\w+)\}/g, (_, member: string) =>
    (valueOf(member, isAlone) ?? '…').slice(0, LONGEST_NAME).toWellFormed(),
  );
}

function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value;
  return typeof value === 'number' ? String(value) : null;
}

/** The most characters of a record that one row keeps. */
const LONGEST_RECORD = 2048;

/** The members as JSON; one that does not fit any more is left out. */
function keptJson(record: JsonRecord | null | undefined, members: readonly string[]): string | null {
  if (record == null) return null;
  const parts: string[] = [];
  let length = 2;
  for (const member of members) {
    const value = record[member];
    if (value == null) continue;
    const part = `${JSON.stringify(member)}:${JSON.stringify(value)}`;
    if (length + part.length + 1 > LONGEST_RECORD) continue;
    length += part.length + 1;
    parts.push(part);
  }
  return parts.length === 0 ? null : `{${parts.join(',')}}`;
}
