/** `/v1/suppressions`: the addresses that are not mailed. */
import { z } from 'zod';
import { Problem, notFound, invalid, missing } from '../base/problem.ts';
import { actorOf } from '../keys/caller.ts';
import { suppressionReasons, type SuppressionRow } from '../storage/tables.ts';
import {
  manyAdded,
  suppressionRecord,
  addressFault,
  addSuppressions,
  LONGEST_NOTE,
  pageOfSuppressions,
  removeSuppressions,
  suppressionsOf,
  type Added,
  type NewSuppression,
} from '../suppressions/suppression-store.ts';
import { answerChange, jsonResponse, type Call, type Reply } from './route.ts';
import type { StoreContext } from './context.ts';
import { pageParameters } from './page.ts';
import { addressParameter, timeMember, timeParameter } from './query.ts';
import { namedRecord, namedRequest, recordSchema, sampleOf } from './record-schema.ts';
import { entryError } from './records.ts';
import { resource } from './resource.ts';
import { nextSlice } from '../base/slices.ts';
import type { Deed } from '../operations/audit-row.ts';
import type { Rows } from '../storage/rows.ts';
import { addImported, importCsv } from '../suppressions/suppression-csv.ts';

const PATH = '/v1/suppressions';
const MOST_AT_ONCE = 1000;
const LONGEST_ADDRESS = 1000;

export const Suppression = recordSchema(suppressionRecord, {
  id: 'Suppression',
  description: 'An address that is not mailed.',
});

const SuppressionResults = namedRecord(
  'SuppressionResults',
  'The result for each address, in the order of the request.',
  {
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
  },
);

const NewSuppressions = namedRequest('NewSuppressions', 'An address that is not to be mailed, or many.', {
  email: z.string().max(LONGEST_ADDRESS).optional().describe('One address. Not together with `emails`.'),
  emails: z.array(z.string().max(LONGEST_ADDRESS)).min(1).max(MOST_AT_ONCE).optional().describe('Several addresses.'),
  reason: z.enum(suppressionReasons).optional().describe('`manual` if not given.'),
  note: z.string().max(LONGEST_NOTE).optional().describe('For people.'),
  stream: z.string().max(32).optional().describe('Slug of the stream it is for; the whole account if not given.'),
  expires_at: timeMember().optional().describe('When it ends; never if not given.'),
});

const kind = resource({
  path: PATH,
  one: `${PATH}/{email}`,
  params: z.object({ email: z.string().max(LONGEST_ADDRESS).describe('The address, percent-encoded.') }),
  schema: Suppression,
  reads: 'suppression:read',
  changes: 'suppression',
  type: 'suppression',
  named: 'email',
  audited: [...suppressionRecord.audited, 'emails', 'created', 'existing', 'rejected'],
});

const create = kind.create(
  {
    operationId: 'createSuppression',
    description:
      'With `email` the answer is the entry: 201 if it is new, 200 if the address was on the list already, with the old entry. With `emails` it is a list with the result for each. A key adds none to a list of 10,000,000.',
    says: 'put {email} on the suppression list',
    body: NewSuppressions,
    bodyExamples: {
      one: { summary: 'One address', value: { email: 'ana@example.net', note: 'asked by phone' } },
      many: {
        summary: 'Many, for one stream',
        value: { emails: ['ana@example.net', 'bo@example.net'], stream: 'broadcast' },
      },
    },
    responses: {
      200: jsonResponse(
        'The entry that was there already, or the results for many addresses.',
        z.union([Suppression, SuppressionResults]),
        'It was there',
        sampleOf(Suppression),
      ),
      201: {
        ...jsonResponse('The new entry.', Suppression, 'It is new'),
        headers: { Location: 'Path of the entry.' },
      },
    },
    problems: ['missing_field', 'mutually_exclusive_fields', 'invalid_address', 'unknown_stream', 'invalid_state'],
  },
  async (call, context) => {
    const { email, emails } = call.body;
    if (email !== undefined && emails !== undefined)
      throw new Problem('mutually_exclusive_fields', '`email` and `emails` exclude each other.', { field: 'emails' });
    if (email === undefined && emails === undefined)
      throw missing('email', '`email` is required, or `emails` for several.');
    const common = await commonOf(context, call);
    await context.refuseFullList(call.caller.accountId);
    const given = (emails ?? [email ?? '']).map((one) => ({ email: one, why: addressFault(one) }));
    const [first] = given;
    if (emails === undefined && first?.why != null)
      throw new Problem('invalid_address', `This is not a mail address: ${first.why}.`, { field: 'email' });
    const entries = given.flatMap((one) => (one.why === null ? [{ ...common, email: one.email }] : []));
    const replyOf = (added: readonly Added[]): Reply =>
      emails === undefined ? replyToOne(added) : replyToMany(given, added, call.requestId);
    return answerChange(call, replyOf, (rowsFor) => addSuppressions(context, entries, rowsFor));
  },
);

