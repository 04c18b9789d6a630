/** `/v1/keys`: API keys, made and changed by keys. A key never gives more than it has. */
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { actorOf, permissionsOf, type Caller } from '../keys/caller.ts';
import { inheriting, mayGrant, mayManage } from '../keys/grant.ts';
import { isIpAllowed } from '../keys/ip-list.ts';
import { createKey, findKey, keyMembers, pageOfKeys, revokeKey, toKeyRecord, updateKey } from '../keys/key-store.ts';
import type { KeyRequest } from '../keys/new-key.ts';
import { scopeNames } from '../keys/scopes.ts';
import type { Database } from '../storage/database.ts';
import type { ApiKeyRow } from '../storage/tables.ts';
import type { ChangeNotices } from './change-notices.ts';
import type { Cursors } from './cursor.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { timeMember } from './query.ts';
import { recordSchema, sampleOf, text } from './record-schema.ts';
import { jsonResponse, refOf, type Reply, route, type Route } from './route.ts';
import { answerChange, createdReply } from './answer-change.ts';

export interface KeysDeps {
  db: Pick<Database, 'commit' | 'reader'>;
  clock: Clock;
  cursors: Cursors;
  changes: Pick<ChangeNotices, 'keyChanged'>;
}

const PATH = '/v1/keys';
/** Ten years. */
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

const name = () => z.string().min(1).max(100).describe('For people.');
const scopes = () =>
  z
    .array(z.enum(scopeNames as [string, ...string[]]))
    .min(1)
    .max(scopeNames.length)
    .describe('What it may do.');
const domains = () => z.array(z.string().max(253)).max(100).describe('Sending domains it is restricted to.');
const allowedIps = () =>
  z.array(z.string().max(49)).max(100).describe('Addresses and CIDR ranges it may be used from.');

const params = z.object({ id: z.string().max(64).describe('Id of the key.') });

const answer = (description: string) => jsonResponse(description, Key, 'A key');

export function keyRoutes(deps: KeysDeps): Route[] {
  return [listRoute(deps), createRoute(deps), readRoute(deps), changeRoute(deps), revokeRoute(deps)];
}

const storeOf = (deps: KeysDeps) => ({ ...deps, callers: { forget: deps.changes.keyChanged } });

function listRoute({ db, cursors }: KeysDeps): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listKeys',
      description: 'Newest first, with revoked keys. The secrets are not stored.',
      scope: ['key:read'],
      query: z.strictObject(pageParameters()),
      responses: pageResponse('A page of keys.', Key, 'One key'),
    },
    (call) =>
      answerPage(cursors, PATH, call, async (wanted) => {
        const { rows, hasMore } = await pageOfKeys({ db }, wanted);
        return { data: rows.map((row) => toKeyRecord(row, call.now)), hasMore };
      }),
  );
}

function createRoute(deps: KeysDeps): Route {
  return route(
    {
      method: 'POST',
      path: PATH,
      operationId: 'createKey',
      description:
        'The key is shown only in this answer. It never gets more than the key that makes the request: scopes, domains, addresses, mode and lifetime. With `replaces` the old key ends `revoke_after` seconds later, so that both work while the new one is distributed. An account has at most 10,000 keys; beyond them a new key takes the place of the oldest that has ended.',
      scope: ['key'],
      act: { says: 'created the API key {name}', type: 'key', keeps: keyMembers.audited },
      body: z
        .strictObject({
          name: name(),
          scopes: scopes(),
          mode: z.enum(['live', 'test']).optional().describe('Defaults to the mode of the key that makes the request.'),
          domains: domains().optional(),
          allowed_ips: allowedIps().optional(),
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
        })
        .meta({ id: 'NewKey', description: 'A key to create.' }),
      bodyExamples: {
        minimal: { summary: 'For sending', value: { name: 'shop', scopes: ['send'] } },
      },
      responses: {
        201: {
          description: 'The new key.',
          schema: NewKeyAnswer,
          headers: { Location: 'Path of the key.' },
          examples: { key: { summary: 'A new key', value: sampleOf(NewKeyAnswer) } },
        },
      },
      problems: ['mutually_exclusive_fields', 'domain_not_allowed', 'not_found', 'invalid_state'],
      secretResponse: true,
    },
    async (call) => {
      const { caller, now, body, ip } = call;
      const expiresAt = endOf(body, now);
      const { mode = caller.mode, replaces, revoke_after: revokeAfter } = body;
      if (revokeAfter !== undefined && replaces === undefined)
        throw new Problem('missing_field', '`revoke_after` says when the key in `replaces` ends.', {
          field: 'replaces',
        });
      const { domains: only = [], allowed_ips: ips = [] } = body;
      const wanted = { name: body.name, mode, scopes: body.scopes, domains: only, allowedIps: ips, expiresAt };
      const granted = mayGrant(caller, inheriting(caller, wanted));
      const replyOf = ({ row, key }: { row: ApiKeyRow; key: string }): Reply =>
        createdReply(PATH, { ...toKeyRecord(row, call.now), key });
      const request = {
        ...granted,
        accountId: caller.accountId,
        createdBy: actorOf(caller),
        ...(replaces === undefined ? {} : { replaces: { id: replaces, revokeAt: now + 1000 * (revokeAfter ?? 0) } }),
      };
      if (replaces === caller.keyId) refuseLockOut(granted.allowedIps ?? [], ip);
      else if (replaces !== undefined) await checkReplaced(deps, caller, replaces);
      return answerChange(call, replyOf, (rowsFor) => createKey(storeOf(deps), request, rowsFor));
    },
  );
}

