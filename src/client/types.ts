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

/** A message as it stands now. */
export interface Message {
  object: 'message';
  id: string;
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

  /** RFC 3339 in UTC, with milliseconds. */
  status_at: string;
  from: string;
  to: string;
  cc: string[];
  bcc: string[];
  reply_to: string[];
  subject: string;
  stream: string;
  template_id: string | null;
  template_version: number | null;
  tags: string[];
  metadata: Record<string, string>;
  send_at: string | null;
  expires_at: string | null;
  track_opens: boolean;
  track_clicks: boolean;

  /** True where delivery is simulated. */
  test: boolean;

  /** The Message-ID of the mail. */
  rfc_message_id: string;
  last_event: {
    type: string;

    /** RFC 3339 in UTC, with milliseconds. */
    timestamp: string;
  } | null;
  engagement: {
    opens: number;
    clicks: number;
    first_opened_at: string | null;
    last_opened_at: string | null;
    first_clicked_at: string | null;
    bot_opens: number;
    bot_clicks: number;
  };

  /** RFC 3339 in UTC, with milliseconds. */
  created_at: string;
}

/** The answer to a bulk send: one entry for each of `recipients`, in their order. */
export interface Batch {
  object: 'batch';
  id: string;
  accepted: number;
  rejected: number;

  /** RFC 3339 in UTC, with milliseconds. */
  created_at: string;
  data: {
    index: number;
    to: string | null;
    id: string | null;
    status: string;
    error: { code: string; message: string; field: string | null; request_id: string | null } | null;
  }[];
}

/** A message with its recipients, attempts and events. */
export interface MessageDetails {
  object: 'message';
  id: string;
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

  /** RFC 3339 in UTC, with milliseconds. */
  status_at: string;
  from: string;
  to: string;
  cc: string[];
  bcc: string[];
  reply_to: string[];
  subject: string;
  stream: string;
  template_id: string | null;
  template_version: number | null;
  tags: string[];
  metadata: Record<string, string>;
  send_at: string | null;
  expires_at: string | null;
  track_opens: boolean;
  track_clicks: boolean;

  /** True where delivery is simulated. */
  test: boolean;

  /** The Message-ID of the mail. */
  rfc_message_id: string;
  last_event: {
    type: string;

    /** RFC 3339 in UTC, with milliseconds. */
    timestamp: string;
  } | null;
  engagement: {
    opens: number;
    clicks: number;
    first_opened_at: string | null;
    last_opened_at: string | null;
    first_clicked_at: string | null;
    bot_opens: number;
    bot_clicks: number;
  };

  /** RFC 3339 in UTC, with milliseconds. */
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
  content?: { html: string | null; text: string | null };
}

/** One recipient of a message, with a status of its own. */
export interface Recipient {
  email: string;
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

  /** RFC 3339 in UTC, with milliseconds. */
  status_at: string;
  attempt_count: number;
  next_attempt_at: string | null;

  /** What the other side said last. */
  smtp: {
    code: number | null;
    enhanced: string | null;
    reply: string | null;
    mx: string | null;
    tls: string | null;
  } | null;
}

/** One SMTP attempt: whom we asked, what was said, how long it took. */
export interface Attempt {
  object: 'attempt';
  id: string;
  recipient: string;
  number: number;

  /** RFC 3339 in UTC, with milliseconds. */
  started_at: string;

  /** RFC 3339 in UTC, with milliseconds. */
  ended_at: string;
  mx: string | null;
  ip: string | null;
  source: string | null;
  tls: { protocol: string; cipher: string; verified: boolean; policy: string } | null;
  timings_ms: {
    /** Milliseconds. */
    dns: number;

    /** Milliseconds. */
    connect: number;

    /** Milliseconds. */
    banner: number;

    /** Milliseconds. */
    tls: number;

    /** Milliseconds. */
    mail: number;

    /** Milliseconds. */
    rcpt: number;

    /** Milliseconds. */
    data: number;

    /** Milliseconds. */
    dot: number;
  };
  outcome: Open<'accepted' | 'deferred' | 'refused' | 'uncertain'>;
  smtp_code: number | null;
  enhanced_code: string | null;
  smtp_reply: string | null;
  class: string | null;
  reason: string | null;
  next_attempt_at: string | null;
}