type Common = Omit<NewSuppression, 'email'>;

async function commonOf(
  context: StoreContext,
  { body, caller, now }: Call<object, object, z.output<typeof NewSuppressions>>,
): Promise<Common> {
  const { reason = 'manual', note = null, stream = null, expires_at } = body;
  if (stream !== null && (await context.findStream(caller.accountId, stream)) === null)
    throw new Problem('unknown_stream', `There is no stream ${JSON.stringify(stream)}.`, { field: 'stream' });
  const expiresAt = expires_at === undefined ? null : Date.parse(expires_at);
  if (expiresAt !== null && expiresAt <= now) throw invalid('expires_at', '`expires_at` must be a time to come.');
  return { accountId: caller.accountId, stream, reason, note, createdBy: actorOf(caller), expiresAt };
}

function replyToOne([added]: readonly Added[]): Reply {
  if (added === undefined) throw new Error('one entry was added and none came back');
  const body = suppressionRecord(added.row);
  if (!added.created) return { status: 200, body };
  return { status: 201, body, headers: { Location: `${PATH}/${encodeURIComponent(body.email)}` } };
}

/** Each malformed address has its error in the answer; the others were added. */
function replyToMany(
  given: readonly { email: string; why: string | null }[],
  added: readonly Added[],
  requestId: string,
): Reply {
  const rest = [...added];
  const data = given.map(({ email, why }, index) => {
    if (why !== null) {
      const field = `emails[${String(index)}]`;
      const message = `\`${field}\` is not a mail address: ${why}.`;
      const error = { code: 'invalid_address', message, field, request_id: requestId };
      return { index, email, id: null, result: 'rejected', error };
    }
    const one = rest.shift();
    if (one === undefined) throw new Error('fewer entries came back than were added');
    return { index, email, id: one.row.id, result: one.created ? 'created' : 'existing', error: null };
  });
  const emails = given.map(({ email }) => email);
  return { status: 200, body: { object: 'list', data }, deed: manyAdded(emails, added) };
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

const list = kind.list(
  {
    operationId: 'listSuppressions',
    description:
      'Newest first, without those that have ended. `Accept: text/csv` or `application/x-ndjson` sends the whole list.',
    query: listQuery,
    whole: 'suppressions',
  },
  async (wanted, { query }: Call<object, z.output<typeof listQuery>, undefined>, { db, clock }) => {
    const { email, reason, stream, scope, created_after: createdAfter, created_before: createdBefore } = query;
    refuseBoth(stream, scope);
    const scoped = scope === undefined ? stream : null;
    const filter = { accountId: wanted.accountId, email, reason, stream: scoped, createdAfter, createdBefore };
    const { rows, ...page } = await pageOfSuppressions({ db, clock }, filter, wanted);
    return { ...page, data: rows.map(suppressionRecord) };
  },
);

function refuseBoth(stream: string | undefined, scope: 'account' | undefined): void {
  if (stream !== undefined && scope !== undefined)
    throw new Problem('mutually_exclusive_fields', '`stream` and `scope` exclude each other.', { field: 'scope' });
}

const notListed = (): Problem => notFound('email', 'This address is not on the list.');

const get = kind.get(
  {
    operationId: 'getSuppression',
    description: 'The entry for the whole account if there is one, else one of a stream. 404: the address is mailed.',
    query: z.strictObject({ stream: z.string().max(32).optional().describe('Only the entry for this stream.') }),
  },
  async ({ params: { email }, query: { stream }, caller }, { db, clock }) => {
    const rows = await suppressionsOf({ db, clock }, { accountId: caller.accountId, email });
    const wanted = stream === undefined ? rows : rows.filter(({ scope }) => scope === `stream:${stream}`);
    const [row] = wanted.sort((a, b) => (a.scope < b.scope ? -1 : 1));
    if (row === undefined) throw notListed();
    return suppressionRecord(row);
  },
);

const remove = kind.remove(
  {
    operationId: 'deleteSuppression',
    description:
      'Removes the entries of the address, in all scopes, for one stream or for the whole account. An entry made by a complaint goes only with `force=true`: the recipient who complained must ask for mail again.',
    scope: ['suppression:delete'],
    says: 'removed {email} from suppressions',
    keeps: ['email', 'entries', 'note'],
    query: z.strictObject({
      stream: z.string().max(32).optional().describe('Only the entry for this stream.'),
      scope: z.literal('account').optional().describe('`account`: only the entry for the whole account.'),
      force: z.enum(['true', 'false']).optional().describe('Also entries made by complaints.'),
      note: z.string().max(LONGEST_NOTE).optional().describe('Why, for people who read the audit log.'),
    }),
    problems: ['mutually_exclusive_fields', 'invalid_state'],
  },
  (call, { db }) => {
    const { email } = call.params;
    const { stream, scope, force, note } = call.query;
    refuseBoth(stream, scope);
    const entry = {
      accountId: call.caller.accountId,
      email,
      force: force === 'true',
      ...(scope === 'account' ? { stream: null } : stream === undefined ? {} : { stream }),
    };
    const replyOf = (removed: readonly SuppressionRow[]): Reply => {
      if (removed.length === 0) throw notListed();
      const before = { email, entries: removed.map(suppressionRecord) };
      return { status: 204, body: null, before, deed: { object: email, before, after: { email, note } } };
    };
    return answerChange(call, replyOf, (rowsFor) => removeSuppressions({ db }, entry, rowsFor));
  },
);

/** Characters of a file; JSON is read as a whole, so its limit is lower. */
const MOST_CHARACTERS = 5 * 1024 * 1024;
const MOST_JSON = 256 * 1024;
const PIECE = 8 * 1024;
const MOST_SHOWN = 1000;

const ImportRequest = namedRequest('SuppressionImport', 'A list of addresses as another service exports it.', {
  content: z.string().min(1).max(MOST_CHARACTERS).describe('The text of the file: CSV, JSON, or addresses alone.'),
  reason: z.enum(suppressionReasons).nullish().describe('Where the file has none. Default: `manual`.'),
  stream: z
    .string()
    .max(32)
    .nullish()
    .describe('Where the file has none: slug of a stream. Default: the whole account.'),
  preview: z.boolean().nullish().describe('Only says what is read, and adds nothing. Default: false.'),
});

const count = (says: string) => z.int().describe(says);
const ImportResult = namedRecord('SuppressionImportResult', 'What was read of a list.', {
  object: z.literal('suppression_import'),
  preview: z.boolean().describe('True if nothing was added.'),
  created: count('Addresses that are new on the list; in a preview, those that can be read.'),
  existing: count('Addresses that were on the list already.'),
  by_reason: z.partialRecord(z.enum(suppressionReasons), z.int()).describe('The same by the reason that was read.'),
  rejected_count: count('Lines that were not taken.'),
  rejected: z
    .array(
      z.object({
        line: count('Line of the file, or place in the list of JSON, from 1.'),
        email: z.string().describe('What stands there.'),
        why: z.string().describe('Why it was not taken.'),
      }),
    )
    .describe('The first 1,000 of them.'),
});

const importList = kind.post(
  {
    path: `${PATH}/import`,
    operationId: 'importSuppressions',
    description:
      'Reads CSV and JSON of Resend, Postmark, SendGrid, Mailgun, SES, Brevo and Mailchimp Transactional, with their words for reasons. With `preview` it says what it reads, and adds nothing.',
    says: 'put {object} on the suppression list',
    keeps: ['emails', 'created', 'existing', 'rejected'],
    body: ImportRequest,
    bodyExamples: {
      csv: {
        summary: 'Bounces',
        value: { content: 'email,reason\nana@example.net,550 no such user\n', preview: true },
      },
    },
    responses: {
      200: jsonResponse('What was read.', ImportResult, 'One address', {
        object: 'suppression_import',
        preview: true,
        created: 1,
        existing: 0,
        by_reason: { hard_bounce: 1 },
        rejected_count: 0,
        rejected: [],
      }),
    },
    problems: ['invalid_state'],
  },
  async (call, context) => {
    const { content, reason, stream, preview } = call.body;
    const isPreview = preview === true;
    const { accountId } = call.caller;
    const createdBy = actorOf(call.caller);
    if (!isPreview) await context.refuseFullList(accountId);
    // Each part has a row of the audit. The record of an Idempotency-Key comes with the answer to the whole.
    const rowsOf = (deed: Deed): Rows => ({ audit: [call.auditRow({ status: 200, body: null, deed })] });
    const { rejected, ...counts } = await importCsv(piecesOf(content), {
      reason: reason ?? 'manual',
      stream: stream ?? null,
      mostJson: MOST_JSON,
      add: isPreview ? null : (entries) => addImported(context, { accountId, createdBy }, entries, rowsOf),
    });
    const body = {
      object: 'suppression_import',
      preview: isPreview,
      ...counts,
      rejected_count: rejected.length,
      rejected: rejected.slice(0, MOST_SHOWN),
    };
    return { status: 200, body, deed: { object: null } };
  },
);

export const suppressionOperations = [create, importList, list, get, remove];

/** Gives the text in pieces, between which other work runs. */
async function* piecesOf(content: string): AsyncGenerator<string> {
  for (let at = 0; at < content.length; at += PIECE) {
    await nextSlice();
    yield content.slice(at, at + PIECE);
  }
}
