/** Webhook endpoints, and the verification of calls to them. */
import type { Call } from './call.ts';
import type { EventType, MailEvent } from './event.ts';
import { entriesOf } from './pages.ts';
import { Resource, type PostOptions, type RequestOptions } from './transport.ts';
import type {
  CreatedWebhook,
  NewWebhook,
  NewWebhookReplay,
  Operations,
  Webhook,
  WebhookChanges,
  WebhookDelivery,
  WebhookReplay,
  WebhookResend,
  WebhookSecret,
} from './types.ts';
import { at } from './url.ts';
import { verifyWebhook, type VerifyOptions, type WebhookHeaders } from './webhook-signature.ts';

type List = Operations['listWebhooks'];
type Deliveries = Operations['listWebhookDeliveries'];
type Replays = Operations['listWebhookReplays'];

export class Webhooks extends Resource {
  /** Returns the event of a verified call to your endpoint. Throws WebhookError. See `verifyWebhook`. */
  verify(
    rawBody: string | Uint8Array,
    headers: WebhookHeaders,
    secret: string | readonly string[],
    options?: VerifyOptions,
  ): Promise<MailEvent> {
    return verifyWebhook(rawBody, headers, secret, options);
  }

  /** Registers an endpoint. The answer has its secret. */
  create(body: NewWebhook, options?: PostOptions): Call<CreatedWebhook> {
    return this.transport.call('POST', '/v1/webhooks', { body, options });
  }

  get(id: string, options?: RequestOptions): Call<Webhook> {
    return this.transport.call('GET', at`/v1/webhooks/${id}`, { options });
  }

  /** Returns one page. */
  list(query?: List['query'], options?: RequestOptions): Call<List['answer']> {
    return this.transport.call('GET', '/v1/webhooks', { query, options });
  }

  /** Returns all endpoints, page after page. */
  each(query?: List['query'], options?: RequestOptions): AsyncGenerator<Webhook, void, undefined> {
    return entriesOf((after) => this.list({ ...query, after }, options), query?.after);
  }

  /** Changes an endpoint; also pauses and resumes it: `{ enabled: false }`. */
  update(id: string, body: WebhookChanges, options?: RequestOptions): Call<Webhook> {
    return this.transport.call('PATCH', at`/v1/webhooks/${id}`, { body, options });
  }

  delete(id: string, options?: RequestOptions): Call<undefined> {
    return this.transport.call('DELETE', at`/v1/webhooks/${id}`, { options });
  }

  /** Returns one page of the calls of the last 30 days: what was sent, what the endpoint answered. */
  deliveries(id: string, query?: Deliveries['query'], options?: RequestOptions): Call<Deliveries['answer']> {
    return this.transport.call('GET', at`/v1/webhooks/${id}/deliveries`, { query, options });
  }

  /** Makes one call again. */
  resend(id: string, deliveryId: string, options?: PostOptions): Call<WebhookResend> {
    return this.transport.call('POST', at`/v1/webhooks/${id}/deliveries/${deliveryId}/resend`, { options });
  }

  /** Calls the endpoint with a sample event and returns the result. */
  test(id: string, body: { type?: EventType | undefined } = {}, options?: PostOptions): Call<WebhookDelivery> {
    return this.transport.call('POST', at`/v1/webhooks/${id}/test`, { body, options });
  }

  /** Sends the events of a time span again, in the background. */
  replay(id: string, body: NewWebhookReplay, options?: PostOptions): Call<WebhookReplay> {
    return this.transport.call('POST', at`/v1/webhooks/${id}/replay`, { body, options });
  }

  /** Returns one page of the replays with their progress. */
  replays(id: string, query?: Replays['query'], options?: RequestOptions): Call<Replays['answer']> {
    return this.transport.call('GET', at`/v1/webhooks/${id}/replays`, { query, options });
  }

  secret(id: string, options?: RequestOptions): Call<WebhookSecret> {
    return this.transport.call('GET', at`/v1/webhooks/${id}/secret`, { options });
  }

  /** Makes a new secret. Calls are signed with both for 24 hours. */
  rotateSecret(id: string, options?: PostOptions): Call<WebhookSecret> {
    return this.transport.call('POST', at`/v1/webhooks/${id}/secret/rotate`, { options });
  }
}