/** Something that happened to a message. Webhooks carry the same record. */
export interface EventRecord {
  object: 'event';
  id: string;
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

  /** RFC 3339 in UTC, with milliseconds. */
  timestamp: string;

  /** Ascends in the order in which events became visible; holes are normal. */
  sequence: number;
  test: boolean;

  /** The message and, in the member named after the type, what happened. */
  data: {
    message_id: string;
    batch_id: string | null;
    rfc_message_id: string;
    recipient: string;
    recipient_type: Open<'to' | 'cc' | 'bcc'>;
    from: string;
    subject: string;
    template_id: string | null;
    stream: string;
    tags: string[];
    metadata: Record<string, string>;

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
    sent?: { attempt: number; mx: string | null; sending_ip: string | null };
    delivered?: {
      mx: string | null;
      ip: string | null;
      smtp_code: number | null;
      smtp_reply: string | null;
      tls: string | null;
      attempt: number;
      queue_ms: number;
      via_relay: boolean;
    };
    opened?: {
      first: boolean;
      ip: string | null;
      user_agent: string | null;
      client: string | null;
      os: string | null;
      device: string | null;
      is_bot: boolean;
      bot: string | null;
    };
    clicked?: {
      first: boolean;
      url: string;
      link_id: string;
      part: Open<'html' | 'text'>;
      ip: string | null;
      user_agent: string | null;
      is_bot: boolean;
      bot: string | null;
    };
    bounced?: {
      class: Open<'hard' | 'soft' | 'block' | 'undetermined'>;
      reason: string;
      async: boolean;
      smtp_code: number | null;
      enhanced_code: string | null;
      smtp_reply: string | null;
      mx: string | null;
      attempts: number;
      suppression_added: boolean;
    };
    complained?: {
      feedback_type: string;
      source: string;
      arrival_date: string | null;
      user_agent: string | null;
      suppression_added: boolean;
    };
    deferred?: {
      attempt: number;
      mx: string | null;
      smtp_code: number | null;
      enhanced_code: string | null;
      smtp_reply: string | null;
      reason: string;

      /** RFC 3339 in UTC, with milliseconds. */
      next_attempt_at: string;
    };
    suppressed?: { reason: string; suppression_id: string };
    failed?: { reason: string; message: string };
    unsubscribed?: { stream: string; method: Open<'one_click' | 'mailto' | 'page'> };
  };
}

/** SMTP attempts, oldest first. */
export interface AttemptList {
  object: 'list';
  data: Attempt[];
}

/** What holds a message, and until when. */
export interface Why {
  object: 'why';
  message_id: string;
  recipients: {
    email: string;
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
  message_id: string;
  html: string | null;
  text: string | null;
  attachments: {
    filename: string;
    content_type: string;
    content_id: string | null;
    disposition: Open<'attachment' | 'inline'>;

    /** Bytes. */
    size: number;
  }[];
}

export interface MessageChange {
  /** The new time, with offset, at most 30 days ahead. */
  send_at: string;
}

/** A bulk send, and what became of it. */
export interface BatchStatus {
  object: 'batch';
  id: string;
  accepted: number;
  rejected: number;
  created_at: string;

  /** Messages by status; null in lists. */
  counts: Record<string, number> | null;
}

/** Mails that came back, oldest first. */
export interface ReportList {
  object: 'list';
  data: Report[];
}

/** A mail that came back for a message. */
export interface Report {
  object: 'report';
  id: string;

  /** What it was taken for; null while it has not been read. */
  kind: Open<'bounce' | 'delay' | 'complaint' | 'auto_reply' | 'unsubscribe' | 'report' | 'other'> | null;
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
  id: string;
  alias: string | null;
  name: string;
  subject: string | null;
  from: string | null;
  reply_to: string[];
  html: string | null;
  text: string | null;
  variables: {
    name: string;
    type: Open<'string' | 'number' | 'boolean' | 'object' | 'array'>;
    required: boolean;
    default: unknown;
  }[];
  locale: string;
  timezone: string;
  strict_variables: boolean;

  /** The version shown. */
  version: number;

  /** The version that sends use. */
  published_version: number | null;

