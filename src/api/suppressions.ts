/** `/v1/suppressions`: the addresses that are not mailed. */
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import { actorOf } from '../keys/caller.ts';
import type { Database } from '../storage/database.ts';
import { suppressionReasons, type SuppressionRow } from '../storage/tables.ts';
import { manyAdded, suppressionRecord } from '../suppressions/suppression.ts';
import {
  addressFault,
  addSuppressions,
  createFullListCheck,
  LONGEST_NOTE,
  pageOfSuppressions,
  removeSuppressions,
  suppressionsOf,
  type Added,
  type NewSuppression,
  type RefuseFullList,
} from '../suppressions/suppression-store.ts';
import type { Cursors } from './cursor.ts';
import { orWhole, type ListStreams } from './list-stream.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { addressParameter, timeMember, timeParameter } from './query.ts';
import { recordSchema, sampleOf } from './record-schema.ts';
import { entryError } from './records.ts';
import { type Call, type Reply, jsonResponse, route, type Route } from './route.ts';
import { answerChange } from './answer-change.ts';
import { suppressionImportRoute } from './suppression-import.ts';

export interface SuppressionsDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
  cursors: Cursors;
  streams: ListStreams;
  /** Returns the stream with this slug, or null. */
  findStream(accountId: string, slug: string): Promise<unknown>;
}

const PATH = '/v1/suppressions';
const MOST_AT_ONCE = 1000;
const LONGEST_ADDRESS = 1000;

const Suppression = recordSchema(suppressionRecord, {
  id: 'Suppression',
  description: 'An address that is not mailed.',
});

const SuppressionResults = z
  .object({
    object: z.literal('list'),
    data: z
      .array(
        z.object({
          index: z.int().describe('Place in `emails`.'),
          email: z.string().describe('The address as it was given.'),
          id: z.string().nullable().describe('Id of the entry; null if it was refused.'),
          result: z.enum(['created', 'existing', 'rejected']).describe('`existing`: it was already on the list.'),
          error: entryError.nullable().describe('Why it was refused; null if it was not.'),
        }),
      )
      .describe('One line for each address, in the order of the request.'),
  })
  .meta({ id: 'SuppressionResults', description: 'The result for each address, in the order of the request.' });

const NewSuppressions = z
  .strictObject({
    email: z.string().max(LONGEST_ADDRESS).optional().describe('One address. Not together with `emails`.'),
    emails: z.array(z.string().max(LONGEST_ADDRESS)).min(1).max(MOST_AT_ONCE).optional().describe('Several addresses.'),
    reason: z.enum(suppressionReasons).optional().describe('`manual` if not given.'),
    note: z.string().max(LONGEST_NOTE).optional().describe('For people.'),
    stream: z.string().max(32).optional().describe('Slug of the stream it is for; the whole account if not given.'),
    expires_at: timeMember().optional().describe('When it ends; never if not given.'),
  })
  .meta({ id: 'NewSuppressions', description: 'An address that is not to be mailed, or many.' });

type Body = z.output<typeof NewSuppressions>;

export function suppressionRoutes(deps: SuppressionsDeps): Route[] {
  const refuseFullList = createFullListCheck(deps);
  return [
    addRoute(deps, refuseFullList),
    suppressionImportRoute({ ...deps, refuseFullList }),
    listRoute(deps),
    readRoute(deps),
    removeRoute(deps),
  ];
}

