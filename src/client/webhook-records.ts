/** Records of webhook endpoints and of the calls to them. */
import type { EventType } from './event.ts';
import type { Open } from './types.ts';

/** An endpoint that is told of events. */
export interface Webhook {
  object: 'webhook';
  id: string;
  url: string;
  description: string | null;
  events: Open<EventType>[];
  /** Only events of mail in these streams; empty: all. */
  streams: string[];
  /** Only events of mail from these domains; empty: all. */
  domains: string[];
  /** Whether opens and clicks of machines are told too. */
  include_machine_events: boolean;
  /** Whether bodies carry the address and user agent of who opened or clicked. */
  include_engagement: boolean;
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
  description?: string | null | undefined;
  streams?: readonly string[] | undefined;
  domains?: readonly string[] | undefined;
  include_machine_events?: boolean | undefined;
  /** Needs a key with `event:engagement`. */
  include_engagement?: boolean | undefined;
  /** Up to 10 headers for every call; stored encrypted. */
  headers?: Readonly<Record<string, string>> | undefined;
  enabled?: boolean | undefined;
}

export type WebhookChanges = Partial<NewWebhook>;

export interface WebhookSecret {
  object: 'webhook_secret';
  secret: string;
}
