/**
 * Every table, in the order in which rows are written: one that others refer to comes first. Each is declared once, in tables/. Names are the
 * database's own. Times are milliseconds since the epoch, flags 0 or 1, `*_json` columns JSON text. Ids are TypeIDs (base/id.ts): they sort by time.
 */
import type { RowOf, TableOptions } from './table.ts';
import * as accounts from './tables/accounts.ts';
import * as domains from './tables/domains.ts';
import * as suppressions from './tables/suppressions.ts';
import * as messages from './tables/messages.ts';
import * as deliveries from './tables/deliveries.ts';
import * as events from './tables/events.ts';
import * as templates from './tables/templates.ts';
import * as reports from './tables/reports.ts';
import * as received from './tables/received.ts';
import * as webhooks from './tables/webhooks.ts';
import * as engine from './tables/engine.ts';
import * as members from './tables/members.ts';

export * from './tables/accounts.ts';
export * from './tables/domains.ts';
export * from './tables/suppressions.ts';
export * from './tables/messages.ts';
export * from './tables/deliveries.ts';
export * from './tables/events.ts';
export * from './tables/templates.ts';
export * from './tables/reports.ts';
export * from './tables/received.ts';
export * from './tables/webhooks.ts';
export * from './tables/engine.ts';
export * from './tables/members.ts';

export const tables = {
  accounts: accounts.accounts,
  api_keys: accounts.apiKeys,
  domains: domains.domains,
  dkim_keys: domains.dkimKeys,
  streams: accounts.streams,
  suppressions: suppressions.suppressions,
  batches: messages.batches,
  contents: messages.contents,
  attachments: messages.attachments,
  messages: messages.messages,
  deliveries: deliveries.deliveries,
  attempts: deliveries.attempts,
  events: events.events,
  idempotency: accounts.idempotency,
  audit: accounts.audit,
  request_details: accounts.requestDetails,
  counters: deliveries.counters,
  message_tags: messages.messageTags,
  message_metadata: messages.messageMetadata,
  message_words: messages.messageWords,
  settings: accounts.settings,
  templates: templates.templates,
  template_versions: templates.templateVersions,
  account_settings: accounts.accountSettings,
  event_counts: events.eventCounts,
  reports: reports.reports,
  received: received.received,
  received_sources: received.receivedSources,
  webhooks: webhooks.webhooks,
  webhook_calls: webhooks.webhookCalls,
  webhook_deliveries: webhooks.webhookDeliveries,
  webhook_replays: webhooks.webhookReplays,
  sts_policies: engine.stsPolicies,
  host_tls: engine.hostTls,
  limit_counts: engine.limitCounts,
  limits: engine.limits,
  listings: engine.listings,
  list_checks: engine.listChecks,
  tls_report_rows: reports.tlsReportRows,
  dmarc_rows: reports.dmarcRows,
  aggregate_reports: reports.aggregateReports,
  members: members.members,
  memberships: members.memberships,
  sessions: members.sessions,
  sign_ins: members.signIns,
  setup_links: members.setupLinks,
  recovery_codes: members.recoveryCodes,
};

export type TableName = keyof typeof tables;
export const optionsOf = (name: TableName): TableOptions => tables[name];
export type Tables = { [T in TableName]: RowOf<(typeof tables)[T]> };
