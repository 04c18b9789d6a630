/** `/v1/audit`: every use of the account's keys, and what the operator did to it; one entry with its details. */
import { z } from 'zod';
import { findAuditEntry, pageOfAudit } from '../accounts/audit-list.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { Database } from '../storage/database.ts';
import type { AuditRow, RequestDetailsRow } from '../storage/tables.ts';
import type { Cursors } from './cursor.ts';
import { orWhole, type ListStreams } from './list-stream.ts';
import { answerPage, pageParameters, pageResponse } from './page.ts';
import { integerParameter, timeParameter } from './query.ts';
import { type Call, jsonResponse, route, type Route } from './route.ts';
import { reachOf } from './test-mode.ts';

export interface AuditListDeps {
  db: Pick<Database, 'reader'>;
  cursors: Cursors;
  streams: ListStreams;
}

const PATH = '/v1/audit';
const results = ['ok', 'refused', 'failed', 'idempotency_mismatch'] as const;

const record = () => z.record(z.string(), z.unknown()).nullable();

const AuditEntry = z
  .object({
    object: z.literal('audit_entry'),
    id: z.string().describe('Id of the entry.'),
    at: z.iso.datetime().describe('When it was.'),
    key_id: z.string().nullable().describe('Id of the key; null for what a person or the operator did.'),
    actor: z
      .string()
      .describe(
        '`key:` and the name of the key, `member:` and the address of a person, `operator`, or `webhook:` and the id of an endpoint that was disabled.',
      ),
    ip: z.string().nullable().describe('Address that it came from.'),
    method: z.string().describe('HTTP method, or `CLI` for a command.'),
    endpoint: z.string().describe('The path as the description names it, such as `/v1/messages/{id}`.'),
    status: z.int().describe('HTTP status of the answer.'),
    result: z.enum(results).describe('How it ended.'),
    error_code: z.string().nullable().describe('Code of the error catalogue; null for a success.'),
    request_id: z.string().describe('Id of the request.'),
    ms: z.number().describe('How long it took, in milliseconds.'),
    idempotency_replayed: z.boolean().describe('Whether an earlier answer was given again.'),
    user_agent: z.string().nullable().describe('Program that asked, as it called itself.'),
    operation: z.string().nullable().describe('Name of the operation; null where the request reached none.'),
    object_type: z.string().nullable().describe('Kind of the object that it was done to; null for what only reads.'),
    object_id: z.string().nullable().describe('Id or name of that object.'),
    before: record().describe('Members of the object as they were before; null where it was made.'),
    after: record().describe('The same members after; null where it was removed.'),
    summary: z
      .string()
      .nullable()
      .describe('The act as a sentence whose subject is `actor`; null for what only reads.'),
    path: z
      .string()
      .nullable()
      .describe(
        'The path as it was asked, without its query; null for an act without one, and where it names a person who was erased.',
      ),
    error_field: z.string().nullable().describe('The field that was refused.'),
    idempotency_key: z
      .string()
      .nullable()
      .describe('The `Idempotency-Key`; null where the answer holds a secret, which is stored sealed under it.'),
  })
  .meta({ id: 'AuditEntry', description: 'One use of a key.' });

const AuditEntryDetails = AuditEntry.extend({
  query: z.string().nullable().describe('The query, without its `?`.'),
  error_message: z.string().nullable().describe('The text of the error.'),
  body: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe(
      'The JSON body, where the server keeps it (`requestLog.bodies`): without contents, files, secrets and the values of variables, headers and metadata.',
    ),
}).meta({
  id: 'AuditEntryDetails',
  description: 'One use of a key, with what is kept of it for a shorter time (`retention.requestDetails`).',
});

const sample: z.output<typeof AuditEntry> = {
  object: 'audit_entry',
  id: 'aud_01jz5w8q3hf2m9d4x6k7c1b0na',
  at: '2026-01-31T09:30:02.481Z',
  key_id: 'key_01jz5w8q3hf2m9d4x6k7c1b0na',
  actor: 'key:shop',
  ip: '203.0.113.9',
  method: 'POST',
  endpoint: '/v1/messages',
  status: 202,
  result: 'ok',
  error_code: null,
  request_id: 'req_01jz5w8q3hf2m9d4x6k7c1b0na',
  ms: 4,
  idempotency_replayed: false,
  user_agent: 'curl/8.5.0',
  operation: 'sendMessage',
  object_type: 'message',
  object_id: 'msg_01jz5w8q3hf2m9d4x6k7c1b0na',
  before: null,
  after: null,
  summary: 'sent msg_01jz5w8q3hf2m9d4x6k7c1b0na',
  path: '/v1/messages',
  error_field: null,
  idempotency_key: '5f1c0b1e-8f60-4c67-9d0e-4f7b7a2f9d11',
};

