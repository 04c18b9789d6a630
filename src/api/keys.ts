/** `/v1/keys`: API keys, made and changed by keys. A key never gives more than it has. */
import { z } from 'zod';
import { Problem, missing } from '../base/problem.ts';
import { actorOf, permissionsOf, type Caller } from '../keys/caller.ts';
import { inheriting, mayGrant, mayManage } from '../keys/grant.ts';
import { isIpAllowed } from '../keys/ip-list.ts';
import { createKey, findKey, keyMembers, pageOfKeys, revokeKey, toKeyRecord, updateKey } from '../keys/key-store.ts';
import type { KeyRequest } from '../keys/new-key.ts';
import { scopeNames } from '../keys/scopes.ts';
import type { ApiKeyRow } from '../storage/tables.ts';
import { answerChange, created, removed, updated, refOf } from './route.ts';
import type { StoreContext } from './context.ts';
import { timeMember } from './query.ts';
import { namedRequest, recordSchema, text } from './record-schema.ts';
import { resource } from './resource.ts';

const PATH = '/v1/keys';
const LONGEST_TTL_S = 3650 * 86_400;
/** A week is enough to distribute a new key; a month leaves a margin. */
const LONGEST_OVERLAP_S = 30 * 86_400;

const Key = recordSchema(keyMembers, { id: 'Key', description: 'An API key, without its secret.' });
const NewKeyAnswer = Key.extend({
  key: text('The key itself: it is shown only in this answer.', 'ak_live_4fGh7Jk2_…'),
}).meta({
  id: 'CreatedKey',
  description: 'A new API key with its secret.',
});

const members = {
  name: z.string().min(1).max(100).describe('For people.'),
  scopes: z
    .array(z.enum(scopeNames as [string, ...string[]]))
    .min(1)
    .max(scopeNames.length)
    .describe('What it may do.'),
  domains: z.array(z.string().max(253)).max(100).describe('Sending domains it is restricted to.'),
  allowed_ips: z.array(z.string().max(49)).max(100).describe('Addresses and CIDR ranges it may be used from.'),
};
const changes = z.strictObject(members).partial().shape;

const kind = resource({
  path: PATH,
  params: z.object({ id: z.string().max(64).describe('Id of the key.') }),
  schema: Key,
  made: NewKeyAnswer,
  reads: 'key:read',
  changes: 'key',
  type: 'key',
  audited: keyMembers.audited,
});

const storeOf = (context: StoreContext) => ({ ...context, callers: { forget: context.changes.keyChanged } });

const list = kind.list(
  { operationId: 'listKeys', description: 'Newest first, with revoked keys. The secrets are not stored.' },
  async (wanted, call, { db }) => {
    const { rows, hasMore } = await pageOfKeys({ db }, wanted);
    return { data: rows.map((row) => toKeyRecord(row, call.now)), hasMore };
  },
);

const create = kind.create(
  {
    operationId: 'createKey',
    description:
      'The key is shown only in this answer. It never gets more than the key that makes the request: scopes, domains, addresses, mode and lifetime. With `replaces` the old key ends `revoke_after` seconds later, so that both work while the new one is distributed. An account has at most 10,000 keys; beyond them a new key takes the place of the oldest that has ended.',
    says: 'created the API key {name}',
    body: namedRequest('NewKey', 'A key to create.', {
      name: members.name,
      scopes: members.scopes,
      mode: z.enum(['live', 'test']).optional().describe('Defaults to the mode of the key that makes the request.'),
      domains: changes.domains,
      allowed_ips: changes.allowed_ips,
      ttl: z
        .int()
        .min(1)
        .max(LONGEST_TTL_S)
        .optional()
        .describe('Lifetime in seconds. Not together with `expires_at`.'),
      expires_at: timeMember().optional().describe('When it ends; never if not given.'),
      replaces: z.string().max(64).optional().describe('Id of the key that it replaces.'),
      revoke_after: z
        .int()
        .min(0)
        .max(LONGEST_OVERLAP_S)
        .optional()
        .describe('Seconds until the replaced key ends; at once if not given.'),
    }),
    bodyExamples: {
      minimal: { summary: 'For sending', value: { name: 'shop', scopes: ['send'] } },
    },
    problems: ['mutually_exclusive_fields', 'domain_not_allowed', 'not_found', 'invalid_state'],
    secretResponse: true,
  },
  async (call, context) => {
    const { caller, now, body, ip } = call;
    const expiresAt = endOf(body, now);
    const { mode = caller.mode, replaces, revoke_after: revokeAfter } = body;
    if (revokeAfter !== undefined && replaces === undefined)
      throw missing('replaces', '`revoke_after` says when the key in `replaces` ends.');
    const { domains: only = [], allowed_ips: ips = [] } = body;
    const wanted = { name: body.name, mode, scopes: body.scopes, domains: only, allowedIps: ips, expiresAt };
    const granted = mayGrant(caller, inheriting(caller, wanted));
    const request = {
      ...granted,
      accountId: caller.accountId,
      createdBy: actorOf(caller),
      ...(replaces === undefined ? {} : { replaces: { id: replaces, revokeAt: now + 1000 * (revokeAfter ?? 0) } }),
    };
    if (replaces === caller.keyId) refuseLockOut(granted.allowedIps ?? [], ip);
    else if (replaces !== undefined) await checkReplaced(context, caller, replaces);
    const record = ({ row, key }: { row: ApiKeyRow; key: string }) => ({ ...toKeyRecord(row, now), key });
    return answerChange(call, created(PATH, record), (rowsFor) => createKey(storeOf(context), request, rowsFor));
  },
);