/** Refuses to replace a key that may do more than the caller's, since replacing ends it. A missing key is refused later. */
async function checkReplaced({ db }: KeysDeps, caller: Caller, id: string): Promise<void> {
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

function readRoute({ db }: KeysDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}`,
      operationId: 'getKey',
      description: 'Its permissions and its last use; never the secret.',
      scope: ['key:read'],
      params,
      responses: { 200: answer('The key.') },
    },
    async (call) => ({ status: 200, body: toKeyRecord(await findKey({ db }, refOf(call)), call.now) }),
  );
}

function changeRoute(deps: KeysDeps): Route {
  return route(
    {
      method: 'PATCH',
      path: `${PATH}/{id}`,
      operationId: 'updateKey',
      description:
        'Name, scopes, domains, addresses and end, in force at once; open streams of the key are closed. A key gets no more than the key that makes the request has, and a key cannot lock itself out.',
      scope: ['key'],
      act: { says: 'changed the API key {name}', type: 'key', keeps: keyMembers.audited },
      params,
      body: z
        .strictObject({
          name: name().optional(),
          scopes: scopes().optional(),
          domains: domains().optional(),
          allowed_ips: allowedIps().optional(),
          expires_at: timeMember().nullable().optional().describe('When it ends; null for never.'),
        })
        .meta({ id: 'KeyChanges', description: 'The members to change; all others stay the same.' }),
      bodyExamples: { addresses: { summary: 'Only from our network', value: { allowed_ips: ['203.0.113.0/24'] } } },
      responses: { 200: answer('The key as it is now.') },
      problems: ['domain_not_allowed', 'invalid_state'],
    },
    async (call) => {
      const {
        caller,
        body,
        params: { id },
      } = call;
      const row = await findKey(deps, refOf(call));
      if (row.revoked_at !== null && row.revoked_at <= call.now)
        throw new Problem('invalid_state', 'The key was revoked and stays so. Create a new key.');
      const { scopes: wanted, domains: only, allowed_ips: ips, expires_at: end } = body;
      const expiresAt = end == null ? end : endOf({ expires_at: end }, call.now);
      const before = toKeyRecord(row, call.now);
      // The key after the change: the caller cannot change a key that may do more than its own.
      const granted = mayGrant(caller, {
        name: body.name ?? before.name,
        mode: row.mode,
        scopes: wanted ?? before.scopes,
        domains: only ?? before.domains,
        allowedIps: ips ?? before.allowed_ips,
        expiresAt: expiresAt === undefined ? row.expires_at : expiresAt,
      });
      if (ips !== undefined && id === caller.keyId) refuseLockOut(granted.allowedIps ?? [], call.ip);
      const changes = {
        ...(body.name === undefined ? {} : { name: body.name }),
        ...(wanted === undefined ? {} : { scopes: wanted }),
        ...(only === undefined ? {} : { domains: granted.domains ?? [] }),
        ...(ips === undefined ? {} : { allowedIps: granted.allowedIps ?? [] }),
        ...(expiresAt === undefined ? {} : { expiresAt }),
      };
      const replyOf = (changed: ApiKeyRow): Reply => ({ status: 200, body: toKeyRecord(changed, call.now), before });
      return answerChange(call, replyOf, (rowsFor) => updateKey(storeOf(deps), refOf(call), changes, rowsFor));
    },
  );
}

function revokeRoute(deps: KeysDeps): Route {
  return route(
    {
      method: 'DELETE',
      path: `${PATH}/{id}`,
      operationId: 'revokeKey',
      description:
        'Takes effect at once: requests that begin after this answer are refused, and open streams of the key are closed. A key may revoke itself and keys that may do no more than itself; a key that is already revoked stays unchanged.',
      scope: ['key'],
      act: { says: 'revoked the API key {name}', type: 'key', keeps: keyMembers.audited },
      params,
      responses: { 204: { description: 'Revoked.' } },
    },
    async (call) => {
      const replyOf = (row: ApiKeyRow): Reply => ({ status: 204, body: null, before: toKeyRecord(row, call.now) });
      return answerChange(call, replyOf, (rowsFor) =>
        revokeKey(storeOf(deps), refOf(call), (row) => {
          if (row.id !== call.caller.keyId) mayManage(call.caller, requestOf(row), 'id');
          return rowsFor(row);
        }),
      );
    },
  );
}