const detailsSample: z.output<typeof AuditEntryDetails> = {
  ...sample,
  status: 400,
  result: 'refused',
  error_code: 'invalid_recipient',
  object_id: null,
  summary: 'sent … (refused: invalid_recipient)',
  error_field: 'to',
  query: null,
  error_message: '`to` is not an address: it has no @',
  body: { from: 'Acme <hi@acme.example>', to: 'ana', subject: 'Welcome', html: '(24 characters)' },
};

const listQuery = z.strictObject({
  ...pageParameters(),
  key_id: z.string().max(64).optional().describe('Uses of this key.'),
  actor: z
    .string()
    .max(200)
    .optional()
    .describe('`key:` and the name of a key, `member:` and an address, or `operator`.'),
  by: z
    .enum(['key', 'person'])
    .optional()
    .describe('`key`: uses of keys; `person`: what people did in the dashboard or as operator.'),
  method: z.string().max(16).optional().describe('In any case; commands have `CLI`.'),
  endpoint: z.string().max(200).optional().describe('As the entries show it.'),
  status: integerParameter(100, 599).optional().describe('HTTP status of the answer.'),
  result: z.enum(results).optional().describe('How it ended.'),
  ip: z.string().max(49).optional().describe('Address that it came from.'),
  request_id: z.string().max(64).optional().describe('The entry of this request.'),
  operation: z.string().max(64).optional().describe('Name of the operation.'),
  object_type: z.string().max(64).optional().describe('Kind of the object.'),
  object_id: z.string().max(200).optional().describe('Id or name of the object.'),
  since: timeParameter().optional().describe('From this time on.'),
  until: timeParameter().optional().describe('Before this time.'),
});

export function auditRoutes({ db, cursors, streams }: AuditListDeps): Route[] {
  return [
    route(
      {
        method: 'GET',
        path: PATH,
        operationId: 'listAuditEntries',
        description:
          'One entry for every use of a key, refused ones included, newest first. A call that changes something is written before it is answered, a read within 100 ms after it. A test key sees only the uses of test keys. `Accept: text/csv` or `application/x-ndjson` sends the whole list.',
        scope: ['audit:read'],
        query: listQuery,
        responses: orWhole(pageResponse('A page of entries.', AuditEntry, 'One entry', sample)),
        problems: ['too_many_streams'],
      },
      streams.whole('audit', (call: Call<object, z.output<typeof listQuery>, undefined>) =>
        answerPage(cursors, PATH, call, async (wanted) => {
          const { limit: _, after: __, before: ___, method, ...filters } = call.query;
          const filter = {
            of: reachOf(call.caller),
            ...filters,
            ...(method === undefined ? {} : { method: method.toUpperCase() }),
          };
          const { rows, ...page } = await pageOfAudit({ db }, filter, wanted);
          return { ...page, data: rows.map(auditRecord) };
        }),
      ),
    ),
    route(
      {
        method: 'GET',
        path: `${PATH}/{id}`,
        operationId: 'getAuditEntry',
        description:
          'With what is kept for a shorter time: the query, the text of the error, and the redacted body where the server keeps it.',
        scope: ['audit:read'],
        params: z.object({ id: z.string().max(64).describe('Id of the entry.') }),
        responses: { 200: jsonResponse('The entry.', AuditEntryDetails, 'A refused request', detailsSample) },
      },
      async ({ params: { id }, caller }) => {
        const found = await findAuditEntry({ db }, id, reachOf(caller));
        if (found === null) throw new Problem('not_found', 'There is no such entry.');
        return { status: 200, body: auditDetails(found) };
      },
    ),
  ];
}

const recordIn = (json: string | null): Record<string, unknown> | null =>
  json === null ? null : (JSON.parse(json) as Record<string, unknown>);

type AuditRecord = z.output<typeof AuditEntry>;

export function auditRecord(row: AuditRow): AuditRecord {
  const { account_id: _, at, idempotency_replayed, before_json: before, after_json: after, ...rest } = row;
  const path = row.path ?? (row.endpoint.startsWith('/') && !row.endpoint.includes('{') ? row.endpoint : null);
  return {
    object: 'audit_entry',
    ...rest,
    path,
    at: rfc3339(at),
    idempotency_replayed: idempotency_replayed === 1,
    before: recordIn(before),
    after: recordIn(after),
  };
}

export const auditDetails = ({
  row,
  details,
}: {
  row: AuditRow;
  details: RequestDetailsRow | null;
}): z.output<typeof AuditEntryDetails> => ({
  ...auditRecord(row),
  query: details?.query ?? null,
  error_message: details?.error_message ?? null,
  body: recordIn(details?.body ?? null),
});
