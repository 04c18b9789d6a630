/**
 * Made from the OpenAPI document by `npm run docs`: do not edit. An interface for each named schema, and for each operation
 * what it takes and gives. Names are those on the wire.
 */

/** A text of which these values are known today; others may come at any time. */
export type Open<Known extends string> = Known | (string & {});

/** A page of a list. The cursors go into `after` and `before` of the next request with the same filters. */
export interface Page<Entry> {
  object: 'list';
  data: Entry[];
  has_more: boolean;
  next_cursor: string | null;
  previous_cursor: string | null;
}

/** Version of the service that this was made with. */
export const madeFor = '0.1.0';

/** The body of every answer that is an error. */
export interface ErrorEnvelope {
  error: ErrorRecord;
}

/** What went wrong, for programs (`code`, `field`), for people (`message`) and for support (`request_id`). */
export interface ErrorRecord {
  /** Machine-readable error code. */
  code: Open<
    | 'invalid_request'
    | 'request_timeout'
    | 'expectation_failed'
    | 'invalid_json'
    | 'missing_field'
    | 'unknown_field'
    | 'invalid_type'
    | 'invalid_field'
    | 'field_too_long'
    | 'too_many_items'
    | 'mutually_exclusive_fields'
    | 'invalid_recipient'
    | 'too_many_recipients'
    | 'duplicate_recipient'
    | 'no_valid_recipients'
    | 'invalid_sender'
    | 'invalid_address'
    | 'missing_content'
    | 'invalid_header'
    | 'header_not_allowed'
    | 'invalid_attachment'
    | 'attachment_type_not_allowed'
    | 'unknown_template'
    | 'unknown_stream'
    | 'template_syntax_error'
    | 'template_render_failed'
    | 'missing_variable'
    | 'invalid_send_at'
    | 'invalid_parameter'
    | 'invalid_cursor'
    | 'invalid_idempotency_key'
    | 'invalid_webhook_url'
    | 'webhook_url_forbidden'
    | 'unknown_event_type'
    | 'missing_api_key'
    | 'invalid_api_key'
    | 'key_expired'
    | 'key_revoked'
    | 'insufficient_scope'
    | 'forbidden_in_test_mode'
    | 'ip_not_allowed'
    | 'domain_not_verified'
    | 'domain_not_allowed'
    | 'sending_paused'
    | 'not_found'
    | 'method_not_allowed'
    | 'not_acceptable'
    | 'idempotency_key_reused'
    | 'already_exists'
    | 'invalid_state'
    | 'recipient_suppressed'
    | 'version_gone'
    | 'payload_too_large'
    | 'message_too_large'
    | 'unsupported_media_type'
    | 'rate_limited'
    | 'too_many_streams'
    | 'quota_exceeded'
    | 'internal_error'
    | 'service_unavailable'
    | 'idempotency_in_progress'
    | 'timeout'
  >;

  /** Human-readable explanation. */
  message: string;

  /** The offending request field, where one applies. */
  field: string | null;

  /** Identifier of the request, for support and audit. */
  request_id: string;
}

/** One message to one recipient. `from` and `subject` are required unless the template has them. */
export interface SingleMessage {
  /** Sender: one mailbox, `a@b` or `Name <a@b>`, of a verified domain. */
  from?: string | undefined;

  /** Recipient: one mailbox. */
  to: string;

  /** Further recipients, named in the mail. */
  cc?: string | readonly string[] | null | undefined;

  /** Further recipients, not named in the mail. */
  bcc?: string | readonly string[] | null | undefined;

  /** Where answers go: up to 10 mailboxes. */
  reply_to?: string | readonly string[] | null | undefined;

  /** Subject line. */
  subject?: string | undefined;

  /** HTML body, sent verbatim unless `variables` are given. One of `html`, `text` and `template_id` is required. */
  html?: string | null | undefined;

  /** Plain text body. */
  text?: string | null | undefined;

  /** Derive a text part where only html is given. Default: true. */
  auto_text?: boolean | null | undefined;

  /** Id or alias of a template; excludes `html` and `text`. */
  template_id?: string | null | undefined;

  /** Default: the published one. */
  template_version?: number | null | undefined;

  /** Data for the template, or for `{{ }}` and `{% %}` in `subject`, `html` and `text`: with it they are rendered, without they are sent verbatim. At most 100 KiB of JSON, 10 levels deep. */
  variables?: Readonly<Record<string, unknown>> | null | undefined;

  /** Refuse the request where a variable is missing. Default: the template's, else false. */
  strict_variables?: boolean | null | undefined;

  /** BCP 47, for dates and numbers: `de-AT`. Default: the template's, else `en`. */
  locale?: string | null | undefined;

  /** IANA name, for dates: `Europe/Vienna`. Default: the template's, else `UTC`. */
  timezone?: string | null | undefined;

  /** Further headers. Those that the service sets or that have a member of their own are refused. */
  headers?: Readonly<Record<string, string>> | null | undefined;

  /** Files that go with the mail. */
  attachments?:
    | readonly {
        /** Name the recipient sees; decides about refused types. */
        filename: string;

        /** The file in base64 (standard alphabet, with padding; white space is ignored). */
        content: string;

        /** `type/subtype`, parameters allowed. Default: by the extension, else application/octet-stream. */
        content_type?: string | null | undefined;

        /** Makes the part inline, for `cid:` in the html; unique in the message, without brackets. */
        content_id?: string | null | undefined;

        /** Default: inline with a content_id, else attachment. */
        disposition?: 'attachment' | 'inline' | null | undefined;
      }[]
    | null
    | undefined;

  /** For grouping and statistics; the recipient does not see them. */
  tags?: readonly string[] | null | undefined;

  /** Returned in events, not visible to the recipient; keys and values together at most 10 KiB. */
  metadata?: Readonly<Record<string, string>> | null | undefined;

  /** When to send, with offset, at most 30 days ahead. Default: now. */
  send_at?: string | null | undefined;

  /** When to give up, at most 7 days after `send_at`. */
  expires_at?: string | null | undefined;

  /** Put an invisible image at the end of the html. Default: as the domain says, then the account, else false. */
  track_opens?: boolean | null | undefined;

  /** Lead the links of the html over this service. Default: as the domain says, then the account, else false. */
  track_clicks?: boolean | null | undefined;

  /** The stream the mail belongs to. Default: `transactional`. */
  stream?: string | null | undefined;

  /** Write List-Unsubscribe. Default: true on a stream of type broadcast, else false. */
  unsubscribe?:
    | boolean
    | {
        /** Page of your own instead of the hosted one. */
        url?: string | null | undefined;

        /** Address of your own instead of the hosted one, with a query such as `?subject=stop` if needed. */
        mailto?: string | null | undefined;

        /** Whether a POST to the page unsubscribes at once (RFC 8058). Default: true, for a `url` false. */
        one_click?: boolean | null | undefined;
      }
    | null
    | undefined;

  /** What to answer when the recipient is suppressed: 202 with that status, or 409. Default: `accept`. */
  on_suppressed?: 'accept' | 'reject' | null | undefined;

  /** The whole way without SMTP; always on for test keys. Default: false. */
  test?:
    | boolean
    | {
        /** What the simulated send comes to. */
        outcome: 'delivered' | 'bounced' | 'deferred' | 'complained' | 'opened' | 'clicked';
      }
    | null
    | undefined;
}

/** One message for each entry of `recipients`; the other members are shared defaults. */
export interface BulkMessage {
  /** Sender: one mailbox, `a@b` or `Name <a@b>`, of a verified domain. */
  from?: string | null | undefined;

  /** Where answers go: up to 10 mailboxes. */
  reply_to?: string | readonly string[] | null | undefined;

  /** Subject line. */
  subject?: string | null | undefined;

  /** HTML body, sent verbatim unless `variables` are given. One of `html`, `text` and `template_id` is required. */
  html?: string | null | undefined;

  /** Plain text body. */
  text?: string | null | undefined;

  /** Derive a text part where only html is given. Default: true. */
  auto_text?: boolean | null | undefined;

  /** Id or alias of a template; excludes `html` and `text`. */
  template_id?: string | null | undefined;

  /** Default: the published one. */
  template_version?: number | null | undefined;

  /** Data for the template, or for `{{ }}` and `{% %}` in `subject`, `html` and `text`: with it they are rendered, without they are sent verbatim. At most 100 KiB of JSON, 10 levels deep. */
  variables?: Readonly<Record<string, unknown>> | null | undefined;

  /** Refuse the request where a variable is missing. Default: the template's, else false. */
  strict_variables?: boolean | null | undefined;

  /** BCP 47, for dates and numbers: `de-AT`. Default: the template's, else `en`. */
  locale?: string | null | undefined;

  /** IANA name, for dates: `Europe/Vienna`. Default: the template's, else `UTC`. */
  timezone?: string | null | undefined;

  /** Further headers. Those that the service sets or that have a member of their own are refused. */
  headers?: Readonly<Record<string, string>> | null | undefined;

  /** Files that go with the mail. */
  attachments?:
    | readonly {
        /** Name the recipient sees; decides about refused types. */
        filename: string;

        /** The file in base64 (standard alphabet, with padding; white space is ignored). */
        content: string;

        /** `type/subtype`, parameters allowed. Default: by the extension, else application/octet-stream. */
        content_type?: string | null | undefined;

        /** Makes the part inline, for `cid:` in the html; unique in the message, without brackets. */
        content_id?: string | null | undefined;

        /** Default: inline with a content_id, else attachment. */
        disposition?: 'attachment' | 'inline' | null | undefined;
      }[]
    | null
    | undefined;

  /** For grouping and statistics; the recipient does not see them. */
  tags?: readonly string[] | null | undefined;

  /** Returned in events, not visible to the recipient; keys and values together at most 10 KiB. */
  metadata?: Readonly<Record<string, string>> | null | undefined;

  /** When to send, with offset, at most 30 days ahead. Default: now. */
  send_at?: string | null | undefined;

  /** When to give up, at most 7 days after `send_at`. */
  expires_at?: string | null | undefined;

  /** Put an invisible image at the end of the html. Default: as the domain says, then the account, else false. */
  track_opens?: boolean | null | undefined;

  /** Lead the links of the html over this service. Default: as the domain says, then the account, else false. */
  track_clicks?: boolean | null | undefined;