function addRoute(deps: SuppressionsDeps, refuseFullList: RefuseFullList): Route {
  return route(
    {
      method: 'POST',
      path: PATH,
      operationId: 'createSuppression',
      description:
        'With `email` the answer is the entry: 201 if it is new, 200 if the address was on the list already, with the old entry. With `emails` it is a list with the result for each. A key adds none to a list of 10,000,000.',
      scope: ['suppression'],
      act: {
        says: 'put {email} on the suppression list',
        type: 'suppression',
        named: 'email',
        keeps: [...suppressionRecord.audited, 'emails', 'created', 'existing', 'rejected'],
      },
      body: NewSuppressions,
      bodyExamples: {
        one: { summary: 'One address', value: { email: 'ana@example.net', note: 'asked by phone' } },
        many: {
          summary: 'Many, for one stream',
          value: { emails: ['ana@example.net', 'bo@example.net'], stream: 'broadcast' },
        },
      },
      responses: {
        200: {
          description: 'The entry that was there already, or the results for many addresses.',
          schema: z.union([Suppression, SuppressionResults]),
          examples: { existing: { summary: 'It was there', value: sampleOf(Suppression) } },
        },
        201: {
          description: 'The new entry.',
          schema: Suppression,
          headers: { Location: 'Path of the entry.' },
          examples: { created: { summary: 'It is new', value: sampleOf(Suppression) } },
        },
      },
      problems: ['missing_field', 'mutually_exclusive_fields', 'invalid_address', 'unknown_stream', 'invalid_state'],
    },
    async (call: Call<object, object, Body>) => {
      const { email, emails } = call.body;
      if (email !== undefined && emails !== undefined)
        throw new Problem('mutually_exclusive_fields', '`email` and `emails` exclude each other.', { field: 'emails' });
      if (email === undefined && emails === undefined)
        throw new Problem('missing_field', '`email` is required, or `emails` for several.', { field: 'email' });
      const common = await commonOf(deps, call);
      await refuseFullList(call.caller.accountId);
      return emails === undefined
        ? addOne(deps, call, { ...common, email: email ?? '' })
        : addMany(deps, call, common, emails);
    },
  );
}

type Common = Omit<NewSuppression, 'email'>;

async function commonOf(deps: SuppressionsDeps, { body, caller, now }: Call<object, object, Body>): Promise<Common> {
  const { reason = 'manual', note = null, stream = null, expires_at } = body;
  if (stream !== null && (await deps.findStream(caller.accountId, stream)) === null)
    throw new Problem('unknown_stream', `There is no stream ${JSON.stringify(stream)}.`, { field: 'stream' });
  const expiresAt = expires_at === undefined ? null : Date.parse(expires_at);
  if (expiresAt !== null && expiresAt <= now)
    throw new Problem('invalid_field', '`expires_at` must be a time to come.', { field: 'expires_at' });
  return { accountId: caller.accountId, stream, reason, note, createdBy: actorOf(caller), expiresAt };
}

function addOne(deps: SuppressionsDeps, call: Call<object, object, Body>, entry: NewSuppression): Promise<Reply> {
  const why = addressFault(entry.email);
  if (why !== null) throw new Problem('invalid_address', `This is not a mail address: ${why}.`, { field: 'email' });
  const replyToOne = ([added]: readonly Added[]): Reply => {
    if (added === undefined) throw new Error('one entry was added and none came back');
    return replyOf(added);
  };
  return answerChange(call, replyToOne, (rowsFor) => addSuppressions(deps, [entry], rowsFor));
}

function replyOf({ row, created }: Added): Reply {
  const body = suppressionRecord(row);
  if (!created) return { status: 200, body };
  return { status: 201, body, headers: { Location: `${PATH}/${encodeURIComponent(row.email)}` } };
}

/** Adds many. Each malformed address has its error in the answer; the others are added. */
function addMany(
  deps: SuppressionsDeps,
  call: Call<object, object, Body>,
  common: Common,
  emails: readonly string[],
): Promise<Reply> {
  const faulty = new Map<number, string>();
  const entries: NewSuppression[] = [];
  emails.forEach((email, index) => {
    const why = addressFault(email);
    if (why !== null) faulty.set(index, why);
    else entries.push({ ...common, email });
  });
  const replyToMany = (added: readonly Added[]): Reply => {
    const rest = [...added];
    const data = emails.map((email, index) => {
      const why = faulty.get(index);
      if (why !== undefined) {
        const field = `emails[${String(index)}]`;
        const message = `\`${field}\` is not a mail address: ${why}.`;
        const error = { code: 'invalid_address', message, field, request_id: call.requestId };
        return { index, email, id: null, result: 'rejected', error };
      }
      const one = rest.shift();
      if (one === undefined) throw new Error('fewer entries came back than were added');
      return { index, email, id: one.row.id, result: one.created ? 'created' : 'existing', error: null };
    });
    return { status: 200, body: { object: 'list', data }, deed: manyAdded(emails, added) };
  };
  return answerChange(call, replyToMany, (rowsFor) => addSuppressions(deps, entries, rowsFor));
}

const listQuery = z.strictObject({
  ...pageParameters(),
  email: addressParameter().optional().describe('Only the entries of this address, of all scopes.'),
  reason: z.enum(suppressionReasons).optional().describe('Only entries with this reason.'),
  stream: z.string().max(32).optional().describe('Only entries for this stream.'),
  scope: z.literal('account').optional().describe('`account`: only entries for the whole account.'),
  created_after: timeParameter().optional().describe('From this time on.'),
  created_before: timeParameter().optional().describe('Before this time.'),
});