/** Refuses to replace a key that may do more than the caller's, since replacing ends it. A missing key is refused later. */
async function checkReplaced({ db }: StoreContext, caller: Caller, id: string): Promise<void> {
  const [row] = await db.reader<ApiKeyRow>('api_keys').where({ id, account_id: caller.accountId });
  if (row !== undefined) mayManage(caller, requestOf(row), 'replaces');
}

/** The permissions of a key in the form of a request for a new one. */
const requestOf = (row: ApiKeyRow): KeyRequest => ({
  name: row.name,
  mode: row.mode,
  ...permissionsOf(row),
  expiresAt: row.expires_at,
});

function endOf(body: { ttl?: number | undefined; expires_at?: string | undefined }, now: number): number | null {
  if (body.ttl !== undefined && body.expires_at !== undefined)
    throw new Problem('mutually_exclusive_fields', '`ttl` and `expires_at` exclude each other.', { field: 'ttl' });
  if (body.ttl !== undefined) return now + 1000 * body.ttl;
  return body.expires_at === undefined ? null : Date.parse(body.expires_at);
}

function refuseLockOut(allowedIps: readonly string[], ip: string): void {
  if (isIpAllowed(allowedIps, ip)) return;
  throw new Problem(
    'invalid_state',
    `This would lock out the address you call from, ${ip}. Add it to \`allowed_ips\`.`,
    { field: 'allowed_ips' },
  );
}

const get = kind.get(
  { operationId: 'getKey', description: 'Its permissions and its last use; never the secret.' },
  async (call, { db }) => toKeyRecord(await findKey({ db }, refOf(call)), call.now),
);

const update = kind.update(
  {
    operationId: 'updateKey',
    description:
      'Name, scopes, domains, addresses and end, in force at once; open streams of the key are closed. A key gets no more than the key that makes the request has, and a key cannot lock itself out.',
    says: 'changed the API key {name}',
    body: namedRequest('KeyChanges', 'The members to change; all others stay the same.', {
      ...changes,
      expires_at: timeMember().nullable().optional().describe('When it ends; null for never.'),
    }),
    bodyExamples: { addresses: { summary: 'Only from our network', value: { allowed_ips: ['203.0.113.0/24'] } } },
    problems: ['domain_not_allowed', 'invalid_state'],
  },
  async (call, context) => {
    const { caller, body, now } = call;
    const row = await findKey(context, refOf(call));
    if (row.revoked_at !== null && row.revoked_at <= now)
      throw new Problem('invalid_state', 'A revoked key cannot be changed. Create a new key.');
    const { name: called, scopes: wanted, domains: only, allowed_ips: ips, expires_at: end } = body;
    const expiresAt = end == null ? end : endOf({ expires_at: end }, now);
    const before = toKeyRecord(row, now);
    // The key after the change: the caller cannot change a key that may do more than its own.
    const granted = mayGrant(caller, {
      name: called ?? before.name,
      mode: row.mode,
      scopes: wanted ?? before.scopes,
      domains: only ?? before.domains,
      allowedIps: ips ?? before.allowed_ips,
      expiresAt: expiresAt === undefined ? row.expires_at : expiresAt,
    });
    if (ips !== undefined && row.id === caller.keyId) refuseLockOut(granted.allowedIps ?? [], call.ip);
    const given = {
      ...(called === undefined ? {} : { name: called }),
      ...(wanted === undefined ? {} : { scopes: wanted }),
      ...(only === undefined ? {} : { domains: granted.domains ?? [] }),
      ...(ips === undefined ? {} : { allowedIps: granted.allowedIps ?? [] }),
      ...(expiresAt === undefined ? {} : { expiresAt }),
    };
    const record = (changed: ApiKeyRow) => toKeyRecord(changed, now);
    return answerChange(call, updated(record, before), (rowsFor) =>
      updateKey(storeOf(context), refOf(call), given, rowsFor),
    );
  },
);

const remove = kind.remove(
  {
    operationId: 'revokeKey',
    description:
      'Takes effect at once: requests that begin after this answer are refused, and open streams of the key are closed. A key may revoke itself and keys that may do no more than itself; a key that is already revoked stays unchanged.',
    says: 'revoked the API key {name}',
  },
  (call, context) =>
    answerChange(
      call,
      removed((row: ApiKeyRow) => toKeyRecord(row, call.now)),
      (rowsFor) =>
        revokeKey(storeOf(context), refOf(call), (row) => {
          if (row.id !== call.caller.keyId) mayManage(call.caller, requestOf(row), 'id');
          return rowsFor(row);
        }),
    ),
);

export const keyOperations = [list, create, get, update, remove];