  /** The stream the mail belongs to. Default: `transactional`. */
  stream?: string | null | undefined;

  /** Write List-Unsubscribe. Default: true on a stream of type broadcast, else false. */
  unsubscribe?:
    | boolean
    | {
        /** Page of your own instead of the hosted one. */
        url?: string | null | undefined;

        /** Address of your own instead of the hosted one, with a query such as `?subject=stop` if needed. */
        mailto?: string | null | undefined;

        /** Whether a POST to the page unsubscribes at once (RFC 8058). Default: true, for a `url` false. */
        one_click?: boolean | null | undefined;
      }
    | null
    | undefined;

  /** What to answer when the recipient is suppressed: 202 with that status, or 409. Default: `accept`. */
  on_suppressed?: 'accept' | 'reject' | null | undefined;

  /** The whole way without SMTP; always on for test keys. Default: false. */
  test?:
    | boolean
    | {
        /** What the simulated send comes to. */
        outcome: 'delivered' | 'bounced' | 'deferred' | 'complained' | 'opened' | 'clicked';
      }
    | null
    | undefined;

  /** What a faulty entry does: it is left out, or nothing is sent. Default: `skip`. */
  on_error?: 'skip' | 'abort' | null | undefined;

  /** Whether an address may stand in several entries. Default: false. */
  allow_duplicates?: boolean | null | undefined;

  /** One message is made for each entry. */
  recipients: readonly {
    /** Sender: one mailbox, `a@b` or `Name <a@b>`, of a verified domain. */
    from?: string | null | undefined;

    /** Recipient: one mailbox. */
    to: string;

    /** Further recipients, named in the mail. */
    cc?: string | readonly string[] | null | undefined;

    /** Further recipients, not named in the mail. */
    bcc?: string | readonly string[] | null | undefined;

    /** Where answers go: up to 10 mailboxes. */
    reply_to?: string | readonly string[] | null | undefined;

    /** Subject line. */
    subject?: string | null | undefined;

    /** HTML body, sent verbatim unless `variables` are given. One of `html`, `text` and `template_id` is required. */
    html?: string | null | undefined;

    /** Plain text body. */
    text?: string | null | undefined;

    /** Derive a text part where only html is given. Default: true. */
    auto_text?: boolean | null | undefined;

    /** Id or alias of a template; excludes `html` and `text`. */
    template_id?: string | null | undefined;

    /** Default: the published one. */
    template_version?: number | null | undefined;

    /** Data for the template, or for `{{ }}` and `{% %}` in `subject`, `html` and `text`: with it they are rendered, without they are sent verbatim. At most 100 KiB of JSON, 10 levels deep. */
    variables?: Readonly<Record<string, unknown>> | null | undefined;

    /** Refuse the request where a variable is missing. Default: the template's, else false. */
    strict_variables?: boolean | null | undefined;

    /** BCP 47, for dates and numbers: `de-AT`. Default: the template's, else `en`. */
    locale?: string | null | undefined;

    /** IANA name, for dates: `Europe/Vienna`. Default: the template's, else `UTC`. */
    timezone?: string | null | undefined;

    /** Further headers. Those that the service sets or that have a member of their own are refused. */
    headers?: Readonly<Record<string, string>> | null | undefined;

    /** Files that go with the mail. */
    attachments?:
      | readonly {
          /** Name the recipient sees; decides about refused types. */
          filename: string;

          /** The file in base64 (standard alphabet, with padding; white space is ignored). */
          content: string;

          /** `type/subtype`, parameters allowed. Default: by the extension, else application/octet-stream. */
          content_type?: string | null | undefined;

          /** Makes the part inline, for `cid:` in the html; unique in the message, without brackets. */
          content_id?: string | null | undefined;

          /** Default: inline with a content_id, else attachment. */
          disposition?: 'attachment' | 'inline' | null | undefined;
        }[]
      | null
      | undefined;

    /** For grouping and statistics; the recipient does not see them. */
    tags?: readonly string[] | null | undefined;

    /** Returned in events, not visible to the recipient; keys and values together at most 10 KiB. */
    metadata?: Readonly<Record<string, string>> | null | undefined;

    /** When to send, with offset, at most 30 days ahead. Default: now. */
    send_at?: string | null | undefined;

    /** When to give up, at most 7 days after `send_at`. */
    expires_at?: string | null | undefined;

    /** Put an invisible image at the end of the html. Default: as the domain says, then the account, else false. */
    track_opens?: boolean | null | undefined;

    /** Lead the links of the html over this service. Default: as the domain says, then the account, else false. */
    track_clicks?: boolean | null | undefined;

    /** The stream the mail belongs to. Default: `transactional`. */
    stream?: string | null | undefined;

    /** Write List-Unsubscribe. Default: true on a stream of type broadcast, else false. */
    unsubscribe?:
      | boolean
      | {
          /** Page of your own instead of the hosted one. */
          url?: string | null | undefined;

          /** Address of your own instead of the hosted one, with a query such as `?subject=stop` if needed. */
          mailto?: string | null | undefined;

          /** Whether a POST to the page unsubscribes at once (RFC 8058). Default: true, for a `url` false. */
          one_click?: boolean | null | undefined;
        }
      | null
      | undefined;

    /** What to answer when the recipient is suppressed: 202 with that status, or 409. Default: `accept`. */
    on_suppressed?: 'accept' | 'reject' | null | undefined;

    /** The whole way without SMTP; always on for test keys. Default: false. */
    test?:
      | boolean
      | {
          /** What the simulated send comes to. */
          outcome: 'delivered' | 'bounced' | 'deferred' | 'complained' | 'opened' | 'clicked';
        }
      | null
      | undefined;
  }[];
}

/** A message as it is now. */
export interface Message {
  object: 'message';

  /** Id of the message. */
  id: string;

  /** Id of the bulk send that it came with; null for a single message. */
  batch_id: string | null;

  /** Delivery status; for a message, that of its `to` recipient. */
  status: Open<
    | 'scheduled'
    | 'queued'
    | 'sent'
    | 'deferred'
    | 'delivered'
    | 'bounced'
    | 'complained'
    | 'suppressed'
    | 'failed'
    | 'canceled'
  >;

  /** Since when it has this status. */
  status_at: string;

  /** Sender, with its display name where it has one. */
  from: string;

  /** The one main recipient. */
  to: string;

  /** Further recipients, named in the mail. */
  cc: string[];

  /** Further recipients, not named in the mail. */
  bcc: string[];

  /** Where answers go; empty means to the sender. */
  reply_to: string[];

  /** Subject line, as rendered. */
  subject: string;

  /** Slug of the stream that it was sent on. */
  stream: string;

  /** Id of the template that it was rendered from; null where there was none. */
  template_id: string | null;

  /** Version of that template. */
  template_version: number | null;

  /** Tags of the request, in their order. */
  tags: string[];

  /** Metadata of the request. */
  metadata: Record<string, string>;

  /** When it is to leave; null for at once. */
  send_at: string | null;

  /** When delivery is given up; null means after the time that the server allows. */
  expires_at: string | null;

  /** Whether opening it is counted. */
  track_opens: boolean;

  /** Whether following its links is counted. */
  track_clicks: boolean;

  /** True where delivery is simulated. */
  test: boolean;

  /** The Message-ID of the mail. */
  rfc_message_id: string;

  /** The newest event; null before there is one. */
  last_event: {
    /** Kind of the event. */
    type: string;

    /** RFC 3339 in UTC, with milliseconds. */
    timestamp: string;
  } | null;

  /** Opens and clicks. They change no status. */
  engagement: {
    /** Times that a person opened it. */
    opens: number;

    /** Times that a person followed a link in it. */
    clicks: number;

    /** When it was opened first; null for never. */
    first_opened_at: string | null;

    /** When it was opened last; null for never. */
    last_opened_at: string | null;

    /** When a link was followed first; null for never. */
    first_clicked_at: string | null;

    /** Times that a machine opened it, such as the image proxy of a mail provider. */
    bot_opens: number;

    /** Times that a machine followed a link, such as a scanner. */
    bot_clicks: number;
  };

  /** When it was accepted. */
  created_at: string;
}

/** The answer to a bulk send: one entry for each of `recipients`, in their order. */
export interface Batch {
  object: 'batch';

  /** Id of the bulk send. */
  id: string;

  /** Entries that are messages now. */
  accepted: number;

  /** Entries that were refused. */
  rejected: number;

  /** When it was accepted. */
  created_at: string;

  /** One line for each entry, in the order of the request. */
  data: {
    /** Place of the entry in `recipients`, from 0. */
    index: number;

    /** The recipient; null where the entry has none that can be read. */
    to: string | null;

    /** Id of the message; null for a refused entry. */
    id: string | null;

    /** Status of the message, or `rejected`. */
    status: string;

    /** Why the entry was refused; null for a message. */
    error: {
      /** Code of the error catalogue. */
      code: string;

      /** What is wrong, for people. */
      message: string;

      /** The member at fault, from the top of the request. */
      field: string | null;

      /** Id of the request. */
      request_id: string | null;
    } | null;
  }[];
}

/** A message with its recipients, attempts and events. */
export interface MessageDetails {
  object: 'message';

  /** Id of the message. */
  id: string;

  /** Id of the bulk send that it came with; null for a single message. */
  batch_id: string | null;

  /** Delivery status; for a message, that of its `to` recipient. */
  status: Open<
    | 'scheduled'
    | 'queued'
    | 'sent'
    | 'deferred'
    | 'delivered'
    | 'bounced'
    | 'complained'
    | 'suppressed'
    | 'failed'
    | 'canceled'
  >;

  /** Since when it has this status. */
  status_at: string;

  /** Sender, with its display name where it has one. */
  from: string;

  /** The one main recipient. */
  to: string;

  /** Further recipients, named in the mail. */
  cc: string[];

  /** Further recipients, not named in the mail. */
  bcc: string[];

  /** Where answers go; empty means to the sender. */
  reply_to: string[];

  /** Subject line, as rendered. */
  subject: string;

  /** Slug of the stream that it was sent on. */
  stream: string;

  /** Id of the template that it was rendered from; null where there was none. */
  template_id: string | null;

  /** Version of that template. */
  template_version: number | null;

  /** Tags of the request, in their order. */
  tags: string[];

  /** Metadata of the request. */
  metadata: Record<string, string>;