  /** Whether the version shown is the one that sends use. */
  status: Open<'draft' | 'published'>;
  created_at: string;
  updated_at: string;
  published_at: string | null;
}

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
  valid: boolean;
  subject: {
    rendered: string | null;
    errors: { code: string; line: number | null; column: number | null; message: string }[];
  } | null;
  html: {
    rendered: string | null;
    errors: { code: string; line: number | null; column: number | null; message: string }[];
  } | null;
  text: {
    rendered: string | null;
    errors: { code: string; line: number | null; column: number | null; message: string }[];
  } | null;

  /** Names that the template asks for. */
  variables: string[];
}

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

export interface TemplateVersions {
  object: 'list';
  data: {
    object: 'template_version';
    version: number;
    status: Open<'draft' | 'published' | 'superseded'>;
    created_at: string;
  }[];
}

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
  id: string;
  url: string;
  description: string;
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
  disabled_reason: string | null;
  last_success_at: string | null;
  last_failure_at: string | null;
  created_at: string;
  updated_at: string;

  /** Signs the calls. `GET /v1/webhooks/{id}/secret` shows it again. */
  secret: string;
}

/** An endpoint that is told of events. */
export interface Webhook {
  object: 'webhook';
  id: string;
  url: string;
  description: string;
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
  disabled_reason: string | null;
  last_success_at: string | null;
  last_failure_at: string | null;
  created_at: string;
  updated_at: string;
}

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
  webhook_id: string;
  secret: string;

  /** Secrets that were replaced and still sign beside it. */
  previous: { secret: string; expires_at: string }[];
}

/** One attempt to tell an endpoint of an event. */
export interface WebhookDelivery {
  object: 'webhook_delivery';
  id: string;
  webhook_id: string;
  event_id: string;
  event_type: string;
  cause: Open<'event' | 'resend' | 'replay' | 'test'>;
  attempt: number;
  at: string;

  /** How long the call took. */
  ms: number;
  status: Open<'delivered' | 'failed'>;

  /** Null where there was no answer. */
  status_code: number | null;
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
  webhook_id: string;
  event_id: string;
  event_type: string;
  queued_at: string;
}

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
  id: string;
  webhook_id: string;
  since: string;
  until: string;
  only: Open<'failed' | 'all'>;

  /** None means all that the endpoint is told of. */
  types: string[];

  /** `done`: all of it is queued. */
  status: Open<'running' | 'done'>;

  /** Events queued so far. */
  queued: number;
  created_at: string;
  finished_at: string | null;
}

export interface NewSuppressions {
  /** One address. Not together with `emails`. */
  email?: string | undefined;

  /** Several addresses. */
  emails?: readonly string[] | undefined;

  /** `manual` where not given. */
  reason?: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual' | undefined;
  note?: string | undefined;

  /** Slug of the stream it is for; the whole account where not given. */
  stream?: string | undefined;

  /** When it ends; never where not given. */
  expires_at?: string | undefined;
}

/** An address that is not mailed. */
export interface Suppression {
  object: 'suppression';
  id: string;
  email: string;
  reason: Open<'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual'>;

  /** `account`, or `stream:` and the slug of a stream. */
  scope: string;

  /** The message whose bounce or complaint made the entry. */
  source_message_id: string | null;
  note: string | null;
  created_at: string;
  created_by: string;

  /** From then on the address is mailed again. */
  expires_at: string | null;
}

/** What became of each address, in the order of the request. */
export interface SuppressionResults {
  object: 'list';
  data: {
    /** Place in `emails`. */
    index: number;
    email: string;
    id: string | null;
    result: Open<'created' | 'existing' | 'rejected'>;
    error: { code: string; message: string; field: string | null; request_id: string } | null;
  }[];
}

/** A sending domain and the DNS records it needs. */
export interface Domain {
  object: 'domain';
  id: string;
  name: string;

  /** Mail is taken from a `verified` domain alone, also while `failing_since` is set. */
  status: Open<'pending' | 'verified' | 'failed'>;

