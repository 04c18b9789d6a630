/** Records of webhook endpoints and of the calls to them. */
import type { EventType } from './event.ts';
import type { Open } from './types.ts';

/** An endpoint that is told of events. */
export interface Webhook {
  object: 'webhook';
  id: string;
  url: string;
  description: string;
  events: Open<EventType>[];
  /** Only events of mail in these streams; empty: all. */
  streams: string[];
  /** Only events of mail from these domains; empty: all. */
  domains: string[];
  /** Whether opens and clicks of machines are told too. */
  include_machine_events: boolean;
  /** Whether bodies carry the address and user agent of who opened or clicked. */
  include_engagement: boolean;
  /** Calls at once; with 1 events come strictly in order. */
  concurrency: number;
  /** Names of the endpoint's own headers; their values are not shown. */
  header_names: string[];
  status: Open<'active' | 'paused' | 'disabled'>;
  disabled_reason: string | null;
  last_success_at: string | null;
  last_failure_at: string | null;
  created_at: string;
  updated_at: string;
}

/** As it is created: the only answer with the secret, besides those that reveal or rotate it. */
export interface CreatedWebhook extends Webhook {
  /** `whsec_` and base64: what `webhooks.verify` wants. */
  secret: string;
}

export interface NewWebhook {
  url: string;
  /** The six usual kinds where not given; `*` means the same. */
  events?: readonly (EventType | '*')[] | undefined;
  description?: string | undefined;
  streams?: readonly string[] | undefined;
  domains?: readonly string[] | undefined;
  include_machine_events?: boolean | undefined;
  /** Needs a key with `event:engagement`. */
  include_engagement?: boolean | undefined;
  /** Calls at once, 1 to 10; with 1 events come strictly in order. */
  concurrency?: number | undefined;
  /** Up to 10 headers for every call; stored encrypted. */
  headers?: Readonly<Record<string, string>> | undefined;
  enabled?: boolean | undefined;
}

export type WebhookChanges = Partial<NewWebhook>;

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
  /** The first 4 KiB of the answer. */
  answer: string | null;
  /** When it is tried again; null where it is not. */
  next_attempt_at: string | null;
  /** The signed request as a curl command. */
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
