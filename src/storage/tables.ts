/**
 * The rows of every table, one interface each, in the database's own spelling. Times are milliseconds since the epoch,
 * flags are 0 or 1, `*_json` columns hold JSON text. Ids are TypeIDs (base/id.ts): they sort by time of making.
 */

export interface AccountRow {
  id: string;
  name: string;
  plan: string;
  created_at: number;
  /** 1 while the operator has paused its sending: nothing is accepted, and what waits is held. */
  paused: number;
}

export interface ApiKeyRow {
  id: string;
  account_id: string;
  name: string;
  mode: 'live' | 'test';
  /** The 8 characters of the key that are not secret: how it is found and named in lists and logs. */
  public_id: string;
  /** SHA-256 of the whole key, hex. The key itself is stored nowhere. */
  hash: string;
  scopes_json: string;
  domains_json: string;
  allowed_ips_json: string;
  expires_at: number | null;
  created_at: number;
  created_by: string;
  revoked_at: number | null;
  last_used_at: number | null;
  last_used_ip: string | null;
  /** `POST /v1/messages`, or `SMTP`. */
  last_used_endpoint: string | null;
  /** `[[hour, uses], …]` of the last day, the hours counted since the epoch. */
  uses_json: string;
}

export interface DomainRow {
  id: string;
  account_id: string;
  name: string;
  status: 'pending' | 'verified' | 'failed';
  /** 1 where an operator vouched for the domain (`--trust`): it stays verified whatever DNS says. */
  trusted: number;
  return_path: string;
  track_opens: number | null;
  track_clicks: number | null;
  /** What the last check found, one entry a record (domains/dns-records.ts). */
  records_json: string;
  created_at: number;
  verified_at: number | null;
  checked_at: number | null;
  /** Since when a required record has been missing or wrong; null where none is. It stays for a day after the records were found again (domains/grace.ts). */
  failing_since: number | null;
  /** When all required records were found again after `failing_since`; null while one is missing. */
  found_again_at: number | null;
  /** From when on mail from it is refused: to come while the domain is verified, past once it has failed. Null where nothing is missing. */
  refused_at: number | null;
  /** When its people were told by mail of what `failing_since` says; null before. */
  told_at: number | null;
}

export interface DkimKeyRow {
  id: string;
  domain_id: string;
  selector: string;
  algorithm: 'rsa-sha256' | 'ed25519-sha256';
  /** PKCS#8 PEM under AES-256-GCM (base/keyring.ts). */
  private_key_sealed: string;
  /** SubjectPublicKeyInfo PEM. */
  public_key: string;
  state: 'pending' | 'active' | 'retiring';
  created_at: number;
  active_at: number | null;
  retired_at: number | null;
}

export interface StreamRow {
  id: string;
  account_id: string;
  slug: string;
  name: string;
  type: 'transactional' | 'broadcast';
  pool: string;
  /** Order inside a lane, given to each delivery as its class: 0 goes before 1. */
  priority: number;
  created_at: number;
  /** 1 while it is paused: nothing is accepted for it, and what waits is held. */
  paused: number;
}

export type SuppressionReason = 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';

export interface SuppressionRow {
  id: string;
  account_id: string;
  email: string;
  /** The address with its local part lower-cased (mail/address.ts addressKey): what is compared. */
  address_key: string;
  /** `account` or `stream:<slug>`. */
  scope: string;
  reason: SuppressionReason;
  source_message_id: string | null;
  note: string | null;
  created_at: number;
  created_by: string;
  expires_at: number | null;
}

export interface BatchRow {
  id: string;
  account_id: string;
  accepted: number;
  rejected: number;
  created_at: number;
  /** 1 where every message of it is simulated. */
  test: number;
}

/** What a mail says, stored once however many recipients it has. */
export interface ContentRow {
  id: string;
  account_id: string;
  html: string | null;
  text: string | null;
  auto_text: number;
  attachment_count: number;
  created_at: number;
  /** A submitted mail as it is sent, header and body; html, text and attachments are then empty. */
  raw: Buffer | null;
  /** What html and text are deltas of (messages/store/stored-content.ts), where they are none themselves. */
  base_id: string | null;
}

/** A template's source, of which the bodies of a bulk send tell what was made of it. Goes with the last of them. */
export interface ContentBaseRow {
  id: string;
  html: string | null;
  text: string | null;
}

export interface AttachmentRow {
  content_id: string;
  position: number;
  filename: string;
  content_type: string;
  /** The Content-ID without brackets, for `cid:` links. */
  cid: string | null;
  disposition: 'attachment' | 'inline';
  bytes: Buffer;
}

/** The ten statuses of a delivery, in the order of its life. */
export const deliveryStatuses = [
  'scheduled',
  'queued',
  'sent',
  'deferred',
  'delivered',
  'bounced',
  'complained',
  'suppressed',
  'failed',
  'canceled',
] as const;
export type DeliveryStatus = (typeof deliveryStatuses)[number];