function listRoute({ db, clock, cursors, streams }: SuppressionsDeps): Route {
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listSuppressions',
      description:
        'Newest first, without those that have ended. `Accept: text/csv` or `application/x-ndjson` sends the whole list.',
      scope: ['suppression:read'],
      query: listQuery,
      responses: orWhole(pageResponse('A page of suppressions.', Suppression, 'One entry')),
      problems: ['too_many_streams'],
    },
    streams.whole('suppressions', async (call: Call<object, z.output<typeof listQuery>, undefined>) => {
      const { email, reason, stream, scope, created_after: createdAfter, created_before: createdBefore } = call.query;
      refuseBoth(stream, scope);
      return answerPage(cursors, PATH, call, async (wanted) => {
        const scoped = scope === undefined ? stream : null;
        const filter = { accountId: wanted.accountId, email, reason, stream: scoped, createdAfter, createdBefore };
        const { rows, ...page } = await pageOfSuppressions({ db, clock }, filter, wanted);
        return { ...page, data: rows.map(suppressionRecord) };
      });
    }),
  );
}

function refuseBoth(stream: string | undefined, scope: 'account' | undefined): void {
  if (stream !== undefined && scope !== undefined)
    throw new Problem('mutually_exclusive_fields', '`stream` and `scope` exclude each other.', { field: 'scope' });
}

const params = z.object({ email: z.string().max(LONGEST_ADDRESS).describe('The address, percent-encoded.') });
const notListed = (): Problem => new Problem('not_found', 'This address is not on the list.', { field: 'email' });

function readRoute({ db, clock }: SuppressionsDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{email}`,
      operationId: 'getSuppression',
      description: 'The entry for the whole account if there is one, else one of a stream. 404: the address is mailed.',
      scope: ['suppression:read'],
      params,
      query: z.strictObject({ stream: z.string().max(32).optional().describe('Only the entry for this stream.') }),
      responses: {
        200: jsonResponse('The entry.', Suppression, 'An entry'),
      },
    },
    async ({ params: { email }, query: { stream }, caller }) => {
      const rows = await suppressionsOf({ db, clock }, { accountId: caller.accountId, email });
      const wanted = stream === undefined ? rows : rows.filter(({ scope }) => scope === `stream:${stream}`);
      const [row] = wanted.sort((a, b) => (a.scope < b.scope ? -1 : 1));
      if (row === undefined) throw notListed();
      return { status: 200, body: suppressionRecord(row) };
    },
  );
}

function removeRoute({ db }: SuppressionsDeps): Route {
  return route(
    {
      method: 'DELETE',
      path: `${PATH}/{email}`,
      operationId: 'deleteSuppression',
      description:
        'Removes the entries of the address, in all scopes, for one stream or for the whole account. An entry made by a complaint goes only with `force=true`: the recipient who complained must ask for mail again.',
      scope: ['suppression:delete'],
      act: {
        says: 'removed {email} from suppressions',
        type: 'suppression',
        named: 'email',
        keeps: ['email', 'entries', 'note'],
      },
      params,
      query: z.strictObject({
        stream: z.string().max(32).optional().describe('Only the entry for this stream.'),
        scope: z.literal('account').optional().describe('`account`: only the entry for the whole account.'),
        force: z.enum(['true', 'false']).optional().describe('Also entries made by complaints.'),
        note: z.string().max(LONGEST_NOTE).optional().describe('Why, for people who read the audit log.'),
      }),
      responses: { 204: { description: 'Removed.' } },
      problems: ['mutually_exclusive_fields', 'invalid_state'],
    },
    async (call) => {
      const { email } = call.params;
      const { stream, scope, force, note } = call.query;
      refuseBoth(stream, scope);
      const entry = {
        accountId: call.caller.accountId,
        email,
        force: force === 'true',
        ...(scope === 'account' ? { stream: null } : stream === undefined ? {} : { stream }),
      };
      const replyToRemoval = (removed: readonly SuppressionRow[]): Reply => {
        if (removed.length === 0) throw notListed();
        const before = { email, entries: removed.map(suppressionRecord) };
        return { status: 204, body: null, before, deed: { object: email, before, after: { email, note } } };
      };
      return answerChange(call, replyToRemoval, (rowsFor) => removeSuppressions({ db }, entry, rowsFor));
    },
  );
}
