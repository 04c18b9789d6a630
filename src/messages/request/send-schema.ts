/**
 * The members of a send request: one schema that checks, types and documents them. The schema has only the rules about a single value. Rules about
 * addresses, bytes, times and several members are in message-draft.ts; limits that are settings are only documented here (`meta`) and enforced there,
 * so that the schemas are built once.
 */
import { z } from 'zod';

import { faults, type FaultNote } from '../../base/check.ts';
import { LONGEST_FILENAME } from './attachment.ts';
import { HEADER_LENGTH, LONGEST_REFERENCES, MOST_HEADERS } from './header-rule.ts';
import { MOST_METADATA_KEYS, MOST_REPLY_TO, MOST_TAGS, defaultLimits, type SendLimits } from './send-limits.ts';
import { templateMembers } from './template-members.ts';

/** The hint for a `to` of the wrong type or with several addresses. */
export const ONE_RECIPIENT = 'Several people go into `cc` and `bcc`, or into `recipients` for a mail each';

export const simulatedOutcomes = ['delivered', 'bounced', 'deferred', 'complained', 'opened', 'clicked'] as const;
export type SimulatedOutcome = (typeof simulatedOutcomes)[number];

/** A string of at most `most` characters, counted as in JSON Schema: code points, not UTF-16 units. */
function characters(most: number, note: FaultNote = {}): z.ZodString {
  const says = `must have at most ${String(most)} characters`;
  return z
    .string()
    .refine((text) => text.length <= most || (text.length <= 2 * most && Array.from(text).length <= most), {
      error: note.says ?? says,
      params: { code: note.code ?? 'field_too_long' },
    })
    .meta({ maxLength: most });
}

/** The address parser checks the format; 1,000 characters leave room for a display name. */
export const address = (description: string): z.ZodString =>
  z.string().meta({ minLength: 3, maxLength: 1000, description });

const addresses = (most: number): z.ZodUnion<[z.ZodString, z.ZodArray<z.ZodString>]> =>
  z.union([address('One mailbox.'), z.array(address('One mailbox.')).meta({ maxItems: most })]);

/** Templates are rendered before this check (templated-send.ts): a request that still has these members came from elsewhere. */
const rendered = z
  .null()
  .register(faults, { unavailable: true, says: 'cannot be used here' })
  .optional()
  .describe('Rendered before.');
const renderedMembers = {
  template_id: rendered,
  template_version: rendered,
  variables: rendered,
  strict_variables: rendered,
  locale: rendered,
  timezone: rendered,
} satisfies Record<keyof typeof templateMembers, z.ZodType>;

const NO_LINE_BREAK = /^[^\r\n\0]*$/;
/**
 * A header value may have tabs, but no other control characters. These patterns are in the API's description, and generated clients compile
 * them without the flag `u`, which `\p{Cc}` would need.
 */