export interface MessageRow {
  id: string;
  account_id: string;
  key_id: string | null;
  batch_id: string | null;
  content_id: string;
  from_name: string | null;
  from_address: string;
  from_domain: string;
  to_name: string | null;
  to_address: string;
  /** Mailboxes `[name, address][]`. */
  cc_json: string;
  bcc_json: string;
  reply_to_json: string;
  subject: string;
  /** Custom headers `[name, value][]`. */
  headers_json: string;
  stream: string;
  template_id: string | null;
  template_version: number | null;
  tags_json: string;
  metadata_json: string;
  send_at: number | null;
  /** As asked for by the sender; the moment a delivery is given up stands in deliveries.give_up_at. */
  expires_at: number | null;
  track_opens: number;
  track_clicks: number;
  /** 1 when delivery is simulated: by a test key, or towards the simulator's domain. */
  test: number;
  test_outcome: string | null;
  rfc_message_id: string;
  request_id: string | null;
  created_at: number;
  /** Status of the `to` recipient, kept in step by messages/delivery/record.ts. */
  status: DeliveryStatus;
  status_at: number;
  last_event_type: string | null;
  last_event_at: number | null;
  opens: number;
  clicks: number;
  first_opened_at: number | null;
  last_opened_at: number | null;
  first_clicked_at: number | null;
  bot_opens: number;
  bot_clicks: number;
  /** Address that its tracked and unsubscribe links begin with; null where it has none. */
  tracking_url: string | null;
  /** How its recipients can unsubscribe (messages/request/unsubscribe.ts); null where that is off. */
  unsubscribe_json: string | null;
  /** RFC 8689: 1 for REQUIRETLS, 0 for `TLS-Required: No`, else null. */
  require_tls: number | null;
  /** Whom a mail tells that it has failed in the end: of submitted mail, where there is somebody; else null. */
  notice_to: string | null;
  /** 1 for mail of our own (messages/accept/own-mail.ts): nothing answers it. */
  null_sender: number;
}

/** One message to one recipient: what the delivery engine works on. */
export interface DeliveryRow {
  id: string;
  message_id: string;
  account_id: string;
  type: 'to' | 'cc' | 'bcc';
  /** 1 for the recipient whose status the message shows: `to`, or the first envelope recipient of a submitted mail. */
  lead: number;
  name: string | null;
  address: string;
  address_key: string;
  /** What is looked up to deliver it: the recipient's domain, or `~simulator`. */
  domain: string;
  /** Order inside a lane: 0 transactional, 1 broadcast. */
  class: number;
  test: number;
  status: DeliveryStatus;
  status_at: number;
  /** When it needs attention next; null when nothing is left to do. While claimed, the end of the lease. */
  due_at: number | null;
  /** When it was to be sent: acceptance, or send_at. */
  queued_at: number;
  /** When the queue gives up. */
  give_up_at: number;
  attempt_count: number;
  /** The process that holds the claim, or null. Outcomes apply only for the same epoch and attempt. */
  claim_epoch: number | null;
  /** Look-ups in a row that said the domain does not exist, and when the first of them was. */
  no_domain_count: number;
  no_domain_since: number | null;
  smtp_code: number | null;
  enhanced_code: string | null;
  smtp_reply: string | null;
  mx: string | null;
  tls: string | null;
  /** What of ours keeps it back (messages/delivery/holds.ts), or null. */
  held_by: string | null;
  /** From when on the time that an operator's hold takes has not been given back yet. */
  held_at: number | null;
}

/** What the operator has set for part of the queue: mail held back, or a lane slowed down. */
export interface HoldRow {
  id: string;
  kind: 'hold' | 'limit';
  scope: 'domain' | 'lane' | 'account' | 'stream' | 'message' | 'source';
  /** A recipient domain, a lane's or source's name, an account's id, a stream's slug, a message's id. */
  target: string;
  /** The account that is concerned, where there is one. */
  account_id: string | null;
  /** 1: mail accepted later is held as well. */
  catches_new: number;
  /** Of a limit: connections at most. */
  connections: number | null;
  /** Of a limit: mails a minute at most. */
  per_minute: number | null;
  note: string | null;
  /** When it ends by itself, or null. */
  until: number | null;
  created_at: number;
  /** Who set it, as the audit log names them; null where an older version set it. */
  created_by: string | null;
}

/** A bounced delivery whose mail was sent again. */
export interface ResendRow {
  /** The message that bounced. */
  message_id: string;
  delivery_id: string;
  /** The new message. */
  resent_as: string;
  at: number;
}