  /** When it is to leave; null for at once. */
  send_at: string | null;

  /** When delivery is given up; null means after the time that the server allows. */
  expires_at: string | null;

  /** Whether opening it is counted. */
  track_opens: boolean;

  /** Whether following its links is counted. */
  track_clicks: boolean;

  /** True where delivery is simulated. */
  test: boolean;

  /** The Message-ID of the mail. */
  rfc_message_id: string;

  /** The newest event; null before there is one. */
  last_event: {
    /** Kind of the event. */
    type: string;

    /** RFC 3339 in UTC, with milliseconds. */
    timestamp: string;
  } | null;

  /** Opens and clicks. They change no status. */
  engagement: {
    /** Times that a person opened it. */
    opens: number;

    /** Times that a person followed a link in it. */
    clicks: number;

    /** When it was opened first; null for never. */
    first_opened_at: string | null;

    /** When it was opened last; null for never. */
    last_opened_at: string | null;

    /** When a link was followed first; null for never. */
    first_clicked_at: string | null;

    /** Times that a machine opened it, such as the image proxy of a mail provider. */
    bot_opens: number;

    /** Times that a machine followed a link, such as a scanner. */
    bot_clicks: number;
  };

  /** When it was accepted. */
  created_at: string;

  /** Of the request that it came with, as the audit log names it. */
  request_id: string | null;

  /** The first 20. */
  recipients: Recipient[];

  /** The last 20. */
  attempts: Attempt[];

  /** The last 20, opt-in kinds included. */
  events: EventRecord[];

  /** With `expand=content`. */
  content?: {
    /** HTML body. */
    html: string | null;

    /** Plain text body. */
    text: string | null;
  };
}

/** One recipient of a message, with a status of its own. */
export interface Recipient {
  /** The address. */
  email: string;

  /** The member of the request that named it. */
  type: Open<'to' | 'cc' | 'bcc'>;

  /** Delivery status; for a message, that of its `to` recipient. */
  status: Open<
    | 'scheduled'
    | 'queued'
    | 'sent'
    | 'deferred'
    | 'delivered'
    | 'bounced'
    | 'complained'
    | 'suppressed'
    | 'failed'
    | 'canceled'
  >;

  /** Since when it has this status. */
  status_at: string;

  /** Attempts so far. */
  attempt_count: number;

  /** When it is tried next; null where nothing is planned. */
  next_attempt_at: string | null;

  /** What the receiving host said last. */
  smtp: {
    /** Reply code, such as 250. */
    code: number | null;

    /** Enhanced status code (RFC 3463), such as 2.0.0. */
    enhanced: string | null;

    /** Text of the reply. */
    reply: string | null;

    /** Host that replied. */
    mx: string | null;

    /** Version of TLS; null for a connection without. */
    tls: string | null;
  } | null;
}

/** One SMTP attempt: whom we asked, what was said, how long it took. */
export interface Attempt {
  object: 'attempt';

  /** Id of the attempt. */
  id: string;

  /** The address that it was made for. */
  recipient: string;

  /** The first attempt is 1. */
  number: number;

  /** When it began. */
  started_at: string;

  /** When it was over. */
  ended_at: string;

  /** Host that was asked; null where none was reached. */
  mx: string | null;

  /** Address of that host. */
  ip: string | null;

  /** Name of the source that it was sent from, where sources have names. */
  source: string | null;

  /** How the connection was encrypted; null where it was not. */
  tls: {
    /** Version of TLS. */
    protocol: string;

    /** Cipher suite. */
    cipher: string;

    /** Whether the certificate was good for the host. */
    verified: boolean;

    /** What the domain asks for: opportunistic, MTA-STS or DANE. */
    policy: string;
  } | null;

  /** How long each step took. */
  timings_ms: {
    /** Milliseconds for looking up the host. */
    dns: number;

    /** Milliseconds for the connection. */
    connect: number;

    /** Milliseconds for the greeting. */
    banner: number;

    /** Milliseconds for the TLS handshake. */
    tls: number;

    /** Milliseconds for MAIL FROM. */
    mail: number;

    /** Milliseconds for RCPT TO. */
    rcpt: number;

    /** Milliseconds for DATA. */
    data: number;

    /** Milliseconds for the mail, up to the answer to its final dot. */
    dot: number;
  };

  /** `uncertain`: the connection broke between the final dot and the answer. */
  outcome: Open<'accepted' | 'deferred' | 'refused' | 'uncertain'>;

  /** Reply code; null where there was no reply. */
  smtp_code: number | null;

  /** Enhanced status code (RFC 3463). */
  enhanced_code: string | null;

  /** Text of the reply. */
  smtp_reply: string | null;

  /** What kind of refusal it is; null for an accepted mail. */
  class: string | null;

  /** Why it was refused, in one word. */
  reason: string | null;

  /** When the next attempt is made; null for none. */
  next_attempt_at: string | null;
}

/** Something that happened to a message. Webhooks carry the same record. */
export interface EventRecord {
  object: 'event';

  /** Id of the event: the same wherever it is told, so that doubles can be dropped. */
  id: string;

  /** Kind of the event. */
  type: Open<
    | 'sent'
    | 'delivered'
    | 'opened'
    | 'clicked'
    | 'bounced'
    | 'complained'
    | 'deferred'
    | 'suppressed'
    | 'failed'
    | 'unsubscribed'
  >;

  /** When it happened. */
  timestamp: string;

  /** Ascends in the order in which events became visible; holes are normal. */
  sequence: number;

  /** True for simulated mail. */
  test: boolean;

  /** The message and, in the member named after the type, what happened. */
  data: {
    /** Id of the message. */
    message_id: string;

    /** Id of the bulk send that the message came with; null for a single message. */
    batch_id: string | null;

    /** The Message-ID of the mail. */
    rfc_message_id: string;

    /** The address that it happened to. */
    recipient: string;

    /** The member of the request that named it. */
    recipient_type: Open<'to' | 'cc' | 'bcc'>;

    /** Address of the sender. */
    from: string;

    /** Subject line of the message. */
    subject: string;

    /** Id of the template of the message; null where there was none. */
    template_id: string | null;

    /** Slug of the stream of the message. */
    stream: string;

    /** Tags of the message. */
    tags: string[];

    /** Metadata of the message. */
    metadata: Record<string, string>;

    /** Status of the recipient after the event. */
    status: Open<
      | 'scheduled'
      | 'queued'
      | 'sent'
      | 'deferred'
      | 'delivered'
      | 'bounced'
      | 'complained'
      | 'suppressed'
      | 'failed'
      | 'canceled'
    >;

    /** What happened, where `type` is `sent`. */
    sent?: {
      /** Number of the attempt. */
      attempt: number;

      /** Host that is asked; null where that is not known yet. */
      mx: string | null;

      /** Address that it is sent from; null where that is not known yet. */
      sending_ip: string | null;
    };

    /** What happened, where `type` is `delivered`. */
    delivered?: {
      /** Host that took it. */
      mx: string | null;

      /** Address of that host. */
      ip: string | null;

      /** Reply code of that host. */
      smtp_code: number | null;

      /** Text of its reply. */
      smtp_reply: string | null;

      /** Version of TLS; null for a connection without. */
      tls: string | null;

      /** Number of the attempt. */
      attempt: number;

      /** Milliseconds from acceptance to delivery. */
      queue_ms: number;

      /** Whether a smarthost took it, which delivers it further. */
      via_relay: boolean;
    };

    /** What happened, where `type` is `opened`. */
    opened?: {
      /** Whether it is the first of this recipient. */
      first: boolean;

      /** Address that it came from; null without the scope `event:engagement`. */
      ip: string | null;

      /** Program that it came from; null without the scope `event:engagement`. */
      user_agent: string | null;

      /** Mail program, where it can be told. */
      client: string | null;

      /** Operating system, where it can be told. */
      os: string | null;

      /** Kind of device, where it can be told. */
      device: string | null;

      /** Whether a machine did it, and no person. */
      is_bot: boolean;

      /** Which machine; null for a person. */
      bot: string | null;
    };

    /** What happened, where `type` is `clicked`. */
    clicked?: {
      /** Whether it is the first of this recipient. */
      first: boolean;

      /** Where the link leads. */
      url: string;

      /** Place of the link in the mail. */
      link_id: string;

      /** Part of the mail that has the link. */
      part: Open<'html' | 'text'>;

      /** Address that it came from; null without the scope `event:engagement`. */
      ip: string | null;

      /** Program that it came from; null without the scope `event:engagement`. */
      user_agent: string | null;

      /** Whether a machine did it, and no person. */
      is_bot: boolean;

      /** Which machine; null for a person. */
      bot: string | null;
    };

    /** What happened, where `type` is `bounced`. */
    bounced?: {
      /** `hard`: the address is bad; `soft`: it was full or away for too long; `block`: the mail or its sender is not wanted. */
      class: Open<'hard' | 'soft' | 'block' | 'undetermined'>;

      /** Why, in one word. */
      reason: string;

      /** Whether it came later, by mail. */
      async: boolean;

      /** Reply code of the receiving host. */
      smtp_code: number | null;

      /** Enhanced status code (RFC 3463). */
      enhanced_code: string | null;

      /** Text of the reply. */
      smtp_reply: string | null;

      /** Host that refused it. */
      mx: string | null;

      /** Attempts that were made. */
      attempts: number;

      /** Whether the address is on the suppression list for it. */
      suppression_added: boolean;
    };

    /** What happened, where `type` is `complained`. */
    complained?: {
      /** What kind of report it is, such as `abuse` (RFC 5965). */
      feedback_type: string;

      /** Who reported it. */
      source: string;

      /** When the mail arrived, as the report says. */
      arrival_date: string | null;

      /** Program that made the report. */
      user_agent: string | null;

      /** Whether the address is on the suppression list for it. */
      suppression_added: boolean;
    };

    /** What happened, where `type` is `deferred`. */
    deferred?: {
      /** Number of the attempt. */
      attempt: number;

      /** Host that was asked. */
      mx: string | null;

      /** Reply code of the receiving host. */
      smtp_code: number | null;

      /** Enhanced status code (RFC 3463). */
      enhanced_code: string | null;

      /** Text of the reply. */
      smtp_reply: string | null;

      /** Why, in one word. */
      reason: string;

      /** When the next attempt is made. */
      next_attempt_at: string;
    };

    /** What happened, where `type` is `suppressed`. */
    suppressed?: {
      /** Why the address is on the suppression list. */
      reason: string;

      /** Id of the entry. */
      suppression_id: string;
    };

    /** What happened, where `type` is `failed`. */
    failed?: {
      /** Why, in one word. */
      reason: string;

      /** Why, for people. */
      message: string;
    };

    /** What happened, where `type` is `unsubscribed`. */
    unsubscribed?: {
      /** Slug of the stream that the recipient has left. */
      stream: string;

      /** How: the button of a mail program (RFC 8058), a mail, or our page. */
      method: Open<'one_click' | 'mailto' | 'page'>;
    };
  };
}