const HEADER_VALUE = /^[^\x00-\x08\x0a-\x1f\x7f-\x9f]*$/;
const FILENAME = /^[^/\\\x00-\x1f\x7f-\x9f]+$/;
const NO_NUL = /^[^\0]*$/;
/** A content type (RFC 2045 section 5.1); a quoted value is printable ASCII. */
const CONTENT_TYPE =
  /^[!#$%&'*+.^_`|~A-Za-z0-9-]{1,127}\/[!#$%&'*+.^_`|~A-Za-z0-9-]{1,127}(?:[ \t]*;[ \t]*[!#$%&'*+.^_`|~A-Za-z0-9-]+=(?:[!#$%&'*+.^_`|~A-Za-z0-9-]+|"(?:[\t !#-[\]-~]|\\[\t -~])*"))*$/;

const badAttachment = (says: string): FaultNote => ({ code: 'invalid_attachment', says });

const Attachment = z.strictObject({
  filename: z
    .string()
    .regex(FILENAME)
    .register(
      faults,
      badAttachment(`must have 1 to ${String(LONGEST_FILENAME)} bytes without / \\ and control characters`),
    )
    .meta({
      minLength: 1,
      maxLength: LONGEST_FILENAME,
      description: 'Name the recipient sees; decides about refused types.',
    }),
  content: z.string().meta({
    contentEncoding: 'base64',
    description: 'The file in base64 (standard alphabet, with padding; white space is ignored).',
  }),
  content_type: z
    .string()
    .max(200)
    .regex(CONTENT_TYPE)
    .refine((type) => !/^multipart\//i.test(type))
    .register(
      faults,
      badAttachment('must be a type such as `application/pdf` or `text/calendar; method=REQUEST`, and not multipart'),
    )
    .nullish()
    .describe(
      '`type/subtype`, parameters allowed. Default: by the extension, a text with `charset=utf-8` if it is UTF-8; else application/octet-stream.',
    ),
  content_id: z
    .string()
    .regex(/^[A-Za-z0-9._@+-]{1,78}$/)
    .register(faults, badAttachment('must be 1 to 78 of the characters A-Z a-z 0-9 . _ @ + -, without brackets'))
    .nullish()
    .describe('Makes the part inline, for `cid:` in the html; unique in the message, without brackets.'),
  disposition: z
    .enum(['attachment', 'inline'])
    .register(faults, { code: 'invalid_attachment' })
    .nullish()
    .describe('Default: inline with a content_id, else attachment.'),
});

const headers = z
  .record(
    z
      .string()
      .regex(/^[!-9;-~]{1,126}$/)
      .register(faults, {
        code: 'invalid_header',
        says: 'is not a header name: 1 to 126 visible ASCII characters without colon',
      }),
    characters(LONGEST_REFERENCES, { code: 'invalid_header' }).regex(HEADER_VALUE).register(faults, {
      code: 'invalid_header',
      says: HEADER_LENGTH,
    }),
  )
  .meta({ maxProperties: MOST_HEADERS })
  .nullish()
  .describe('Further headers. Those that the service sets or that have a member of their own are refused.');

const TAG = /^[^\s,\x00-\x1f\x7f-\x9f](?:[^,\x00-\x1f\x7f-\x9f]*[^\s,\x00-\x1f\x7f-\x9f])?$/;

/** A tag, in sends and in filters. Commas separate tags in filters and in headers. */
export const tagSchema = characters(128, { code: 'invalid_field' }).regex(
  TAG,
  'must have 1 to 128 characters, without commas, control characters and blanks at its ends',
);

const tags = z
  .array(tagSchema)
  .meta({ maxItems: MOST_TAGS, uniqueItems: true })
  .nullish()
  .describe('For grouping and statistics; the recipient does not see them.');

const metadata = z
  .record(
    z
      .string()
      .regex(/^[A-Za-z0-9_.-]{1,64}$/)
      .register(faults, { says: 'is not a metadata key: 1 to 64 of the characters A-Z a-z 0-9 _ . -' }),
    characters(500, { code: 'invalid_field' })
      .regex(NO_NUL)
      .register(faults, { says: 'must be at most 500 characters without NUL' }),
  )
  .meta({ maxProperties: MOST_METADATA_KEYS })
  .nullish()
  .describe('Returned in events, not visible to the recipient; keys and values together at most 10 KiB.');

const time = z.string().meta({ format: 'date-time', maxLength: 40 });

const FROM = 'Sender: one mailbox, `a@b` or `Name <a@b>`, of a verified domain.';
const SUBJECT = 'Subject line.';

const from = address(FROM);
const to = address('Recipient: one mailbox.').register(faults, { typeHint: ONE_RECIPIENT });
const subject = characters(998)
  .min(1)
  .regex(NO_LINE_BREAK)
  .register(faults, { says: 'must be 1 to 998 characters without line breaks and NUL' })
  .describe(SUBJECT);

const unsubscribe = z
  .union([
    z.boolean(),
    z.strictObject({
      url: z.string().max(2000).nullish().describe('Page of your own instead of the hosted one.'),
      mailto: z
        .string()
        .max(1000)
        .nullish()
        .describe('Address of your own instead of the hosted one, with a query such as `?subject=stop` if needed.'),
      one_click: z
        .boolean()
        .nullish()
        .describe('Whether a POST to the page unsubscribes at once (RFC 8058). Default: true, for a `url` false.'),
    }),
  ])
  .nullish()
  .describe(
    'Write List-Unsubscribe. Default: true on a stream of type broadcast and for a body with `{{unsubscribe_url}}`, else false.',
  );

/** The members of every form. `from` and `subject` are required in the single form and can be defaults in the bulk form. */
const someMembers = <T extends typeof templateMembers | typeof renderedMembers>(limits: SendLimits, templates: T) => ({
  html: z
    .string()
    .meta({ maxLength: limits.htmlBytes })
    .nullish()
    .describe(
      'HTML body, sent verbatim unless `variables` are given. One of `html`, `text` and `template_id` is required.',
    ),
  text: z.string().meta({ maxLength: limits.textBytes }).nullish().describe('Plain text body.'),
  auto_text: z.boolean().nullish().describe('Derive a text part if only html is given. Default: true.'),
  ...templates,
  headers,
  attachments: z
    .array(Attachment)
    .meta({ maxItems: limits.attachments })
    .nullish()
    .describe('Files that go with the mail.'),
  tags,
  metadata,
  send_at: time.nullish().describe('When to send, with offset, at most 30 days ahead. Default: now.'),
  expires_at: time.nullish().describe('When to give up, at most 7 days after `send_at`.'),
  track_opens: z
    .boolean()
    .nullish()
    .describe(
      'Put an invisible image at the end of the html. Default: as the domain says, then the account, else false.',
    ),
  track_clicks: z
    .boolean()
    .nullish()
    .describe(
      'Lead the links of the html over this service. Default: as the domain says, then the account, else false.',
    ),
  stream: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,31}$/)
    .register(faults, { code: 'unknown_stream', says: 'is not the name of a stream' })
    .nullish()
    .describe('The stream the mail belongs to. Default: `transactional`.'),
  unsubscribe,
  on_suppressed: z
    .enum(['accept', 'reject'])
    .nullish()
    .describe('What to answer when the recipient is suppressed: 202 with that status, or 409. Default: `accept`.'),
  test: z
    .union([
      z.boolean(),
      z.strictObject({ outcome: z.enum(simulatedOutcomes).describe('What the simulated send comes to.') }),
    ])
    .nullish()
    .describe('Simulates the delivery; nothing is sent. Always on for test keys. Default: false.'),
});