/** What a source has sent to a site on a UTC day of its warm-up. */
export interface WarmUpRow {
  source: string;
  /** The operator's name, or the site's. */
  site: string;
  /** `2026-01-31`. */
  day: string;
  /** Place in the list of daily caps. */
  stage: number;
  sent: number;
  blocked: number;
  deferred: number;
  complained: number;
}

/** A source that a site refuses by a block list: left off it until then. The system's own address has an empty name. */
export interface SourceBlockRow {
  source: string;
  site: string;
  since: number;
  until: number;
  reply: string;
}

/** The MTA-STS policy of a recipient domain as it was last fetched. */
export interface StsPolicyRow {
  domain: string;
  /** The `id` of the TXT record for which it was fetched. */
  policy_id: string;
  policy_json: string;
  fetched_at: number;
  expires_at: number;
}

/** What was learnt of a mail host's TLS; `host` is `name:port`. */
export interface HostTlsRow {
  host: string;
  /** The hello it needs, as long as that is remembered; `none`, of an earlier version, is not used any more. */
  workaround: 'reduced' | 'legacy' | 'none' | null;
  workaround_until: number | null;
  /** When it last offered STARTTLS. */
  offered_at: number | null;
}

/** TLS sessions of one UTC day that came out alike, for the reports of RFC 8460. */
export interface TlsSessionRow {
  /** `2026-01-31` */
  day: string;
  /** The recipient domain. */
  domain: string;
  policy: 'tlsa' | 'sts' | 'no-policy-found';
  /** The TLSA base domain of the mail host where the policy is `tlsa`, else empty. */
  base: string;
  /** Empty for success, and then so are the next four. */
  result: string;
  mx: string;
  ip: string;
  local_ip: string;
  reason: string;
  sessions: number;
}

/** The policy that sessions of a day were held against. */
export interface TlsPolicyRow {
  day: string;
  domain: string;
  policy: TlsSessionRow['policy'];
  base: string;
  /** The policy's lines. */
  strings_json: string;
  mx_json: string;
}

/** Our report to a domain about a day. */
export interface TlsReportRow {
  day: string;
  domain: string;
  /** `sending` that is found at a start has gone out, as far as anybody knows; `unwanted`: the domain asks for no reports. */
  state: 'planned' | 'sending' | 'sent' | 'unwanted' | 'failed';
  due_at: number;
  tries: number;
  detail: string | null;
  /** The addresses of the domain that have the report, as JSON; null for none. */
  served_json: string | null;
}

/** A time in which an address of ours stood on a block list. */
export interface ListingRow {
  ip: string;
  list: string;
  since: number;
  /** Null: it stands there still. */
  until: number | null;
  /** What the list answered, such as `127.0.0.2`. */
  codes: string;
}

/** What a block list said of an address when it was asked last. */
export interface ListCheckRow {
  ip: string;
  list: string;
  /** `refused`: it does not answer our resolver; `silent`: it does not answer. */
  state: 'clear' | 'listed' | 'refused' | 'silent';
  at: number;
}

/** What somebody else's TLS report says of mail to us: sessions that came out alike. */
export interface TlsReportLineRow {
  id: string;
  /** The mail that brought it (`reports.id`). */
  report_id: string;
  org: string;
  /** The reporter's own name for the report. */
  report_key: string;
  domain: string;
  from_at: number;
  until_at: number;
  policy: string;
  /** Empty for success. */
  result: string;
  mx: string;
  source_ip: string;
  ip: string;
  reason: string;
  sessions: number;
}

/** An aggregate report that has been counted, by the domain it is about. */
export interface AggregateReportRow {
  kind: 'dmarc' | 'tls';
  org: string;
  report_key: string;
  domain: string;
  from_at: number;
  /** The mail that brought it first (`reports.id`). */
  report_id: string;
}

/** What a DMARC aggregate report says of mail in our name: one record of it. */
export interface DmarcRow {
  id: string;
  report_id: string;
  org: string;
  report_key: string;
  domain: string;
  from_at: number;
  until_at: number;
  source_ip: string;
  count: number;
  disposition: string;
  /** Aligned: `pass` or `fail`. */
  dkim: string;
  spf: string;
  header_from: string;
  envelope_from: string;
  /** Of the first signature and the first SPF check, aligned or not. */
  dkim_domain: string;
  dkim_selector: string;
  dkim_result: string;
  spf_domain: string;
  spf_result: string;
}

export interface AttemptRow {
  id: string;
  delivery_id: string;
  message_id: string;
  number: number;
  started_at: number;
  ended_at: number;
  mx: string | null;
  ip: string | null;
  source: string | null;
  tls_json: string | null;
  timings_json: string;
  outcome: 'accepted' | 'deferred' | 'refused' | 'uncertain';
  smtp_code: number | null;
  enhanced_code: string | null;
  smtp_reply: string | null;
  class: string | null;
  reason: string | null;
  next_attempt_at: number | null;
}