/** SMTP attempts, oldest first. */
export interface AttemptList {
  object: 'list';

  /** The attempts. */
  data: Attempt[];
}

/** What holds a message, and until when. */
export interface Why {
  object: 'why';

  /** Id of the message. */
  message_id: string;

  /** One line for each recipient. */
  recipients: {
    /** The recipient. */
    email: string;

    /** Status of the recipient. */
    status: Open<
      | 'scheduled'
      | 'queued'
      | 'sent'
      | 'deferred'
      | 'delivered'
      | 'bounced'
      | 'complained'
      | 'suppressed'
      | 'failed'
      | 'canceled'
    >;

    /** What the recipient waits for. */
    reason: Open<
      | 'finished'
      | 'scheduled'
      | 'held'
      | 'being_sent'
      | 'waiting_for_retry'
      | 'dns_trouble'
      | 'resolving'
      | 'receiver_refuses_us'
      | 'receiver_overloaded'
      | 'receiver_resting'
      | 'tls_required'
      | 'destination_parked'
      | 'connections_in_use'
      | 'rate_limited'
      | 'queued'
    >;

    /** The same for people. */
    message: string;

    /** Since when that keeps it back; null where nobody knows. */
    since: string | null;

    /** When it is looked at again; null where that depends on something else. */
    until: string | null;

    /** Who set it: the receiver by its answers, its DNS, the operator of this server, the server itself (`us`), or the sender; null where nothing waits. */
    set_by: Open<'receiver' | 'dns' | 'operator' | 'us' | 'sender'> | null;
  }[];
}

/** The stored body of a message, without the bytes of its attachments. */
export interface Content {
  object: 'content';

  /** Id of the message. */
  message_id: string;

  /** `parts`: what the request gave. `mail`: the mail as SMTP submitted it; html, text and attachments are read from it, and are empty where it cannot be parsed. `nothing`: the content is not stored any more. */
  stored: Open<'parts' | 'mail' | 'nothing'>;

  /** HTML body. */
  html: string | null;

  /** Plain text body; one that is derived from the html is not stored. */
  text: string | null;

  /** The attached files. */
  attachments: {
    /** Name of the file. */
    filename: string;

    /** Media type. */
    content_type: string;

    /** What `cid:` in the html calls it. */
    content_id: string | null;

    /** Whether it is shown within the mail. */
    disposition: Open<'attachment' | 'inline'>;

    /** Bytes. */
    size: number;
  }[];
}

/** Another time of sending. */
export interface MessageChange {
  /** The new time, with offset, at most 30 days ahead. */
  send_at: string;
}

/** Mails that came back, oldest first. */
export interface ReportList {
  object: 'list';

  /** The reports. */
  data: Report[];
}

/** A mail that came back for a message. */
export interface Report {
  object: 'report';

  /** Id of the report. */
  id: string;

  /** What it was taken for; null while it has not been read. */
  kind: Open<'bounce' | 'delay' | 'complaint' | 'auto_reply' | 'unsubscribe' | 'report' | 'other'> | null;

  /** When it came. */
  received_at: string;

  /** The recipient of the message that it is about. */
  recipient: string;

  /** Its envelope sender; empty for the null sender. */
  sender: string;

  /** Bytes that came. Of a bounce the first 512 KiB are kept, of anything else the first 32 KiB. */
  size: number;

  /** False: it names this message but proves nothing, so it changed no status and suppressed nobody. The operator can confirm it. */
  verified: boolean;
}

/** A mail that came back, as a mail program shows it. */
export interface ReportContent {
  object: 'report_content';

  /** Id of the report. */
  report_id: string;

  /** Its subject. */
  subject: string;

  /** Its From field, which anybody can have written. */
  from: string;

  /** Its To field. */
  to: string;

  /** Its Cc field. */
  cc: string;

  /** Its Date field; null where it has none that can be read. */
  date: string | null;

  /** Its text, with that of a delivery status and of the mail that it brings back. */
  text: string | null;

  /** Its HTML, written by a stranger: show it only in a sandboxed frame. */
  html: string | null;

  /** The attached files. */
  attachments: {
    /** Name of the file. */
    filename: string;

    /** Media type. */
    content_type: string;

    /** What `cid:` in the html calls it. */
    content_id: string | null;

    /** Whether it is shown within the mail. */
    disposition: Open<'attachment' | 'inline'>;

    /** Bytes. */
    size: number;
  }[];
}

/** A bulk send, with its messages by status. */
export interface BatchStatus {
  object: 'batch';

  /** Id of the bulk send. */
  id: string;

  /** Entries that are messages. */
  accepted: number;

  /** Entries that were refused. */
  rejected: number;

  /** When it was accepted. */
  created_at: string;

  /** Messages by status; null in lists. */
  counts: Record<string, number> | null;
}

/** A template that is to be made. It needs `html` or `text`. */
export interface NewTemplate {
  /** A name of your own, accepted wherever an id is; unique in the account. */
  alias?: string | null | undefined;

  /** For people. Default: the alias, else the subject. */
  name?: string | null | undefined;

  /** Rendered for each mail; 998 characters at most then. */
  subject?: string | null | undefined;

  /** Sender where a send names none; its name may have variables. */
  from?: string | null | undefined;

  /** Where answers go. */
  reply_to?: string | readonly string[] | null | undefined;

  /** HTML body. */
  html?: string | null | undefined;

  /** Plain text body; derived from the html where there is none. */
  text?: string | null | undefined;

  /** Variables that are declared. Others may be used as well. */
  variables?:
    | readonly {
        /** As the template spells it. */
        name: string;

        /** `string` where not given. */
        type?: 'string' | 'number' | 'boolean' | 'object' | 'array' | null | undefined;

        /** A send without it is refused. Default: false. */
        required?: boolean | null | undefined;

        /** What it is where a send does not give it. */
        default?: unknown;
      }[]
    | null
    | undefined;

  /** BCP 47, for dates and numbers: `de-AT`. Default: the template's, else `en`. */
  locale?: string | null | undefined;

  /** IANA name, for dates: `Europe/Vienna`. Default: the template's, else `UTC`. */
  timezone?: string | null | undefined;

  /** Refuse sends where a variable is missing. Default: false. */
  strict_variables?: boolean | null | undefined;

  /** `false` keeps a draft. Default: true. */
  publish?: boolean | null | undefined;
}

/** A mail to be filled in: Handlebars and Liquid, mixed as you like. */
export interface Template {
  object: 'template';

  /** Id of the template. */
  id: string;

  /** A name of your own, accepted wherever an id is. */
  alias: string | null;

  /** For people. */
  name: string;

  /** Subject line. */
  subject: string | null;

  /** Sender where a send names none. */
  from: string | null;

  /** Where answers go. */
  reply_to: string[];

  /** HTML body; null in lists. */
  html: string | null;

  /** Plain text body; null in lists, and where it is derived from the html. */
  text: string | null;

  /** Variables that are declared. */
  variables: {
    /** As the template spells it. */
    name: string;

    /** What a send must give. */
    type: Open<'string' | 'number' | 'boolean' | 'object' | 'array'>;

    /** Whether a send without it is refused. */
    required: boolean;

    /** What it is where a send does not give it. */
    default: unknown;
  }[];

  /** For dates and numbers, where a send names none. */
  locale: string;

  /** For dates, where a send names none. */
  timezone: string;

  /** Whether sends are refused where a variable is missing. */
  strict_variables: boolean;

  /** The version shown. */
  version: number;

  /** The version that sends use. */
  published_version: number | null;

  /** Whether the version shown is the one that sends use. */
  status: Open<'draft' | 'published'>;

  /** When it was made. */
  created_at: string;

  /** When it was changed last. */
  updated_at: string;

  /** When a version was published last; null for never. */
  published_at: string | null;
}

/** What is to be rendered, and with what. */
export interface RenderRequest {
  /** Id or alias; or give `subject`, `html` and `text` themselves. */
  template_id?: string | null | undefined;

  /** Default: the published one. */
  template_version?: number | null | undefined;

  /** Data for the template, or for `{{ }}` and `{% %}` in `subject`, `html` and `text`: with it they are rendered, without they are sent verbatim. At most 100 KiB of JSON, 10 levels deep. */
  variables?: Readonly<Record<string, unknown>> | null | undefined;

  /** Refuse the request where a variable is missing. Default: the template's, else false. */
  strict_variables?: boolean | null | undefined;

  /** BCP 47, for dates and numbers: `de-AT`. Default: the template's, else `en`. */
  locale?: string | null | undefined;

  /** IANA name, for dates: `Europe/Vienna`. Default: the template's, else `UTC`. */
  timezone?: string | null | undefined;

  /** Rendered for each mail; 998 characters at most then. */
  subject?: string | null | undefined;

  /** HTML body. */
  html?: string | null | undefined;

  /** Plain text body; derived from the html where there is none. */
  text?: string | null | undefined;
}

/** What a template looks like with these variables, and what is wrong with it. */
export interface Render {
  object: 'render';

  /** Whether no part has a fault. */
  valid: boolean;

  /** The subject line; null where there is none. */
  subject: {
    /** What comes out; null where there is a fault. */
    rendered: string | null;

    /** Faults of this part. */
    errors: {
      /** Code of the error catalogue. */
      code: string;

      /** Line of the source, from 1. */
      line: number | null;

      /** Column of the line, from 1. */
      column: number | null;

      /** What is wrong, for people. */
      message: string;
    }[];
  } | null;

  /** The HTML body; null where there is none. */
  html: {
    /** What comes out; null where there is a fault. */
    rendered: string | null;

    /** Faults of this part. */
    errors: {
      /** Code of the error catalogue. */
      code: string;

      /** Line of the source, from 1. */
      line: number | null;

      /** Column of the line, from 1. */
      column: number | null;

      /** What is wrong, for people. */
      message: string;
    }[];
  } | null;

