/** `/v1/audit`: every use of the account's keys, and what the operator did to it; one entry with its details. */
import { z } from 'zod';
import { findAuditEntry, pageOfAudit } from '../accounts/audit-list.ts';
import { Problem } from '../base/problem.ts';
import { recordOf } from '../storage/record.ts';
import { audit, auditResults, type AuditRow, type RequestDetailsRow } from '../storage/tables.ts';
import { pageParameters } from './page.ts';
import { integerParameter, timeParameter } from './query.ts';
import { maybe, recordSchema, sampleOf, shows } from './record-schema.ts';
import { resource } from './resource.ts';
import { type Call, jsonResponse } from './route.ts';
import { reachOf } from './test-mode.ts';

const auditMembers = recordOf('audit_entry', audit);
export const AuditEntry = recordSchema(auditMembers, { id: 'AuditEntry', description: 'One use of a key.' });

export const AuditEntryDetails = AuditEntry.extend({
  query: maybe('The query, without its `?`.'),
  error_message: maybe('The text of the error.', '`to` is not an address: it has no @'),
  body: shows(
    z
      .record(z.string(), z.unknown())
      .nullable()
      .describe(
        'The JSON body, if the server keeps it (`requestLog.bodies`): without contents, files, secrets and the values of variables, headers and metadata.',
      ),
    { from: 'Acme <hi@acme.example>', to: 'ana', subject: 'Welcome', html: '(24 characters)' },
  ),
}).meta({
  id: 'AuditEntryDetails',
  description: 'One use of a key, with what is kept of it for a shorter time (`retention.requestDetails`).',
});

const refusedSample = {
  ...sampleOf(AuditEntryDetails),
  status: 400,
  result: 'refused',
  error_code: 'invalid_recipient',
  object_id: null,
  summary: 'sent … (refused: invalid_recipient)',
  error_field: 'to',
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
  result: z.enum(auditResults).optional().describe('How it ended.'),
  ip: z.string().max(49).optional().describe('Address that it came from.'),
  request_id: z.string().max(64).optional().describe('The entry of this request.'),
  operation: z.string().max(64).optional().describe('Name of the operation.'),
  object_type: z.string().max(64).optional().describe('Kind of the object.'),
  object_id: z.string().max(200).optional().describe('Id or name of the object.'),
  since: timeParameter().optional().describe('From this time on.'),
  until: timeParameter().optional().describe('Before this time.'),
});

const kind = resource({
  path: '/v1/audit',
  params: z.object({ id: z.string().max(64).describe('Id of the entry.') }),
  schema: AuditEntry,
  reads: 'audit:read',
  changes: 'audit:read',
});

const list = kind.list(
  {
    operationId: 'listAuditEntries',
    description:
      'One entry for every use of a key, refused ones included, newest first. A call that changes something is written before it is answered, a read within 100 ms after it. A test key sees only the uses of test keys. `Accept: text/csv` or `application/x-ndjson` sends the whole list.',
    query: listQuery,
    whole: 'audit',
  },
  async (wanted, { query, caller }: Call<object, z.output<typeof listQuery>, undefined>, { db }) => {
    const { limit: _, after: __, before: ___, method, ...filters } = query;
    const filter = {
      of: reachOf(caller),
      ...filters,
      ...(method === undefined ? {} : { method: method.toUpperCase() }),
    };
    const { rows, ...page } = await pageOfAudit({ db }, filter, wanted);
    return { ...page, data: rows.map(auditRecord) };
  },
);

const get = kind.get(
  {
    operationId: 'getAuditEntry',
    description:
      'With what is kept for a shorter time: the query, the text of the error, and the redacted body if the server keeps it.',
    responses: { 200: jsonResponse('The entry.', AuditEntryDetails, 'A refused request', refusedSample) },
  },
  async ({ params: { id }, caller }, { db }) => {
    const found = await findAuditEntry({ db }, id, reachOf(caller));
    if (found === null) throw new Problem('not_found', 'There is no such entry.');
    return auditDetails(found);
  },
);

export const auditOperations = [list, get];

export function auditRecord(row: AuditRow) {
  const path = row.path ?? (row.endpoint.startsWith('/') && !row.endpoint.includes('{') ? row.endpoint : null);
  return auditMembers(row, { path });
}

export const auditDetails = ({ row, details }: { row: AuditRow; details: RequestDetailsRow | null }) => ({
  ...auditRecord(row),
  query: details?.query ?? null,
  error_message: details?.error_message ?? null,
  body: details?.body == null ? null : (JSON.parse(details.body) as Record<string, unknown>),
});