export interface EventRow {
  id: string;
  account_id: string;
  type: string;
  at: number;
  test: number;
  message_id: string;
  delivery_id: string;
  /** The recipient's status right after the event. */
  status: DeliveryStatus;
  /** 1 for opens and clicks by machines. */
  machine: number;
  /** The member named after the type. */
  detail_json: string;
}

export interface IdempotencyRow {
  /** SHA-256 of (account, mode, method, path, Idempotency-Key), hex. */
  key: string;
  body_hash: string;
  status: number;
  headers_json: string;
  body: string;
  created_at: number;
  expires_at: number;
  /** The API key that made the first request; null where an earlier version stored it. */
  key_id: string | null;
}

export interface AuditRow {
  id: string;
  at: number;
  account_id: string | null;
  key_id: string | null;
  /** `key:<name>`, `operator`, later also dashboard members. */
  actor: string;
  ip: string | null;
  method: string;
  endpoint: string;
  status: number;
  result: 'ok' | 'refused' | 'failed' | 'idempotency_mismatch';
  error_code: string | null;
  request_id: string;
  ms: number;
  idempotency_replayed: number;
  user_agent: string | null;
  /** Name of the operation; null where a request reached none, and in rows of versions before it was kept. */
  operation: string | null;
  /** What it was done to. These and the sentence are null for what only reads. */
  object_type: string | null;
  object_id: string | null;
  before_json: string | null;
  after_json: string | null;
  /** The act as a sentence without its subject, such as `removed ana@example.net from suppressions`. */
  summary: string | null;
}

/** The books: how many recipients went from one status to another, per account and UTC day. They outlive retention. */
export interface CounterRow {
  account_id: string;
  /** UTC day, `2026-01-31`. */
  day: string;
  /** `none` for acceptance. */
  from_status: string;
  to_status: string;
  n: number;
}

export interface MessageTagRow {
  account_id: string;
  tag: string;
  message_id: string;
}

export interface MessageMetadataRow {
  account_id: string;
  name: string;
  value: string;
  message_id: string;
}

/** A word of a message's subject, without case (messages/list/subject-words.ts). */
export interface MessageWordRow {
  account_id: string;
  word: string;
  message_id: string;
}

/** Messages of an account that follow one another, both ends included (messages/list/message-blocks.ts). Later blocks have higher numbers. */
export interface MessageBlockRow {
  account_id: string;
  block: number;
  first_id: string;
  last_id: string;
}

/** Which messages of a block have something in common (messages/list/message-facts.ts), as positions (messages/list/position-set.ts). */
export interface MessageSetRow {
  account_id: string;
  name: string;
  block: number;
  bits: Buffer;
}

/** A message in a block that has changed since the block's codes were made, with its code now (messages/list/message-states.ts). */
export interface MessageChangeRow {
  account_id: string;
  message_id: string;
  code: number;
}

/**
 * The lines of `event_counts` of one hour or day that is over, summed up for each stream, domain and so on (events/stat-sums.ts). What
 * comes late makes the lines null, and the version higher.
 */
export interface EventSumRow {
  account_id: string;
  span: 'hour' | 'day';
  test: number;
  at: number;
  version: number;
  /** `[key, count, count, …][]`, the counts in the order of the columns of `event_counts`. */
  stream_json: string | null;
  domain_json: string | null;
  template_json: string | null;
  provider_json: string | null;
  tag_json: string | null;
}

export interface TemplateRow {
  id: string;
  account_id: string;
  alias: string | null;
  name: string;
  latest_version: number;
  /** What sends use that name no version; null for a draft that was never published. */
  published_version: number | null;
  created_at: number;
  updated_at: number;
  published_at: number | null;
}

/** What a template said at one time. Never changed. */
export interface TemplateVersionRow {
  template_id: string;
  version: number;
  subject: string | null;
  from_text: string | null;
  /** Addresses as they were given. */
  reply_to_json: string;
  html: string | null;
  text: string | null;
  /** Declared variables `{ name, type, required, default }[]`. */
  variables_json: string;
  locale: string;
  timezone: string;
  strict: number;
  created_at: number;
}

export interface SettingRow {
  name: string;
  value: string;
}

/** What an account has set for itself; null means the server's own value. */
export interface AccountSettingsRow {
  account_id: string;
  track_opens: number | null;
  track_clicks: number | null;
  /** Days that things are kept after they are finished. */
  content_days: number | null;
  messages_days: number | null;
  events_days: number | null;
  updated_at: number;
}

/** What is counted: the kinds of events, what tells bounces apart, and people and machines that looked. */
export const statTypes = [
  'sent',
  'delivered',
  'deferred',
  'bounced',
  'bounced_hard',
  'bounced_soft',
  'bounced_block',
  'complained',
  'suppressed',
  'failed',
  'opened',
  'unique_opened',
  'machine_opened',
  'clicked',
  'unique_clicked',
  'machine_clicked',
  'unsubscribed',
] as const;
export type StatType = (typeof statTypes)[number];