  /** The plain text body; null where there is none. */
  text: {
    /** What comes out; null where there is a fault. */
    rendered: string | null;

    /** Faults of this part. */
    errors: {
      /** Code of the error catalogue. */
      code: string;

      /** Line of the source, from 1. */
      line: number | null;

      /** Column of the line, from 1. */
      column: number | null;

      /** What is wrong, for people. */
      message: string;
    }[];
  } | null;

  /** Names that the template asks for. */
  variables: string[];
}

/** What is to be another; the rest stays, and null takes a member away. */
export interface TemplateChange {
  /** A name of your own, accepted wherever an id is; unique in the account. */
  alias?: string | null | undefined;

  /** For people. Default: the alias, else the subject. */
  name?: string | null | undefined;

  /** Rendered for each mail; 998 characters at most then. */
  subject?: string | null | undefined;

  /** Sender where a send names none; its name may have variables. */
  from?: string | null | undefined;

  /** Where answers go. */
  reply_to?: string | readonly string[] | null | undefined;

  /** HTML body. */
  html?: string | null | undefined;

  /** Plain text body; derived from the html where there is none. */
  text?: string | null | undefined;

  /** Variables that are declared. Others may be used as well. */
  variables?:
    | readonly {
        /** As the template spells it. */
        name: string;

        /** `string` where not given. */
        type?: 'string' | 'number' | 'boolean' | 'object' | 'array' | null | undefined;

        /** A send without it is refused. Default: false. */
        required?: boolean | null | undefined;

        /** What it is where a send does not give it. */
        default?: unknown;
      }[]
    | null
    | undefined;

  /** BCP 47, for dates and numbers: `de-AT`. Default: the template's, else `en`. */
  locale?: string | null | undefined;

  /** IANA name, for dates: `Europe/Vienna`. Default: the template's, else `UTC`. */
  timezone?: string | null | undefined;

  /** Refuse sends where a variable is missing. Default: false. */
  strict_variables?: boolean | null | undefined;

  /** Publishes what results. Default: false. */
  publish?: boolean | null | undefined;
}

/** The versions of a template. */
export interface TemplateVersions {
  object: 'list';

  /** The versions, newest first. */
  data: {
    object: 'template_version';

    /** Number of the version. */
    version: number;

    /** Whether sends use it. */
    status: Open<'draft' | 'published' | 'superseded'>;

    /** When it was made. */
    created_at: string;
  }[];
}

/** An endpoint that is told of events. */
export interface Webhook {
  object: 'webhook';

  /** Id of the endpoint. */
  id: string;

  /** Where it is called. */
  url: string;

  /** For people. */
  description: string;

  /** Kinds of event that it is told of. */
  events: Open<
    | 'sent'
    | 'delivered'
    | 'opened'
    | 'clicked'
    | 'bounced'
    | 'complained'
    | 'deferred'
    | 'suppressed'
    | 'failed'
    | 'unsubscribed'
  >[];

  /** Only events of these streams; none means all. */
  streams: string[];

  /** Only events of mail from these domains; none means all. */
  domains: string[];

  /** Whether opens and clicks by machines are told. */
  include_machine_events: boolean;

  /** Whether address and user agent of opens and clicks are told. */
  include_engagement: boolean;

  /** Calls at once; with 1 events come strictly in order. */
  concurrency: number;

  /** Names of the custom headers. Their values are shown nowhere. */
  header_names: string[];

  /** `disabled`: by us, see `disabled_reason`. */
  status: Open<'active' | 'paused' | 'disabled'>;

  /** Why it was disabled; null unless it is. */
  disabled_reason: string | null;

  /** When a call was answered with 2xx last. */
  last_success_at: string | null;

  /** When a call failed last. */
  last_failure_at: string | null;

  /** When it was registered. */
  created_at: string;

  /** When its settings were changed last. */
  updated_at: string;
}

/** An endpoint that is to be registered. */
export interface NewWebhook {
  /** https, on port 443 or from 1024 up, without user name and fragment. */
  url: string;

  /** Kinds of event; `*` for the six that everybody gets, which is also what holds where nothing is given. */
  events?:
    | readonly (
        | 'sent'
        | 'delivered'
        | 'opened'
        | 'clicked'
        | 'bounced'
        | 'complained'
        | 'deferred'
        | 'suppressed'
        | 'failed'
        | 'unsubscribed'
        | '*'
      )[]
    | undefined;

  /** For people. */
  description?: string | undefined;

  /** Only events of these streams; none means all. */
  streams?: readonly string[] | undefined;

  /** Only events of mail from these domains; none means all. */
  domains?: readonly string[] | undefined;

  /** Also opens and clicks by machines. */
  include_machine_events?: boolean | undefined;

  /** Also address and user agent of opens and clicks: needs `event:engagement`. */
  include_engagement?: boolean | undefined;

  /** Calls at once; with 1 events come strictly in order. */
  concurrency?: number | undefined;

  /** Up to 10 headers for each call. Their values are stored encrypted. */
  headers?: Readonly<Record<string, string>> | undefined;

  /** False pauses it: what happens meanwhile is told afterwards. */
  enabled?: boolean | undefined;
}

/** A new endpoint with its secret. */
export interface CreatedWebhook {
  object: 'webhook';

  /** Id of the endpoint. */
  id: string;

  /** Where it is called. */
  url: string;

  /** For people. */
  description: string;

  /** Kinds of event that it is told of. */
  events: Open<
    | 'sent'
    | 'delivered'
    | 'opened'
    | 'clicked'
    | 'bounced'
    | 'complained'
    | 'deferred'
    | 'suppressed'
    | 'failed'
    | 'unsubscribed'
  >[];

  /** Only events of these streams; none means all. */
  streams: string[];

  /** Only events of mail from these domains; none means all. */
  domains: string[];

  /** Whether opens and clicks by machines are told. */
  include_machine_events: boolean;

  /** Whether address and user agent of opens and clicks are told. */
  include_engagement: boolean;

  /** Calls at once; with 1 events come strictly in order. */
  concurrency: number;

  /** Names of the custom headers. Their values are shown nowhere. */
  header_names: string[];

  /** `disabled`: by us, see `disabled_reason`. */
  status: Open<'active' | 'paused' | 'disabled'>;

  /** Why it was disabled; null unless it is. */
  disabled_reason: string | null;

  /** When a call was answered with 2xx last. */
  last_success_at: string | null;

  /** When a call failed last. */
  last_failure_at: string | null;

  /** When it was registered. */
  created_at: string;

  /** When its settings were changed last. */
  updated_at: string;

  /** Signs the calls. `GET /v1/webhooks/{id}/secret` shows it again. */
  secret: string;
}

/** What is to be another; the rest stays. */
export interface WebhookChanges {
  /** https, on port 443 or from 1024 up, without user name and fragment. */
  url?: string | undefined;

  /** Kinds of event; `*` for the six that everybody gets, which is also what holds where nothing is given. */
  events?:
    | readonly (
        | 'sent'
        | 'delivered'
        | 'opened'
        | 'clicked'
        | 'bounced'
        | 'complained'
        | 'deferred'
        | 'suppressed'
        | 'failed'
        | 'unsubscribed'
        | '*'
      )[]
    | undefined;

  /** For people. */
  description?: string | undefined;

  /** Only events of these streams; none means all. */
  streams?: readonly string[] | undefined;

  /** Only events of mail from these domains; none means all. */
  domains?: readonly string[] | undefined;

  /** Also opens and clicks by machines. */
  include_machine_events?: boolean | undefined;

  /** Also address and user agent of opens and clicks: needs `event:engagement`. */
  include_engagement?: boolean | undefined;

  /** Calls at once; with 1 events come strictly in order. */
  concurrency?: number | undefined;

  /** Up to 10 headers for each call. Their values are stored encrypted. */
  headers?: Readonly<Record<string, string>> | undefined;

  /** False pauses it: what happens meanwhile is told afterwards. */
  enabled?: boolean | undefined;
}

/** What the calls of an endpoint are signed with. */
export interface WebhookSecret {
  object: 'webhook_secret';

  /** Id of the endpoint. */
  webhook_id: string;

  /** Signs the calls from now on. */
  secret: string;

  /** Secrets that were replaced and still sign beside it. */
  previous: {
    /** A secret that was replaced. */
    secret: string;

    /** Until then it signs as well. */
    expires_at: string;
  }[];
}

/** One attempt to tell an endpoint of an event. */
export interface WebhookDelivery {
  object: 'webhook_delivery';

  /** Id of the attempt. */
  id: string;

  /** Id of the endpoint. */
  webhook_id: string;

  /** Id of the event; also the `webhook-id` of the call. */
  event_id: string;

  /** Kind of the event. */
  event_type: string;

  /** Why it was called: an event, or somebody asked for it again. */
  cause: Open<'event' | 'resend' | 'replay' | 'test'>;

  /** The first attempt is 1. */
  attempt: number;

  /** When it was called. */
  at: string;

  /** How long the call took. */
  ms: number;

  /** `delivered` for an answer with 2xx. */
  status: Open<'delivered' | 'failed'>;

  /** Null where there was no answer. */
  status_code: number | null;

  /** What failed; null for a success. */
  error: string | null;

  /** The first 4 KiB of the answer; null without the scope `webhook:read`. */
  answer: string | null;

  /** When it is tried again; null where it is not. */
  next_attempt_at: string | null;

  /** The signed request as a curl command. Null where the event is no longer stored, and where it holds what needs `event:engagement`. */
  request: string | null;
}

/** An event that is on its way to an endpoint once more. */
export interface WebhookResend {
  object: 'webhook_resend';

  /** Id of the endpoint. */
  webhook_id: string;

  /** Id of the event. */
  event_id: string;

  /** Kind of the event. */
  event_type: string;

  /** When it was queued. */
  queued_at: string;
}

/** Which sample is sent. */
export interface WebhookTest {
  /** `delivered` where not given. */
  type?:
    | 'sent'
    | 'delivered'
    | 'opened'
    | 'clicked'
    | 'bounced'
    | 'complained'
    | 'deferred'
    | 'suppressed'
    | 'failed'
    | 'unsubscribed'
    | undefined;
}