  /** The DNS records to publish, ready to paste. */
  records: {
    purpose: Open<'dkim' | 'spf' | 'return_path' | 'dmarc' | 'tracking' | 'mx'>;
    type: string;
    host: string;
    value: string;
    required: boolean;
    status: Open<'ok' | 'missing' | 'wrong'>;

    /** What DNS answered at the last check. */
    found: string | null;
    checked_at: string | null;
  }[];

  /** An operator vouched for it: it is verified whatever DNS says, and its records are not checked. */
  trusted: boolean;
  dkim: { selector: string; algorithm: string; state: Open<'active' | 'pending' | 'retiring'> }[];
  return_path: string;
  track_opens: boolean | null;
  track_clicks: boolean | null;
  created_at: string;
  verified_at: string | null;

  /** When DNS was asked last. A record with an older `checked_at` got no answer then. */
  checked_at: string | null;

  /** Since when a required record has been missing or wrong; null where none is, or where the domain was never verified. */
  failing_since: string | null;

  /** From when on mail from it is refused. Of a `verified` domain it is the end of the countdown that began with `failing_since`. */
  refused_at: string | null;
}

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
  id: string;
  name: string;
  mode: Open<'live' | 'test'>;

  /** The part of the key that is not secret. */
  prefix: string;
  scopes: string[];

  /** Sending domains it is restricted to; none means all. */
  domains: string[];

  /** Addresses and ranges it may be used from; none means any. */
  allowed_ips: string[];
  expires_at: string | null;
  last_used_at: string | null;
  last_used_ip: string | null;

  /** Method and path, or `SMTP`. */
  last_used_endpoint: string | null;

  /** Uses in the last 24 hours, to the hour. */
  requests_24h: number;
  created_at: string;
  created_by: string;

  /** May lie in the future: then the key is good until that time. */
  revoked_at: string | null;
}

export interface NewKey {
  /** For people. */
  name: string;
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
  id: string;
  name: string;
  mode: Open<'live' | 'test'>;

  /** The part of the key that is not secret. */
  prefix: string;
  scopes: string[];

  /** Sending domains it is restricted to; none means all. */
  domains: string[];

  /** Addresses and ranges it may be used from; none means any. */
  allowed_ips: string[];
  expires_at: string | null;
  last_used_at: string | null;
  last_used_ip: string | null;

  /** Method and path, or `SMTP`. */
  last_used_endpoint: string | null;

  /** Uses in the last 24 hours, to the hour. */
  requests_24h: number;
  created_at: string;
  created_by: string;

  /** May lie in the future: then the key is good until that time. */
  revoked_at: string | null;

  /** The key itself: it is shown only in this answer. */
  key: string;
}

export interface KeyChanges {
  /** For people. */
  name?: string | undefined;
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
  id: string;
  slug: string;
  name: string;
  type: Open<'transactional' | 'broadcast'>;
  pool: string;
  priority: number;

  /** While it is, nothing is accepted for it and what waits is held. */
  paused: boolean;
  created_at: string;
}

export interface NewStream {
  /** What mails call it: lower-case letters, digits and hyphens. */
  slug: string;

  /** For people. */
  name: string;
  type: 'transactional' | 'broadcast';

  /** Name of the sources it is sent from; the default pool where the server has none of that name. */
  pool?: string | undefined;

  /** 0 goes first; 1 gets every fifth turn while mail of 0 waits. */
  priority?: number | undefined;
}

export interface StreamChanges {
  /** For people. */
  name?: string | undefined;

  /** Name of the sources it is sent from; the default pool where the server has none of that name. */
  pool?: string | undefined;

  /** 0 goes first; 1 gets every fifth turn while mail of 0 waits. */
  priority?: number | undefined;
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
  plan: string;
  limits: {
    requests_per_minute: number | null;

    /** Recipients accepted a UTC day; null means no limit. */
    mails_per_day: number | null;

    /** Recipients accepted a UTC month; null means no limit. */
    mails_per_month: number | null;

    /** Addresses in one message. */
    recipients: number;

    /** Entries of one bulk send. */
    bulk_recipients: number;
    attachments: number;
    message_bytes: number;
    body_bytes: number;
  };
  usage: { mails_today: number; mails_this_month: number };
}

export interface SettingsChanges {
  /** Null goes back to the default, false. */
  track_opens?: boolean | null | undefined;