/** How many events of each kind there were: per account, hour or UTC day, and what they are told apart by. */
export interface StatRow {
  account_id: string;
  /** `whole_`: all mail of the time together; stream, domain, provider and tag are then empty. `template_`: mail of templates. `source_`: by where it left from. */
  span: 'hour' | 'day' | 'whole_hour' | 'whole_day' | 'template_hour' | 'template_day' | 'source_day';
  test: number;
  /** One of the message's tags; empty in the row that counts every message. Where mail of templates is counted the template's id, of sources the source's name. */
  tag: string;
  /** Begin of the hour or day. */
  at: number;
  stream: string;
  /** The sending domain. */
  domain: string;
  /** The recipient's mailbox provider (events/stats.ts). */
  provider: string;
  sent: number;
  delivered: number;
  deferred: number;
  bounced: number;
  /** Of the bounces, those of a class. */
  bounced_hard: number;
  bounced_soft: number;
  bounced_block: number;
  complained: number;
  suppressed: number;
  failed: number;
  /** By people, however often. */
  opened: number;
  /** Recipients who opened. */
  unique_opened: number;
  /** By scanners and proxies. */
  machine_opened: number;
  clicked: number;
  unique_clicked: number;
  machine_clicked: number;
  unsubscribed: number;
}

/** A mail that came to one of our own addresses, and what it was taken for. */
export interface ReportRow {
  id: string;
  received_at: number;
  client_ip: string;
  /** Envelope sender, empty for the null sender. */
  sender: string;
  recipients_json: string;
  /** Bytes that came. `raw` has the first 512 KiB of a bounce, the first 32 KiB of all else, nothing of a report that was counted. */
  size: number;
  /**
   * `forwarded`: sent on to the operator. `kept`: it would have been, but there was nobody to send it to, or too much.
   * `unverified`: about a delivery, but nothing proves that.
   */
  state: 'new' | 'done' | 'unmatched' | 'unverified' | 'unreadable' | 'forwarded' | 'kept';
  kind: string | null;
  account_id: string | null;
  message_id: string | null;
  delivery_id: string | null;
  detail_json: string;
  raw: Buffer;
}

/** Where a customer is told of events. */
export interface WebhookRow {
  id: string;
  account_id: string;
  url: string;
  description: string;
  events_json: string;
  /** Only events of these streams and sending domains; none means all. */
  streams_json: string;
  domains_json: string;
  include_machine_events: number;
  /** 1 where address and user agent of opens and clicks are told. */
  include_engagement: number;
  /** Calls at once; 1 keeps the order. */
  concurrency: number;
  header_names_json: string;
  /** Custom headers `[name, value][]` under AES-256-GCM (base/keyring.ts). */
  headers_sealed: string | null;
  /** Secrets with their ends, newest first, likewise sealed. */
  secrets_sealed: string;
  status: 'active' | 'paused' | 'disabled';
  disabled_reason: string | null;
  /** Everything in the event log up to here was delivered, is no concern of it, or has a row in webhook_calls. */
  cursor: number;
  /** Failures since the last success, and when the first of them was. */
  failures: number;
  failing_since: number | null;
  warned_at: number | null;
  last_success_at: number | null;
  last_failure_at: number | null;
  created_at: number;
  created_by: string;
  updated_at: number;
}

/** Why a call is made: because the event happened, because somebody asked for it again, or as a test. */
export type WebhookCause = 'event' | 'resend' | 'replay' | 'test';

/** An event that is still owed to an endpoint after its call failed, or that is to be sent again. */
export interface WebhookCallRow {
  webhook_id: string;
  sequence: number;
  cause: WebhookCause;
  attempts: number;
  /** Null where all attempts are used up: only a resend or a replay sends it then. */
  due_at: number | null;
  created_at: number;
}

/** One attempt of a call: a line of the delivery log. */
export interface WebhookDeliveryRow {
  id: string;
  webhook_id: string;
  event_id: string;
  event_type: string;
  /** The event's place in the log; null for a test. */
  sequence: number | null;
  cause: WebhookCause;
  attempt: number;
  at: number;
  ms: number;
  status: 'delivered' | 'failed';
  status_code: number | null;
  error: string | null;
  /** The first 4 KiB. */
  answer: string | null;
  /** The header as it was sent; its timestamp is the second of `at`. */
  signature: string;
  /** The body of a test; of real events it stands in the event log. */
  sample: string | null;
  next_attempt_at: number | null;
}