/** Which events are to be sent again. */
export interface NewWebhookReplay {
  /** Events from this time on. */
  since: string;

  /** Events before this time; now where not given. */
  until?: string | undefined;

  /** `failed` where not given. */
  only?: 'failed' | 'all' | undefined;

  /** Only these kinds, out of those it is told of. */
  types?:
    | readonly (
        | 'sent'
        | 'delivered'
        | 'opened'
        | 'clicked'
        | 'bounced'
        | 'complained'
        | 'deferred'
        | 'suppressed'
        | 'failed'
        | 'unsubscribed'
      )[]
    | undefined;
}

/** Events of a time that are sent to an endpoint again. */
export interface WebhookReplay {
  object: 'webhook_replay';

  /** Id of the replay. */
  id: string;

  /** Id of the endpoint. */
  webhook_id: string;

  /** Events from this time on. */
  since: string;

  /** Events before this time. */
  until: string;

  /** `failed` for what was not delivered, `all` for everything. */
  only: Open<'failed' | 'all'>;

  /** None means all that the endpoint is told of. */
  types: string[];

  /** `done`: all of it is queued. */
  status: Open<'running' | 'done'>;

  /** Events queued so far. */
  queued: number;

  /** When it was asked for. */
  created_at: string;

  /** When all of it was queued; null before. */
  finished_at: string | null;
}

/** An address that is not to be mailed, or many. */
export interface NewSuppressions {
  /** One address. Not together with `emails`. */
  email?: string | undefined;

  /** Several addresses. */
  emails?: readonly string[] | undefined;

  /** `manual` where not given. */
  reason?: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual' | undefined;

  /** For people. */
  note?: string | undefined;

  /** Slug of the stream it is for; the whole account where not given. */
  stream?: string | undefined;

  /** When it ends; never where not given. */
  expires_at?: string | undefined;
}

/** An address that is not mailed. */
export interface Suppression {
  object: 'suppression';

  /** Id of the entry. */
  id: string;

  /** The address. */
  email: string;

  /** Why it is on the list. */
  reason: Open<'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual'>;

  /** `account`, or `stream:` and the slug of a stream. */
  scope: string;

  /** The message whose bounce or complaint made the entry. */
  source_message_id: string | null;

  /** For people. */
  note: string | null;

  /** When it was put on the list. */
  created_at: string;

  /** Who put it there: a key, a person, or a bounce or complaint. */
  created_by: string;

  /** From then on the address is mailed again. */
  expires_at: string | null;
}

/** The result for each address, in the order of the request. */
export interface SuppressionResults {
  object: 'list';

  /** One line for each address, in the order of the request. */
  data: {
    /** Place in `emails`. */
    index: number;

    /** The address as it was given. */
    email: string;

    /** Id of the entry; null where it was refused. */
    id: string | null;

    /** `existing`: it was on the list already. */
    result: Open<'created' | 'existing' | 'rejected'>;

    /** Why it was refused; null where it was not. */
    error: {
      /** Code of the error catalogue. */
      code: string;

      /** What is wrong, for people. */
      message: string;

      /** The member at fault, from the top of the request. */
      field: string | null;

      /** Id of the request. */
      request_id: string | null;
    } | null;
  }[];
}

/** A sending domain and the DNS records it needs. */
export interface Domain {
  object: 'domain';

  /** Id of the domain. */
  id: string;

  /** The domain behind the `@` of the senders. */
  name: string;

  /** Mail is taken from a `verified` domain alone, also while `failing_since` is set. */
  status: Open<'pending' | 'verified' | 'failed'>;

  /** Another account of this server has verified this name. This claim can only be verified when that one is gone. */
  taken: boolean;

  /** The DNS records to publish, ready to paste. */
  records: {
    /** What the record is for. */
    purpose: Open<'dkim' | 'spf' | 'return_path' | 'dmarc' | 'tracking' | 'mx'>;

    /** Type of the DNS record. */
    type: string;

    /** Name of the DNS record. */
    host: string;

    /** What the record must say. */
    value: string;

    /** Whether the domain can be verified without it. */
    required: boolean;

    /** What the last check found. */
    status: Open<'ok' | 'missing' | 'wrong'>;

    /** What DNS answered at the last check. */
    found: string | null;

    /** When it was looked up last. */
    checked_at: string | null;
  }[];

  /** An operator vouched for it: it is verified whatever DNS says, and its records are not checked. */
  trusted: boolean;

  /** Keys that sign mail from it, the oldest first. */
  dkim: {
    /** Name of the key in DNS, before `._domainkey`. */
    selector: string;

    /** How it signs. */
    algorithm: string;

    /** `pending` until DNS shows it; `retiring` when another has taken its place. */
    state: Open<'active' | 'pending' | 'retiring'>;
  }[];

  /** Host that bounces go to. */
  return_path: string;

  /** Whether opens are counted; null: as the account says. */
  track_opens: boolean | null;

  /** Whether clicks are counted; null: as the account says. */
  track_clicks: boolean | null;

  /** When it was added. */
  created_at: string;

  /** When it was verified first; null for never. */
  verified_at: string | null;

  /** When DNS was asked last. A record with an older `checked_at` got no answer then. */
  checked_at: string | null;

  /** Since when a required record has been missing or wrong; null where none is, or where the domain was never verified. */
  failing_since: string | null;

  /** From when on mail from it is refused. Of a `verified` domain it is the end of the countdown that began with `failing_since`. */
  refused_at: string | null;

  /** What there is to say of its state, in whole sentences. */
  notes: string[];
}

/** A domain to send from. */
export interface NewDomain {
  /** The domain behind the `@` of the senders. */
  name: string;

  /** Host that bounces go to, the domain or a name below it; `rp.<name>` where not given. */
  return_path?: string | undefined;

  /** Null: as the account says. */
  track_opens?: boolean | null | undefined;

  /** Null: as the account says. */
  track_clicks?: boolean | null | undefined;
}

/** What is to be another; the rest stays. */
export interface DomainChanges {
  /** Null: as the account says. */
  track_opens?: boolean | null | undefined;

  /** Null: as the account says. */
  track_clicks?: boolean | null | undefined;

  /** The domain or a name below it. */
  return_path?: string | undefined;
}

/** An API key, without its secret. */
export interface Key {
  object: 'key';

  /** Id of the key. */
  id: string;

  /** For people. */
  name: string;

  /** Mail of a `test` key is simulated. */
  mode: Open<'live' | 'test'>;

  /** The part of the key that is not secret. */
  prefix: string;

  /** What it may do. */
  scopes: string[];

  /** Sending domains it is restricted to; none means all. */
  domains: string[];

  /** Addresses and ranges it may be used from; none means any. */
  allowed_ips: string[];

  /** When it ends by itself; null for never. */
  expires_at: string | null;

  /** When it was used last; null for never. */
  last_used_at: string | null;

  /** Address that it was used from last. */
  last_used_ip: string | null;

  /** Method and path, or `SMTP`. */
  last_used_endpoint: string | null;

  /** Uses in the last 24 hours, to the hour. */
  requests_24h: number;

  /** When it was made. */
  created_at: string;

  /** Who made it: another key, a person or the operator. */
  created_by: string;

  /** May lie in the future: then the key is good until that time. */
  revoked_at: string | null;
}

/** A key that is to be made. */
export interface NewKey {
  /** For people. */
  name: string;

  /** What it may do. */
  scopes: readonly (
    | 'send'
    | 'campaign'
    | 'campaign:read'
    | 'message:read'
    | 'message:content'
    | 'message:cancel'
    | 'message:delete'
    | 'template'
    | 'template:read'
    | 'template:render'
    | 'suppression'
    | 'suppression:read'
    | 'suppression:delete'
    | 'webhook'
    | 'webhook:read'
    | 'webhook:replay'
    | 'webhook:secret'
    | 'event:read'
    | 'event:engagement'
    | 'stats:read'
    | 'domain'
    | 'domain:read'
    | 'domain:verify'
    | 'domain:dkim'
    | 'stream'
    | 'stream:read'
    | 'key'
    | 'key:read'
    | 'audit:read'
    | 'settings'
  )[];

  /** That of the asking key where not given. */
  mode?: 'live' | 'test' | undefined;

  /** Sending domains it is restricted to. */
  domains?: readonly string[] | undefined;

  /** Addresses and CIDR ranges it may be used from. */
  allowed_ips?: readonly string[] | undefined;

  /** Lifetime in seconds. Not together with `expires_at`. */
  ttl?: number | undefined;

  /** When it ends; never where not given. */
  expires_at?: string | undefined;

  /** Id of the key it takes the place of. */
  replaces?: string | undefined;

  /** Seconds until the replaced key ends; at once where not given. */
  revoke_after?: number | undefined;
}

/** A new API key with its secret. */
export interface CreatedKey {
  object: 'key';

  /** Id of the key. */
  id: string;

  /** For people. */
  name: string;

  /** Mail of a `test` key is simulated. */
  mode: Open<'live' | 'test'>;

  /** The part of the key that is not secret. */
  prefix: string;

  /** What it may do. */
  scopes: string[];

  /** Sending domains it is restricted to; none means all. */
  domains: string[];

  /** Addresses and ranges it may be used from; none means any. */
  allowed_ips: string[];

  /** When it ends by itself; null for never. */
  expires_at: string | null;

  /** When it was used last; null for never. */
  last_used_at: string | null;

  /** Address that it was used from last. */
  last_used_ip: string | null;

  /** Method and path, or `SMTP`. */
  last_used_endpoint: string | null;

  /** Uses in the last 24 hours, to the hour. */
  requests_24h: number;

  /** When it was made. */
  created_at: string;

  /** Who made it: another key, a person or the operator. */
  created_by: string;

  /** May lie in the future: then the key is good until that time. */
  revoked_at: string | null;

  /** The key itself: it is shown only in this answer. */
  key: string;
}

/** What is to be another; the rest stays. */
export interface KeyChanges {
  /** For people. */
  name?: string | undefined;

