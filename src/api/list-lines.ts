/** The records of lists as CSV or as one JSON object a line (NDJSON): the lists that have these forms, and their columns. Pure. */
import { csvLine } from '../base/csv.ts';
import { statTypes } from '../events/stats.ts';

export type Records = readonly object[];

/** The media types of a whole list. */
export const lineTypes = ['text/csv', 'application/x-ndjson'] as const;
export type LineType = (typeof lineTypes)[number];

/** The lists by name: the operation that answers each, and the columns of CSV as paths in its records. */
export const lists = {
  messages: {
    operation: 'listMessages',
    columns: [
      ...['id', 'created_at', 'status', 'from', 'to', 'subject', 'stream', 'tags', 'template_id', 'batch_id', 'test'],
      ...['engagement.opens', 'engagement.clicks'],
    ],
  },
  events: {
    operation: 'listEvents',
    columns: [
      ...[
        'id',
        'timestamp',
        'type',
        'data.message_id',
        'data.recipient',
        'data.subject',
        'data.tags',
        'test',
        'detail',
      ],
    ],
  },
  stats: { operation: 'getStats', columns: ['at', 'key', ...statTypes.map((type) => `counts.${type}`)] },
  audit: {
    operation: 'listAuditEntries',
    columns: [
      ...['at', 'actor', 'key_id', 'ip', 'method', 'endpoint', 'path', 'status', 'result', 'error_code', 'error_field'],
      ...['ms', 'request_id', 'operation', 'object_type', 'object_id', 'summary', 'idempotency_replayed'],
      ...['idempotency_key', 'user_agent'],
    ],
  },
  suppressions: {
    operation: 'listSuppressions',
    columns: ['email', 'reason', 'scope', 'note', 'source_message_id', 'created_at', 'created_by', 'expires_at'],
  },
} as const;
export type ListName = keyof typeof lists;

/** Returns the lines of records. `csvLine` keeps spreadsheets from taking a value as a formula. */
export const linesOf = (list: ListName, type: LineType, records: Records): string =>
  records
    .map((record) =>
      type === 'text/csv'
        ? `${csvLine(lists[list].columns.map((at) => cellOf(valueOf(record, at))))}\n`
        : `${JSON.stringify(record)}\n`,
    )
    .join('');

/** Yields the text of pages of records. The first line of CSV has of each column the last part of its path. */
export async function* textOf(list: ListName, type: LineType, pages: AsyncIterable<Records>): AsyncGenerator<string> {
  if (type === 'text/csv') yield `${csvLine(lists[list].columns.map((at) => at.slice(at.indexOf('.') + 1)))}\n`;
  for await (const records of pages) if (records.length > 0) yield linesOf(list, type, records);
}

/** Returns the value at a path; `detail` of an event is the object that is named like its type. */
function valueOf(record: object, at: string): unknown {
  const steps = at === 'detail' ? ['data', String((record as { type?: unknown }).type)] : at.split('.');
  return steps.reduce<unknown>(
    (here, step) => (typeof here === 'object' && here !== null ? (here as Record<string, unknown>)[step] : undefined),
    record,
  );
}

function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(String).join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
