/**
 * Every table, in the order in which rows are written: a table that others refer to comes first. Each is declared once, in tables/, with
 * its columns, their types and how its rows are written. Names are the database's own. Times are milliseconds since the epoch, flags
 * are 0 or 1, `*_json` columns hold JSON text. Ids are TypeIDs (base/id.ts): they sort by the time they were made.
 */
import type { RowOf, TableOptions } from './table.ts';
import {
  accounts,
  apiKeys,
  streams,
  idempotency,
  audit,
  requestDetails,
  settings,
  accountSettings,
} from './tables/accounts.ts';
import { domains, dkimKeys } from './tables/domains.ts';
import { suppressions } from './tables/suppressions.ts';
import {
  batches,
  contents,
  attachments,
  messages,
  messageTags,
  messageMetadata,
  messageWords,
} from './tables/messages.ts';
import { deliveries, attempts, counters, holds } from './tables/deliveries.ts';
import { events, eventCounts } from './tables/events.ts';
import { templates, templateVersions } from './tables/templates.ts';
import { reports, tlsReportRows, dmarcRows, aggregateReports } from './tables/reports.ts';
import { webhooks, webhookCalls, webhookDeliveries, webhookReplays } from './tables/webhooks.ts';
import { stsPolicies, hostTls, warmUp, limits, listings, listChecks } from './tables/engine.ts';
import { members, memberships, sessions, signIns, setupLinks, recoveryCodes } from './tables/members.ts';

export * from './tables/accounts.ts';
export * from './tables/domains.ts';
export * from './tables/suppressions.ts';
export * from './tables/messages.ts';
export * from './tables/deliveries.ts';
export * from './tables/events.ts';
export * from './tables/templates.ts';
export * from './tables/reports.ts';
export * from './tables/webhooks.ts';
export * from './tables/engine.ts';
export * from './tables/members.ts';

export const tables = {
  accounts,
  api_keys: apiKeys,
  domains,
  dkim_keys: dkimKeys,
  streams,
  suppressions,
  batches,
  contents,
  attachments,
  messages,
  deliveries,
  attempts,
  events,
  idempotency,
  audit,
  request_details: requestDetails,
  counters,
  message_tags: messageTags,
  message_metadata: messageMetadata,
  message_words: messageWords,
  settings,
  templates,
  template_versions: templateVersions,
  account_settings: accountSettings,
  event_counts: eventCounts,
  reports,
  webhooks,
  webhook_calls: webhookCalls,
  webhook_deliveries: webhookDeliveries,
  webhook_replays: webhookReplays,
  holds,
  sts_policies: stsPolicies,
  host_tls: hostTls,
  warm_up: warmUp,
  limits,
  listings,
  list_checks: listChecks,
  tls_report_rows: tlsReportRows,
  dmarc_rows: dmarcRows,
  aggregate_reports: aggregateReports,
  members,
  memberships,
  sessions,
  sign_ins: signIns,
  setup_links: setupLinks,
  recovery_codes: recoveryCodes,
};

export type TableName = keyof typeof tables;
export const optionsOf = (name: TableName): TableOptions => tables[name];
/** The row of each table. */
export type Tables = { [T in TableName]: RowOf<(typeof tables)[T]> };