  /** What it may do. */
  scopes?:
    | readonly (
        | 'send'
        | 'campaign'
        | 'campaign:read'
        | 'message:read'
        | 'message:content'
        | 'message:cancel'
        | 'message:delete'
        | 'template'
        | 'template:read'
        | 'template:render'
        | 'suppression'
        | 'suppression:read'
        | 'suppression:delete'
        | 'webhook'
        | 'webhook:read'
        | 'webhook:replay'
        | 'webhook:secret'
        | 'event:read'
        | 'event:engagement'
        | 'stats:read'
        | 'domain'
        | 'domain:read'
        | 'domain:verify'
        | 'domain:dkim'
        | 'stream'
        | 'stream:read'
        | 'key'
        | 'key:read'
        | 'audit:read'
        | 'settings'
      )[]
    | undefined;

  /** Sending domains it is restricted to. */
  domains?: readonly string[] | undefined;

  /** Addresses and CIDR ranges it may be used from. */
  allowed_ips?: readonly string[] | undefined;
}

/** A kind of mail that is kept apart. */
export interface Stream {
  object: 'stream';

  /** Id of the stream. */
  id: string;

  /** What mails call it. */
  slug: string;

  /** For people. */
  name: string;

  /** Recipients can unsubscribe from mail of a `broadcast` stream. */
  type: Open<'transactional' | 'broadcast'>;

  /** Name of the sources it is sent from. */
  pool: string;

  /** 0 goes first. */
  priority: number;

  /** While it is, nothing is accepted for it and what waits is held. */
  paused: boolean;

  /** When it was made. */
  created_at: string;
}

/** A stream that is to be made. */
export interface NewStream {
  /** What mails call it: lower-case letters, digits and hyphens. */
  slug: string;

  /** For people. */
  name: string;

  /** Recipients can unsubscribe from mail of a `broadcast` stream. */
  type: 'transactional' | 'broadcast';

  /** Name of the sources it is sent from; the default pool where the server has none of that name. */
  pool?: string | undefined;

  /** 0 goes first; 1 gets every fifth turn while mail of 0 waits. */
  priority?: number | undefined;
}

/** What is to be another; the rest stays. */
export interface StreamChanges {
  /** For people. */
  name?: string | undefined;

  /** Name of the sources it is sent from; the default pool where the server has none of that name. */
  pool?: string | undefined;

  /** 0 goes first; 1 gets every fifth turn while mail of 0 waits. */
  priority?: number | undefined;

  /** While it is, nothing is accepted for it and what waits is held. */
  paused?: boolean | undefined;
}

/** Settings of the account, and its limits. */
export interface Settings {
  object: 'settings';

  /** For domains that say nothing themselves. */
  track_opens: boolean;

  /** For domains that say nothing themselves. */
  track_clicks: boolean;

  /** Mail that is not finished is never removed. */
  retention: {
    /** Days that html, text and attachments are kept. */
    content_days: number;

    /** Days that messages and their attempts are kept. */
    messages_days: number;

    /** Days that events are kept. */
    events_days: number;
  };

  /** Name of the plan, which the operator chooses. */
  plan: string;

  /** What the plan and the server allow. */
  limits: {
    /** Requests a minute over all keys. */
    requests_per_minute: number | null;

    /** Recipients accepted a UTC day; null means no limit. */
    mails_per_day: number | null;

    /** Recipients accepted a UTC month; null means no limit. */
    mails_per_month: number | null;

    /** Addresses in one message. */
    recipients: number;

    /** Entries of one bulk send. */
    bulk_recipients: number;

    /** Attachments of one message. */
    attachments: number;

    /** Bytes of one message, encoded. */
    message_bytes: number;

    /** Bytes of the body of one request. */
    body_bytes: number;
  };

  /** How much of the quotas is used. */
  usage: {
    /** Recipients accepted since midnight, UTC. */
    mails_today: number;

    /** Recipients accepted since the first of the month, UTC. */
    mails_this_month: number;
  };
}

/** What is to be another; the rest stays. */
export interface SettingsChanges {
  /** Null goes back to the default, false. */
  track_opens?: boolean | null | undefined;

  /** Null goes back to the default, false. */
  track_clicks?: boolean | null | undefined;

  /** At most what the server keeps; null goes back to the server's own. */
  retention?:
    | {
        /** Days that html, text and attachments are kept. */
        content_days?: number | null | undefined;

        /** Days that messages and their attempts are kept. */
        messages_days?: number | null | undefined;

        /** Days that events are kept. */
        events_days?: number | null | undefined;
      }
    | undefined;
}

/** Numbers of a range of time. */
export interface Stats {
  object: 'stats';

  /** What a line is for. */
  bucket: Open<'hour' | 'day' | 'total'>;

  /** What is told apart. */
  by: Open<'stream' | 'tag' | 'domain' | 'provider' | 'template'> | null;

  /** Begin of the range, rounded. */
  since: string;

  /** End of the range, rounded. */
  until: string;
  total: StatCounts;

  /** Parts of the total. */
  rates: {
    /** Delivered by sent. Between 0 and 1; null where nothing was sent. */
    delivered: number | null;

    /** Bounced by sent. Between 0 and 1; null where nothing was sent. */
    bounced: number | null;

    /** Complaints by delivered. Between 0 and 1; null where nothing was sent. */
    complained: number | null;

    /** Recipients who opened by delivered. Between 0 and 1; null where nothing was sent. */
    opened: number | null;

    /** Recipients who clicked by delivered. Between 0 and 1; null where nothing was sent. */
    clicked: number | null;
  };

  /** The lines, oldest first. */
  data: {
    /** Begin of the hour or day (UTC); of the range where the bucket is `total`. */
    at: string;

    /** The stream, tag, domain, provider or template; null without `by`. */
    key: string | null;
    counts: StatCounts;
  }[];
}

/** Recipients by what happened. `unique_` counts each recipient once; `machine_` counts hits of scanners and proxies, which are in no other number. */
export interface StatCounts {
  /** Recipients whose first attempt began. */
  sent: number;

  /** Recipients whose mail was taken. */
  delivered: number;

  /** Attempts that failed for now. */
  deferred: number;

  /** Recipients who could not be reached. */
  bounced: number;

  /** Of these, bad addresses. */
  bounced_hard: number;

  /** Of these, mailboxes that were full or away for too long. */
  bounced_soft: number;

  /** Of these, mail that was not wanted. */
  bounced_block: number;

  /** Recipients who complained. */
  complained: number;

  /** Recipients who were not mailed, as they are on the suppression list. */
  suppressed: number;

  /** Recipients whose mail could not be built. */
  failed: number;

  /** Opens by people. */
  opened: number;

  /** Recipients who opened. */
  unique_opened: number;

  /** Opens by machines. */
  machine_opened: number;

  /** Clicks by people. */
  clicked: number;

  /** Recipients who clicked. */
  unique_clicked: number;

  /** Clicks by machines. */
  machine_clicked: number;

  /** Recipients who unsubscribed. */
  unsubscribed: number;
}

/** One use of a key. */
export interface AuditEntry {
  object: 'audit_entry';

  /** Id of the entry. */
  id: string;

  /** When it was. */
  at: string;

  /** Id of the key; null for what a person or the operator did. */
  key_id: string | null;

  /** `key:` and the name of the key, `member:` and the address of a person, `operator`, or `webhook:` and the id of an endpoint that was disabled. */
  actor: string;

  /** Address that it came from. */
  ip: string | null;

  /** HTTP method, or `CLI` for a command. */
  method: string;

  /** The path as the description names it, such as `/v1/messages/{id}`. */
  endpoint: string;

  /** HTTP status of the answer. */
  status: number;

  /** How it ended. */
  result: Open<'ok' | 'refused' | 'failed' | 'idempotency_mismatch'>;

  /** Code of the error catalogue; null for a success. */
  error_code: string | null;

  /** Id of the request. */
  request_id: string;

  /** How long it took, in milliseconds. */
  ms: number;

  /** Whether an earlier answer was given again. */
  idempotency_replayed: boolean;

  /** Program that asked, as it called itself. */
  user_agent: string | null;

  /** Name of the operation; null where the request reached none. */
  operation: string | null;

  /** Kind of the object that it was done to; null for what only reads. */
  object_type: string | null;

  /** Id or name of that object. */
  object_id: string | null;

  /** Members of the object as they were before; null where it was made. */
  before: Record<string, unknown> | null;

  /** The same members after; null where it was removed. */
  after: Record<string, unknown> | null;

  /** The act as a sentence whose subject is `actor`; null for what only reads. */
  summary: string | null;
}

/** What each operation takes and gives. */
export interface Operations {
  /** Send one mail, or many */
  sendMessage: { body: SingleMessage | BulkMessage; answer: Message | Batch };

  /** List messages */
  listMessages: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;

      /** Statuses, separated by commas or one by one. */
      status?:
        | readonly (
            | 'scheduled'
            | 'queued'
            | 'sent'
            | 'deferred'
            | 'delivered'
            | 'bounced'
            | 'complained'
            | 'suppressed'
            | 'failed'
            | 'canceled'
          )[]
        | undefined;

      /** Address of any recipient. */
      to?: string | undefined;

      /** Address of the sender. */
      from?: string | undefined;

      /** Beginnings of words of the subject; looks 30 days back unless `created_after` says otherwise. */
      subject?: string | undefined;

      /** Tags, separated by commas or one by one, which must all be there. */
      tag?: readonly string[] | undefined;

      /** `metadata[order]=17`: exact values. */
      metadata?: Readonly<Record<string, string>> | undefined;

      /** Messages of this template, by its id. */
      template_id?: string | undefined;

      /** Messages of this bulk send. */
      batch_id?: string | undefined;

      /** Messages of this stream. */
      stream?: string | undefined;

      /** The sending domain. */
      domain?: string | undefined;

      /** The Message-ID of the mail, with its brackets or without. */
      rfc_message_id?: string | undefined;

      /** The request that the messages came with, as `X-Request-Id` of its answer names it. */
      request_id?: string | undefined;

      /** From this time on. */
      created_after?: string | undefined;

      /** Before this time. */
      created_before?: string | undefined;

      /** Whether a person has opened it. */
      opened?: boolean | undefined;

      /** Whether a person has followed a link of it. */
      clicked?: boolean | undefined;

      /** `true` for simulated mail, `false` for real mail. */
      test?: boolean | undefined;