/** Returns the schemas with these limits in their documentation. */
export const sendSchemas = (limits: SendLimits) => schemasWith(limits, templateMembers);

function schemasWith<T extends typeof templateMembers | typeof renderedMembers>(limits: SendLimits, templates: T) {
  const members = someMembers(limits, templates);
  const copies = {
    cc: addresses(limits.recipients).nullish().describe('Further recipients, named in the mail.'),
    bcc: addresses(limits.recipients).nullish().describe('Further recipients, not named in the mail.'),
  };
  const replyTo = addresses(MOST_REPLY_TO).nullish().describe('Where answers go: up to 10 mailboxes.');
  const overridable = { from: from.nullish().describe(FROM), subject: subject.nullish().describe(SUBJECT) };
  const defaults = { from: overridable.from, reply_to: replyTo, subject: overridable.subject, ...members };
  const bulk = {
    on_error: z
      .enum(['skip', 'abort'])
      .nullish()
      .describe('What a faulty entry does: it is left out, or nothing is sent. Default: `skip`.'),
    allow_duplicates: z
      .boolean()
      .nullish()
      .describe('Whether an address may stand in several entries. Default: false.'),
  };
  const SingleMessage = z
    .strictObject({ from, to, ...copies, reply_to: replyTo, subject, ...members })
    .describe('One message to one recipient.');
  const BulkEntry = SingleMessage.extend(overridable).describe(
    'One message of a bulk send; its members override the shared ones.',
  );
  const BulkShared = z.strictObject({ ...defaults, ...bulk, recipients: z.array(z.unknown()) });
  const BulkMessage = z
    .strictObject({
      ...defaults,
      ...bulk,
      recipients: z
        .array(BulkEntry)
        .min(1)
        .meta({ maxItems: limits.bulkRecipients })
        .describe('One message is made for each entry.'),
    })
    .describe('One message for each entry of `recipients`; the other members are shared defaults.');
  return { SingleMessage, BulkMessage, BulkEntry, BulkShared };
}

const schemas = schemasWith(defaultLimits, renderedMembers);

/** The single form of `POST /v1/messages`. */
export const SingleMessage = schemas.SingleMessage;
/** The bulk form of `POST /v1/messages`, which has `recipients`. */
export const BulkMessage = schemas.BulkMessage;
/** An entry of the bulk form's `recipients`. */
export const BulkEntry = schemas.BulkEntry;
/** The bulk form with unchecked entries: each of them is checked by itself. */
export const BulkShared = schemas.BulkShared;