  /** Null goes back to the default, false. */
  track_clicks?: boolean | null | undefined;

  /** At most what the server keeps; null goes back to the server's own. */
  retention?:
    | {
        content_days?: number | null | undefined;
        messages_days?: number | null | undefined;
        events_days?: number | null | undefined;
      }
    | undefined;
}

/** Numbers of a range of time. */
export interface Stats {
  object: 'stats';
  bucket: Open<'hour' | 'day' | 'total'>;
  by: Open<'stream' | 'tag' | 'domain' | 'provider' | 'template'> | null;
  since: string;
  until: string;
  total: StatCounts;
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
  sent: number;
  delivered: number;
  deferred: number;
  bounced: number;
  bounced_hard: number;
  bounced_soft: number;
  bounced_block: number;
  complained: number;
  suppressed: number;
  failed: number;
  opened: number;
  unique_opened: number;
  machine_opened: number;
  clicked: number;
  unique_clicked: number;
  machine_clicked: number;
  unsubscribed: number;
}

/** One use of a key. */
export interface AuditEntry {
  object: 'audit_entry';
  id: string;
  at: string;
  key_id: string | null;

  /** `key:` and the name of the key, `member:` and the address of a person, `operator`, or `webhook:` and the id of an endpoint that was disabled. */
  actor: string;
  ip: string | null;
  method: string;

  /** The path as the description names it, such as `/v1/messages/{id}`. */
  endpoint: string;

  /** HTTP status of the answer. */
  status: number;
  result: Open<'ok' | 'refused' | 'failed' | 'idempotency_mismatch'>;
  error_code: string | null;
  request_id: string;

  /** How long it took, in milliseconds. */
  ms: number;
  idempotency_replayed: boolean;
  user_agent: string | null;
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

      /** Statuses, separated by commas. */
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

      /** Tag; repeat it for several, which must all be there. */
      tag?: readonly string[] | undefined;

      /** `metadata[order]=17`: exact values. */
      metadata?: Readonly<Record<string, string>> | undefined;
      template_id?: string | undefined;
      batch_id?: string | undefined;
      stream?: string | undefined;

      /** The sending domain. */
      domain?: string | undefined;
      rfc_message_id?: string | undefined;

      /** The request that the messages came with, as `X-Request-Id` of its answer names it. */
      request_id?: string | undefined;

      /** From this time on. */
      created_after?: string | undefined;

      /** Before this time. */
      created_before?: string | undefined;
      opened?: boolean | undefined;
      clicked?: boolean | undefined;
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

  /** List what came back for a message */
  listMessageReports: { answer: ReportList };

  /** Read a mail that came back */
  getMessageReport: { answer: undefined };

  /** Read the source of a message */
  getMessageRaw: { answer: undefined };

  /** Erase a person */
  deleteRecipient: { answer: undefined };

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

  /** Register a webhook endpoint */
  createWebhook: { body: NewWebhook; answer: CreatedWebhook };

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

      /** Kinds, separated by commas. Without it: sent, delivered, opened, clicked, bounced, complained. */
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
      message_id?: string | undefined;
      recipient?: string | undefined;
      batch_id?: string | undefined;
      tag?: string | undefined;

      /** From this time on. */
      occurred_after?: string | undefined;

      /** Before this time. */
      occurred_before?: string | undefined;
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
      stream?: string | undefined;
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
      key_id?: string | undefined;

      /** `key:` and the name of a key, `member:` and an address, or `operator`. */
      actor?: string | undefined;

      /** `key`: uses of keys; `person`: what people did in the dashboard or as operator. */
      by?: 'key' | 'person' | undefined;

      /** In any case; commands have `CLI`. */
      method?: string | undefined;

      /** As the entries show it. */
      endpoint?: string | undefined;
      status?: number | undefined;
      result?: 'ok' | 'refused' | 'failed' | 'idempotency_mismatch' | undefined;
      ip?: string | undefined;
      request_id?: string | undefined;

      /** From this time on. */
      since?: string | undefined;

      /** Before this time. */
      until?: string | undefined;
    };
    answer: Page<AuditEntry>;
  };

  /** Read this document */
  getOpenapi: { answer: Record<string, unknown> };
}