      /** Newest first (the default) or oldest first. */
      sort?: '-created_at' | 'created_at' | undefined;
    };
    answer: Page<Message>;
  };

  /** Read the status of one message */
  getMessage: {
    query: {
      /** `content` adds the stored body; needs the scope `message:content`. */
      expand?: 'content' | undefined;
    };
    answer: MessageDetails;
  };

  /** Move the time of sending */
  updateMessage: { body: MessageChange; answer: Message };

  /** List the SMTP attempts of a message */
  listMessageAttempts: { answer: AttemptList };

  /** Why has it not arrived yet? */
  explainMessage: { answer: Why };

  /** Read the body of a message */
  getMessageContent: { answer: Content };

  /** Erase the body of a message */
  deleteMessageContent: { answer: undefined };

  /** Cancel a message */
  cancelMessage: { answer: Message };

  /** Send it again */
  resendMessage: { answer: Message };

  /** List what came back for a message */
  listMessageReports: { answer: ReportList };

  /** Read a mail that came back */
  getMessageReport: { answer: undefined };

  /** Read what a mail that came back says */
  getMessageReportContent: { answer: ReportContent };

  /** Read the source of a message */
  getMessageRaw: { answer: undefined };

  /** Erase a person */
  deleteRecipient: { answer: undefined };

  /** List bulk sends */
  listBatches: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;
    };
    answer: Page<BatchStatus>;
  };

  /** Read a bulk send */
  getBatch: { answer: BatchStatus };

  /** Cancel a bulk send */
  cancelBatch: { answer: BatchStatus };

  /** Create a template */
  createTemplate: { body: NewTemplate; answer: Template };

  /** List templates */
  listTemplates: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;
    };
    answer: Page<Template>;
  };

  /** Try a template */
  renderTemplate: { body: RenderRequest; answer: Render };

  /** Read one template */
  getTemplate: {
    query: {
      /** The latest where not given. */
      version?: number | undefined;
    };
    answer: Template;
  };

  /** Change a template */
  updateTemplate: { body: TemplateChange; answer: Template };

  /** Delete a template */
  deleteTemplate: { answer: undefined };

  /** Publish the latest version */
  publishTemplate: { answer: Template };

  /** List the versions of a template */
  listTemplateVersions: { answer: TemplateVersions };

  /** List webhook endpoints */
  listWebhooks: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;
    };
    answer: Page<Webhook>;
  };

  /** Register a webhook endpoint */
  createWebhook: { body: NewWebhook; answer: CreatedWebhook };

  /** Read a webhook endpoint */
  getWebhook: { answer: Webhook };

  /** Change, pause or resume a webhook endpoint */
  updateWebhook: { body: WebhookChanges; answer: Webhook };

  /** Remove a webhook endpoint */
  deleteWebhook: { answer: undefined };

  /** Show the secret of a webhook endpoint */
  getWebhookSecret: { answer: WebhookSecret };

  /** Replace the secret of a webhook endpoint */
  rotateWebhookSecret: { answer: WebhookSecret };

  /** List what a webhook endpoint was told */
  listWebhookDeliveries: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;

      /** Only attempts that ended like this. */
      status?: 'delivered' | 'failed' | undefined;
    };
    answer: Page<WebhookDelivery>;
  };

  /** Send an event to a webhook endpoint again */
  resendWebhookDelivery: { answer: WebhookResend };

  /** Try a webhook endpoint */
  testWebhook: { body: WebhookTest; answer: WebhookDelivery };

  /** Send events of a time to a webhook endpoint again */
  replayWebhook: { body: NewWebhookReplay; answer: WebhookReplay };

  /** List replays of a webhook endpoint */
  listWebhookReplays: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;
    };
    answer: Page<WebhookReplay>;
  };

  /** Read the event stream */
  listEvents: {
    query: {
      /** Entries a page, 1 to 1000; 25 where not given. */
      limit?: number | undefined;

      /** Cursor or event id: the events after it; `start` for all there are. Not together with `before`. */
      after?: string | undefined;

      /** Cursor or event id: the events before it; `end` for the newest ones. Not together with `after`. */
      before?: string | undefined;

      /** Kinds, separated by commas or one by one. Without it: sent, delivered, opened, clicked, bounced, complained. */
      type?:
        | readonly (
            | 'sent'
            | 'delivered'
            | 'opened'
            | 'clicked'
            | 'bounced'
            | 'complained'
            | 'deferred'
            | 'suppressed'
            | 'failed'
            | 'unsubscribed'
          )[]
        | undefined;

      /** Events of this message. */
      message_id?: string | undefined;

      /** Events of this address. */
      recipient?: string | undefined;

      /** Events of this bulk send. */
      batch_id?: string | undefined;

      /** Events of messages with this tag. */
      tag?: string | undefined;

      /** From this time on. */
      occurred_after?: string | undefined;

      /** Before this time. */
      occurred_before?: string | undefined;

      /** `true` for simulated mail, `false` for real mail. */
      test?: boolean | undefined;

      /** Seconds to wait for an event when there is none yet. */
      wait?: number | undefined;
    };
    answer: Page<EventRecord>;
  };

  /** Suppress an address, or many */
  createSuppression: { body: NewSuppressions; answer: Suppression | SuppressionResults };

  /** List suppressions */
  listSuppressions: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;

      /** Only entries with this reason. */
      reason?: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual' | undefined;

      /** Only entries for this stream. */
      stream?: string | undefined;

      /** `account`: only entries for the whole account. */
      scope?: 'account' | undefined;

      /** From this time on. */
      created_after?: string | undefined;

      /** Before this time. */
      created_before?: string | undefined;
    };
    answer: Page<Suppression>;
  };

  /** Look up an address */
  getSuppression: {
    query: {
      /** Only the entry for this stream. */
      stream?: string | undefined;
    };
    answer: Suppression;
  };

  /** Mail an address again */
  deleteSuppression: {
    query: {
      /** Only the entry for this stream. */
      stream?: string | undefined;

      /** Also entries made by complaints. */
      force?: 'true' | 'false' | undefined;
    };
    answer: undefined;
  };

  /** List sending domains */
  listDomains: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;

      /** `verified` where not given. */
      status?: 'verified' | 'pending' | 'failed' | 'any' | undefined;
    };
    answer: Page<Domain>;
  };

  /** Add a sending domain */
  createDomain: { body: NewDomain; answer: Domain };

  /** Read a domain */
  getDomain: { answer: Domain };

  /** Change a domain */
  updateDomain: { body: DomainChanges; answer: Domain };

  /** Remove a domain */
  deleteDomain: { answer: undefined };

  /** Ask DNS for the records now */
  verifyDomain: { answer: Domain };

  /** Make the next DKIM keys */
  rotateDomainDkim: { answer: Domain };

  /** List API keys */
  listKeys: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;
    };
    answer: Page<Key>;
  };

  /** Make an API key */
  createKey: { body: NewKey; answer: CreatedKey };

  /** Read an API key */
  getKey: { answer: Key };

  /** Change an API key */
  updateKey: { body: KeyChanges; answer: Key };

  /** Revoke an API key */
  revokeKey: { answer: undefined };

  /** List streams */
  listStreams: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;
    };
    answer: Page<Stream>;
  };

  /** Make a stream */
  createStream: { body: NewStream; answer: Stream };

  /** Change or pause a stream */
  updateStream: { body: StreamChanges; answer: Stream };

  /** Remove a stream */
  deleteStream: { answer: undefined };

  /** Read the settings of the account */
  getSettings: { answer: Settings };

  /** Change the settings of the account */
  updateSettings: { body: SettingsChanges; answer: Settings };

  /** Read numbers */
  getStats: {
    query: {
      /** Begin of the range, rounded down to the hour or day. The last 30 days where not given; with hours the last 24 hours. */
      since?: string | undefined;

      /** End of the range, rounded up; now where not given. */
      until?: string | undefined;

      /** `day` where not given, with `by` it is `total`. Hours are kept for 31 days; told apart, a range of them has at most 7 days. */
      bucket?: 'hour' | 'day' | 'total' | undefined;

      /** Tell these apart, the 100 with the most mail. */
      by?: 'stream' | 'tag' | 'domain' | 'provider' | 'template' | undefined;

      /** Mail of this stream. */
      stream?: string | undefined;

      /** Mail with this tag. */
      tag?: string | undefined;

      /** The sending domain. */
      domain?: string | undefined;

      /** The recipient's mailbox provider; `other` is all the rest. */
      provider?:
        | 'google'
        | 'microsoft'
        | 'yahoo'
        | 'yahoo_japan'
        | 'apple'
        | 'gmx'
        | 'proton'
        | 'mailru'
        | 'yandex'
        | 'qq'
        | 'netease'
        | 'comcast'
        | 'orange'
        | 'free'
        | 'telekom'
        | 'libero'
        | 'zoho'
        | 'fastmail'
        | 'other'
        | undefined;

      /** Mail of this template. Not together with tags. */
      template_id?: string | undefined;

      /** Numbers of simulated mail instead of real mail. */
      test?: boolean | undefined;
    };
    answer: Stats;
  };

  /** Read the audit log */
  listAuditEntries: {
    query: {
      /** Entries a page, 1 to 100; 25 where not given. */
      limit?: number | undefined;

      /** Cursor: the entries after it. Not together with `before`. */
      after?: string | undefined;

      /** Cursor: the entries before it. Not together with `after`. */
      before?: string | undefined;

      /** Uses of this key. */
      key_id?: string | undefined;

      /** `key:` and the name of a key, `member:` and an address, or `operator`. */
      actor?: string | undefined;

      /** `key`: uses of keys; `person`: what people did in the dashboard or as operator. */
      by?: 'key' | 'person' | undefined;

      /** In any case; commands have `CLI`. */
      method?: string | undefined;

      /** As the entries show it. */
      endpoint?: string | undefined;

      /** HTTP status of the answer. */
      status?: number | undefined;

      /** How it ended. */
      result?: 'ok' | 'refused' | 'failed' | 'idempotency_mismatch' | undefined;

      /** Address that it came from. */
      ip?: string | undefined;

      /** The entry of this request. */
      request_id?: string | undefined;

      /** Name of the operation. */
      operation?: string | undefined;

      /** Kind of the object. */
      object_type?: string | undefined;

      /** Id or name of the object. */
      object_id?: string | undefined;

      /** From this time on. */
      since?: string | undefined;

      /** Before this time. */
      until?: string | undefined;
    };
    answer: Page<AuditEntry>;
  };

  /** Download the TypeScript client */
  getClientPackage: { answer: undefined };

  /** Read this document */
  getOpenapi: { answer: Record<string, unknown> };
}
