/** `POST /v1/suppressions/import`: puts a list on the suppression list in the form in which this or another service exports it. */
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import { nextSlice } from '../base/slices.ts';
import { actorOf } from '../keys/caller.ts';
import type { Deed } from '../operations/audit-row.ts';
import type { Database } from '../storage/database.ts';
import type { Rows } from '../storage/rows.ts';
import { suppressionReasons } from '../storage/tables.ts';
import { addImported, importCsv } from '../suppressions/suppression-csv.ts';
import type { RefuseFullList } from '../suppressions/suppression-store.ts';
import { type Call, jsonResponse, type Reply, route, type Route } from './route.ts';

interface ImportDeps {
  db: Pick<Database, 'commit' | 'reader'>;
  clock: Clock;
  refuseFullList: RefuseFullList;
}

/** Characters of a file; JSON is read as a whole, so its limit is lower. */
const MOST_CHARACTERS = 5 * 1024 * 1024;
const MOST_JSON = 256 * 1024;
const PIECE = 8 * 1024;
const MOST_SHOWN = 1000;

const ImportRequest = z
  .strictObject({
    content: z.string().min(1).max(MOST_CHARACTERS).describe('The text of the file: CSV, JSON, or addresses alone.'),
    reason: z.enum(suppressionReasons).nullish().describe('Where the file has none. Default: `manual`.'),
    stream: z
      .string()
      .max(32)
      .nullish()
      .describe('Where the file has none: slug of a stream. Default: the whole account.'),
    preview: z.boolean().nullish().describe('Only says what is read, and adds nothing. Default: false.'),
  })
  .meta({ id: 'SuppressionImport', description: 'A list of addresses as another service exports it.' });

const count = (says: string) => z.int().describe(says);
const ImportResult = z
  .object({
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
  })
  .meta({ id: 'SuppressionImportResult', description: 'What was read of a list.' });

type ImportBody = z.output<typeof ImportRequest>;

export function suppressionImportRoute(deps: ImportDeps): Route {
  return route(
    {
      method: 'POST',
      path: '/v1/suppressions/import',
      operationId: 'importSuppressions',
      description:
        'Reads CSV and JSON of Resend, Postmark, SendGrid, Mailgun, SES, Brevo and Mailchimp Transactional, with their words for reasons. With `preview` it says what it reads, and adds nothing.',
      scope: ['suppression'],
      act: {
        says: 'put {object} on the suppression list',
        type: 'suppression',
        named: 'email',
        keeps: ['emails', 'created', 'existing', 'rejected'],
      },
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
    (call: Call<object, object, ImportBody>) => run(deps, call),
  );
}

async function run(deps: ImportDeps, call: Call<object, object, ImportBody>): Promise<Reply> {
  const { content, reason, stream, preview } = call.body;
  const isPreview = preview === true;
  const { accountId } = call.caller;
  const createdBy = actorOf(call.caller);
  if (!isPreview) await deps.refuseFullList(accountId);
  // Each part has a row of the audit. The record of an Idempotency-Key comes with the answer to the whole.
  const rowsOf = (deed: Deed): Rows => ({ audit: [call.auditRow({ status: 200, body: null, deed })] });
  const { rejected, ...counts } = await importCsv(piecesOf(content), {
    reason: reason ?? 'manual',
    stream: stream ?? null,
    mostJson: MOST_JSON,
    add: isPreview ? null : (entries) => addImported(deps, { accountId, createdBy }, entries, rowsOf),
  });
  const body = {
    object: 'suppression_import',
    preview: isPreview,
    ...counts,
    rejected_count: rejected.length,
    rejected: rejected.slice(0, MOST_SHOWN),
  };
  return { status: 200, body, deed: { object: null } };
}

/** Gives the text in pieces, between which other work runs. */
async function* piecesOf(content: string): AsyncGenerator<string> {
  for (let at = 0; at < content.length; at += PIECE) {
    await nextSlice();
    yield content.slice(at, at + PIECE);
  }
}
