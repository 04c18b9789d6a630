/** `/v1/settings`: the settings of an account, and its limits. */
import { z } from 'zod';
import { invalid } from '../base/problem.ts';
import { accountSettings, changeSettings, type SettingsChanges } from '../accounts/settings-store.ts';
import type { Caller } from '../keys/caller.ts';
import { columnsOf } from '../storage/record.ts';
import { tables, type AccountSettingsRow } from '../storage/tables.ts';
import type { ApiContext } from './context.ts';
import { flag, maybeWhole, namedRecord, namedRequest, text, texts, whole } from './record-schema.ts';
import { resource } from './resource.ts';
import { jsonResponse, answerChange, updated } from './route.ts';
import { DAY_MS } from '../base/time.ts';

const PATH = '/v1/settings';
const MOST_DAYS = 36_500;

const days = (of: string) => z.int().min(1).max(MOST_DAYS).nullable().optional().describe(`Days that ${of} are kept.`);
const plural = { content: 'html, text and attachments', messages: 'messages and their attempts', events: 'events' };

const Settings = namedRecord('Settings', 'Settings of the account, and its limits.', {
  object: z.literal('settings'),
  track_opens: flag('For domains that say nothing themselves.'),
  track_clicks: flag('For domains that say nothing themselves.'),
  retention: z
    .object({
      content_days: whole(`Days that ${plural.content} are kept.`, 30),
      messages_days: whole(`Days that ${plural.messages} are kept.`, 90),
      events_days: whole(`Days that ${plural.events} are kept.`, 90),
    })
    .describe('Mail that is not finished is never removed.'),
  plan: text('Name of the plan, which the operator chooses.', 'standard'),
  limits: z
    .object({
      requests_per_minute: maybeWhole('Requests a minute over all keys.', 600),
      mails_per_day: maybeWhole('Recipients accepted a UTC day; null means no limit.', 1000),
      mails_per_month: maybeWhole('Recipients accepted a UTC month; null means no limit.'),
      recipients: whole('Addresses in one message.', 50),
      bulk_recipients: whole('Entries of one bulk send.', 1000),
      attachments: whole('Attachments of one message.', 50),
      blocked_extensions: texts('Extensions of attachments that are refused, without the dot.', ['exe', 'js', 'vbs']),
      html_bytes: whole('Bytes of the html body in UTF-8.', 5_242_880),
      text_bytes: whole('Bytes of the text body in UTF-8.', 5_242_880),
      message_bytes: whole('Bytes of one message, encoded.', 26_214_400),
      body_bytes: whole('Bytes of the body of one request.', 52_428_800),
      single_body_bytes: whole('Bytes of the body of a request that is not a bulk send.', 41_943_040),
    })
    .describe('What the plan and the server allow.'),
  usage: z
    .object({
      mails_today: whole('Recipients accepted since midnight, UTC, without simulated mail.', 17),
      mails_this_month: whole('Recipients accepted since the first of the month, UTC, without simulated mail.', 230),
    })
    .describe('How much of the quotas is used.'),
});

const Changes = namedRequest('SettingsChanges', 'The members to change; all others stay the same.', {
  track_opens: z.boolean().nullable().optional().describe('Null goes back to the default, false.'),
  track_clicks: z.boolean().nullable().optional().describe('Null goes back to the default, false.'),
  retention: z
    .strictObject({
      content_days: days(plural.content),
      messages_days: days(plural.messages),
      events_days: days(plural.events),
    })
    .optional()
    .describe("At most what the server keeps; null goes back to the server's own."),
});

const kind = resource({
  path: PATH,
  one: PATH,
  params: z.object({}),
  schema: Settings,
  reads: 'settings',
  changes: 'settings',
  type: 'settings',
  audited: ['track_opens', 'track_clicks', 'retention'],
});
const responses = { 200: jsonResponse('The settings as they are now.', Settings, 'Settings') };

const get = kind.get(
  { operationId: 'getSettings', description: 'With the limits of its plan and how much of them is used.', responses },
  async ({ caller }, context: ApiContext) => {
    const { accountId } = caller;
    return recordOf(context, caller, await accountSettings(context, accountId), await context.usedBy(accountId));
  },
);

const update = kind.update(
  {
    operationId: 'updateSettings',
    description: 'Only what is given changes. Limits and plan are the operator’s to change.',
    says: 'changed the settings of the account',
    body: Changes,
    bodyExamples: { retention: { summary: 'Keep contents for a week', value: { retention: { content_days: 7 } } } },
    responses,
  },
  async (call, context: ApiContext) => {
    const { caller, body } = call;
    const changes = changesOf(context, body);
    const used = await context.usedBy(caller.accountId);
    const record = (row: AccountSettingsRow) => recordOf(context, caller, row, used);
    const before = record(await accountSettings(context, caller.accountId));
    const reply = await answerChange(call, updated(record, before), (rowsFor) =>
      changeSettings(context, caller.accountId, changes, rowsFor),
    );
    context.changes.settingsChanged(caller.accountId);
    return reply;
  },
);

export const settingsOperations = [get, update];

function changesOf({ retention: most }: ApiContext, body: z.output<typeof Changes>): SettingsChanges {
  const { track_opens, track_clicks, retention = {} } = body;
  const { content_days, messages_days, events_days } = retention;
  checkDays('retention.content_days', content_days, most.content);
  checkDays('retention.messages_days', messages_days, most.messages);
  checkDays('retention.events_days', events_days, most.events);
  return columnsOf(tables.account_settings, { track_opens, track_clicks, ...retention });
}

function checkDays(field: string, wanted: number | null | undefined, mostMs: number): void {
  if (wanted == null || wanted <= daysOf(mostMs)) return;
  throw invalid(field, `The server keeps this for ${String(daysOf(mostMs))} days at most.`);
}

const daysOf = (ms: number): number => Math.max(1, Math.floor(ms / DAY_MS));

function recordOf(
  { retention, limits, planOf }: ApiContext,
  { plan }: Caller,
  row: AccountSettingsRow,
  used: { today: number; thisMonth: number },
): z.output<typeof Settings> {
  const allowed = planOf(plan);
  // An earlier setting of the account may be more than the server allows today.
  const kept = (own: number | null, mostMs: number): number => Math.min(own ?? Infinity, daysOf(mostMs));
  return {
    object: 'settings',
    track_opens: row.track_opens === 1,
    track_clicks: row.track_clicks === 1,
    retention: {
      content_days: kept(row.content_days, retention.content),
      messages_days: kept(row.messages_days, retention.messages),
      events_days: kept(row.events_days, retention.events),
    },
    plan,
    limits: {
      requests_per_minute: allowed?.requestsPerMinute ?? null,
      mails_per_day: allowed?.mailsPerDay ?? null,
      mails_per_month: allowed?.mailsPerMonth ?? null,
      recipients: limits.recipients,
      bulk_recipients: limits.bulkRecipients,
      attachments: limits.attachments,
      blocked_extensions: [...limits.blockedExtensions],
      html_bytes: limits.htmlBytes,
      text_bytes: limits.textBytes,
      message_bytes: limits.messageBytes,
      body_bytes: limits.bodyBytes,
      single_body_bytes: limits.singleBodyBytes,
    },
    usage: { mails_today: used.today, mails_this_month: used.thisMonth },
  };
}