/** Events of a time that are to be sent to an endpoint again. */
export interface WebhookReplayRow {
  id: string;
  webhook_id: string;
  account_id: string;
  since: number;
  until: number;
  which: 'failed' | 'all';
  types_json: string;
  status: 'running' | 'done';
  /** Done up to here in the event log, out of `end_position`. */
  position: number;
  end_position: number;
  queued: number;
  created_at: number;
  finished_at: number | null;
}

/** A person who signs in to the dashboard. */
export interface MemberRow {
  id: string;
  email: string;
  /** The address as `addressKey` gives it: what is compared. */
  email_key: string;
  /** 1 for those who see every account, the queue and the team. */
  is_admin: number;
  /** scrypt with its parameters (members/password.ts); null until a set-up link was used. */
  password_hash: string | null;
  /** The TOTP secret under AES-256-GCM, or null without a second factor. */
  totp_sealed: string | null;
  /** The last time step a code was taken for: no code is good twice. */
  totp_step: number | null;
  created_at: number;
  /** `operator` or `member:<email>`. */
  created_by: string;
  last_sign_in_at: number | null;
}

/** Which accounts a member sees. */
export interface MembershipRow {
  member_id: string;
  account_id: string;
}

export interface SessionRow {
  /** SHA-256 of the cookie's value, hex. */
  token_hash: string;
  id: string;
  member_id: string;
  /** `code` while the second factor is still owed. */
  stage: 'open' | 'code';
  /** The account that is looked at, or null for the first one. */
  account_id: string | null;
  created_at: number;
  seen_at: number;
  ip: string;
  user_agent: string | null;
}

/** Every try to sign in that was looked at. */
export interface SignInRow {
  id: string;
  at: number;
  email_key: string;
  ip: string;
  user_agent: string | null;
  /** `recovered`: signed in with a recovery code in place of a code of the app. */
  result: 'in' | 'recovered' | 'refused' | 'code_refused' | 'set_up';
  /** What tries are counted by: an IPv4 address, the /64 of an IPv6 address, `device:<id>` or `session:<id>`. */
  source: string;
}

/** A code that takes the place of the second factor, once. */
export interface RecoveryCodeRow {
  /** SHA-256 of its letters, hex: it has 80 random bits. */
  code_hash: string;
  member_id: string;
  created_at: number;
  /** Null while it is good. */
  used_at: number | null;
}

/** A link that sets a member's password, once; without a member it makes the first administrator. */
export interface SetUpLinkRow {
  token_hash: string;
  member_id: string | null;
  created_at: number;
  expires_at: number;
}

export interface Tables {
  accounts: AccountRow;
  api_keys: ApiKeyRow;
  domains: DomainRow;
  dkim_keys: DkimKeyRow;
  streams: StreamRow;
  suppressions: SuppressionRow;
  batches: BatchRow;
  contents: ContentRow;
  content_bases: ContentBaseRow;
  attachments: AttachmentRow;
  messages: MessageRow;
  deliveries: DeliveryRow;
  attempts: AttemptRow;
  events: EventRow;
  idempotency: IdempotencyRow;
  audit: AuditRow;
  counters: CounterRow;
  message_tags: MessageTagRow;
  message_metadata: MessageMetadataRow;
  message_words: MessageWordRow;
  message_blocks: MessageBlockRow;
  message_sets: MessageSetRow;
  message_changes: MessageChangeRow;
  event_sums: EventSumRow;
  settings: SettingRow;
  templates: TemplateRow;
  template_versions: TemplateVersionRow;
  account_settings: AccountSettingsRow;
  event_counts: StatRow;
  reports: ReportRow;
  webhooks: WebhookRow;
  webhook_calls: WebhookCallRow;
  webhook_deliveries: WebhookDeliveryRow;
  webhook_replays: WebhookReplayRow;
  holds: HoldRow;
  resends: ResendRow;
  sts_policies: StsPolicyRow;
  host_tls: HostTlsRow;
  warm_up: WarmUpRow;
  source_blocks: SourceBlockRow;
  tls_sessions: TlsSessionRow;
  tls_policies: TlsPolicyRow;
  listings: ListingRow;
  list_checks: ListCheckRow;
  tls_reports: TlsReportRow;
  tls_report_rows: TlsReportLineRow;
  dmarc_rows: DmarcRow;
  aggregate_reports: AggregateReportRow;
  members: MemberRow;
  memberships: MembershipRow;
  sessions: SessionRow;
  sign_ins: SignInRow;
  setup_links: SetUpLinkRow;
  recovery_codes: RecoveryCodeRow;
}

export type TableName = keyof Tables;

/**
 * The columns of each table in the order rows are written, in the order tables must be written (what others refer to first).
 * events.sequence and webhook_deliveries.position are not among them: the database gives them.
 */
export const columnsOf: { readonly [T in TableName]: readonly (keyof Tables[T] & string)[] } = {
  accounts: ['id', 'name', 'plan', 'created_at', 'paused'],
  api_keys: [
    'id',
    'account_id',
    'name',
    'mode',
    'public_id',
    'hash',
    'scopes_json',
    'domains_json',
    'allowed_ips_json',
    'expires_at',
    'created_at',
    'created_by',
    'revoked_at',
    'last_used_at',
    'last_used_ip',
    'last_used_endpoint',
    'uses_json',
  ],
  domains: [
    'id',
    'account_id',
    'name',
    'status',
    'trusted',
    'return_path',
    'track_opens',
    'track_clicks',
    'records_json',
    'created_at',
    'verified_at',
    'checked_at',
    'failing_since',
    'found_again_at',
    'refused_at',
    'told_at',
  ],
  dkim_keys: [
    'id',
    'domain_id',
    'selector',
    'algorithm',
    'private_key_sealed',
    'public_key',
    'state',
    'created_at',
    'active_at',
    'retired_at',
  ],
  streams: ['id', 'account_id', 'slug', 'name', 'type', 'pool', 'priority', 'created_at', 'paused'],
  suppressions: [
    'id',
    'account_id',
    'email',
    'address_key',
    'scope',
    'reason',
    'source_message_id',
    'note',
    'created_at',
    'created_by',
    'expires_at',
  ],
  batches: ['id', 'account_id', 'accepted', 'rejected', 'created_at', 'test'],
  contents: ['id', 'account_id', 'html', 'text', 'auto_text', 'attachment_count', 'created_at', 'raw', 'base_id'],
  content_bases: ['id', 'html', 'text'],
  attachments: ['content_id', 'position', 'filename', 'content_type', 'cid', 'disposition', 'bytes'],
  messages: [
    'id',
    'account_id',
    'key_id',
    'batch_id',
    'content_id',
    'from_name',
    'from_address',
    'from_domain',
    'to_name',
    'to_address',
    'cc_json',
    'bcc_json',
    'reply_to_json',
    'subject',
    'headers_json',
    'stream',
    'template_id',
    'template_version',
    'tags_json',
    'metadata_json',
    'send_at',
    'expires_at',
    'track_opens',
    'track_clicks',
    'test',
    'test_outcome',
    'rfc_message_id',
    'request_id',
    'created_at',
    'status',
    'status_at',
    'last_event_type',
    'last_event_at',
    'opens',
    'clicks',
    'first_opened_at',
    'last_opened_at',
    'first_clicked_at',
    'bot_opens',
    'bot_clicks',
    'tracking_url',
    'unsubscribe_json',
    'require_tls',
    'notice_to',
    'null_sender',
  ],
  deliveries: [
    'id',
    'message_id',
    'account_id',
    'type',
    'name',
    'address',
    'address_key',
    'domain',
    'class',
    'test',
    'status',
    'status_at',
    'due_at',
    'queued_at',
    'give_up_at',
    'attempt_count',
    'claim_epoch',
    'no_domain_count',
    'no_domain_since',
    'smtp_code',
    'enhanced_code',
    'smtp_reply',
    'mx',
    'tls',
    'lead',
    'held_by',
    'held_at',
  ],
  attempts: [
    'id',
    'delivery_id',
    'message_id',
    'number',
    'started_at',
    'ended_at',
    'mx',
    'ip',
    'source',
    'tls_json',
    'timings_json',
    'outcome',
    'smtp_code',
    'enhanced_code',
    'smtp_reply',
    'class',
    'reason',
    'next_attempt_at',
  ],
  events: ['id', 'account_id', 'type', 'at', 'test', 'message_id', 'delivery_id', 'status', 'machine', 'detail_json'],
  idempotency: ['key', 'body_hash', 'status', 'headers_json', 'body', 'created_at', 'expires_at', 'key_id'],
  audit: [
    'id',
    'at',
    'account_id',
    'key_id',
    'actor',
    'ip',
    'method',
    'endpoint',
    'status',
    'result',
    'error_code',
    'request_id',
    'ms',
    'idempotency_replayed',
    'user_agent',
    'operation',
    'object_type',
    'object_id',
    'before_json',
    'after_json',
    'summary',
  ],
  counters: ['account_id', 'day', 'from_status', 'to_status', 'n'],
  message_tags: ['account_id', 'tag', 'message_id'],
  message_metadata: ['account_id', 'name', 'value', 'message_id'],
  message_words: ['account_id', 'word', 'message_id'],
  message_blocks: ['account_id', 'block', 'first_id', 'last_id'],
  message_sets: ['account_id', 'name', 'block', 'bits'],
  message_changes: ['account_id', 'message_id', 'code'],
  event_sums: [
    'account_id',
    'span',
    'test',
    'at',
    'version',
    'stream_json',
    'domain_json',
    'template_json',
    'provider_json',
    'tag_json',
  ],
  settings: ['name', 'value'],
  templates: [
    'id',
    'account_id',
    'alias',
    'name',
    'latest_version',
    'published_version',
    'created_at',
    'updated_at',
    'published_at',
  ],
  template_versions: [
    'template_id',
    'version',
    'subject',
    'from_text',
    'reply_to_json',
    'html',
    'text',
    'variables_json',
    'locale',
    'timezone',
    'strict',
    'created_at',
  ],
  account_settings: [
    'account_id',
    'track_opens',
    'track_clicks',
    'content_days',
    'messages_days',
    'events_days',
    'updated_at',
  ],
  event_counts: ['account_id', 'span', 'test', 'tag', 'at', 'stream', 'domain', 'provider', ...statTypes],
  reports: [
    'id',
    'received_at',
    'client_ip',
    'sender',
    'recipients_json',
    'size',
    'state',
    'kind',
    'account_id',
    'message_id',
    'delivery_id',
    'detail_json',
    'raw',
  ],
  webhooks: [
    'id',
    'account_id',
    'url',
    'description',
    'events_json',
    'streams_json',
    'domains_json',
    'include_machine_events',
    'include_engagement',
    'concurrency',
    'header_names_json',
    'headers_sealed',
    'secrets_sealed',
    'status',
    'disabled_reason',
    'cursor',
    'failures',
    'failing_since',
    'warned_at',
    'last_success_at',
    'last_failure_at',
    'created_at',
    'created_by',
    'updated_at',
  ],
  webhook_calls: ['webhook_id', 'sequence', 'cause', 'attempts', 'due_at', 'created_at'],
  webhook_deliveries: [
    'id',
    'webhook_id',
    'event_id',
    'event_type',
    'sequence',
    'cause',
    'attempt',
    'at',
    'ms',
    'status',
    'status_code',
    'error',
    'answer',
    'signature',
    'sample',
    'next_attempt_at',
  ],
  webhook_replays: [
    'id',
    'webhook_id',
    'account_id',
    'since',
    'until',
    'which',
    'types_json',
    'status',
    'position',
    'end_position',
    'queued',
    'created_at',
    'finished_at',
  ],
  holds: [
    'id',
    'kind',
    'scope',
    'target',
    'account_id',
    'catches_new',
    'connections',
    'per_minute',
    'note',
    'until',
    'created_at',
    'created_by',
  ],
  resends: ['message_id', 'delivery_id', 'resent_as', 'at'],
  sts_policies: ['domain', 'policy_id', 'policy_json', 'fetched_at', 'expires_at'],
  host_tls: ['host', 'workaround', 'workaround_until', 'offered_at'],
  warm_up: ['source', 'site', 'day', 'stage', 'sent', 'blocked', 'deferred', 'complained'],
  source_blocks: ['source', 'site', 'since', 'until', 'reply'],
  listings: ['ip', 'list', 'since', 'until', 'codes'],
  list_checks: ['ip', 'list', 'state', 'at'],
  tls_sessions: ['day', 'domain', 'policy', 'base', 'result', 'mx', 'ip', 'local_ip', 'reason', 'sessions'],
  tls_policies: ['day', 'domain', 'policy', 'base', 'strings_json', 'mx_json'],
  tls_reports: ['day', 'domain', 'state', 'due_at', 'tries', 'detail', 'served_json'],
  tls_report_rows: [
    'id',
    'report_id',
    'org',
    'report_key',
    'domain',
    'from_at',
    'until_at',
    'policy',
    'result',
    'mx',
    'source_ip',
    'ip',
    'reason',
    'sessions',
  ],
  dmarc_rows: [
    'id',
    'report_id',
    'org',
    'report_key',
    'domain',
    'from_at',
    'until_at',
    'source_ip',
    'count',
    'disposition',
    'dkim',
    'spf',
    'header_from',
    'envelope_from',
    'dkim_domain',
    'dkim_selector',
    'dkim_result',
    'spf_domain',
    'spf_result',
  ],
  aggregate_reports: ['kind', 'org', 'report_key', 'domain', 'from_at', 'report_id'],
  members: [
    'id',
    'email',
    'email_key',
    'is_admin',
    'password_hash',
    'totp_sealed',
    'totp_step',
    'created_at',
    'created_by',
    'last_sign_in_at',
  ],
  memberships: ['member_id', 'account_id'],
  sessions: ['token_hash', 'id', 'member_id', 'stage', 'account_id', 'created_at', 'seen_at', 'ip', 'user_agent'],
  sign_ins: ['id', 'at', 'email_key', 'ip', 'user_agent', 'result', 'source'],
  setup_links: ['token_hash', 'member_id', 'created_at', 'expires_at'],
  recovery_codes: ['code_hash', 'member_id', 'created_at', 'used_at'],
};
