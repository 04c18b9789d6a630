/** The client: settings once, then a group of methods for each kind of record. */
import { type Call, Transport, type RequestOptions, type PostOptions, at } from './transport.ts';
import { Groups } from './operations.ts';
import * as made from './operations.ts';
import { surroundings, type Surroundings } from './surroundings.ts';
import { madeFor } from './version.ts';
import type { EventType, MailEvent } from './event.ts';
import type {
  Batch,
  BulkMessage,
  Message,
  NewSuppressions,
  Operations,
  Page,
  SingleMessage,
  Suppression,
  SuppressionResults,
  WebhookDelivery,
} from './types.ts';
import { verifyWebhook, type VerifyOptions, type WebhookHeaders } from './webhook-signature.ts';

class Messages extends made.Messages {
  /** Sends one mail. The content of a file is base64, or bytes. */
  send(body: WithBytes<SingleMessage>, options?: PostOptions): Call<Message> {
    return this.transport.call('POST', '/v1/messages', { body: withBase64(body), options });
  }

  /** Sends a message to each of `recipients`. Refused entries have an error: `data[n].error`. */
  sendBulk(body: WithBytes<BulkMessage>, options?: PostOptions): Call<Batch> {
    return this.transport.call('POST', '/v1/messages', { body: withBase64(body), options });
  }
}

type Query = Operations['listEvents']['query'];

/** Seconds that the service waits for a new event, its limit. */
const LONGEST_WAIT_S = 30;

class Events extends made.Events {
  /** Returns one page, oldest first. `next_cursor` is always set: it is the position reached. */
  override list(query?: Query, options?: RequestOptions): Call<Page<MailEvent>> {
    const serverWaitMs = 1000 * (query?.wait ?? 0);
    return this.transport.call('GET', '/v1/events', { query, options, serverWaitMs });
  }

  /**
   * Returns all events, or those after `after` (a cursor or an event id), and then each new one as it happens. Ends only when
   * the loop is left, the signal aborts or all tries of a request have failed; to continue, store the id of the last event.
   */
  async *stream(query?: Omit<Query, 'before'>, options?: RequestOptions): AsyncGenerator<MailEvent, void, undefined> {
    let after = query?.after;
    for (;;) {
      const page: Page<MailEvent> = await this.list({ wait: LONGEST_WAIT_S, ...query, after }, options);
      yield* page.data;
      after = page.next_cursor ?? after;
    }
  }
}

type OneAddress = Omit<NewSuppressions, 'emails' | 'email'> & { email: string };
type ManyAddresses = Omit<NewSuppressions, 'emails' | 'email'> & { emails: readonly string[] };

class Suppressions extends made.Suppressions {
  /** Adds an address; if it is already on the list, returns the old entry. */
  create(body: OneAddress, options?: PostOptions): Call<Suppression> {
    return this.transport.call('POST', '/v1/suppressions', { body, options });
  }

  /** Adds up to 1,000 addresses; `data[n].result` has the result of each. */
  createMany(body: ManyAddresses, options?: PostOptions): Call<SuppressionResults> {
    return this.transport.call('POST', '/v1/suppressions', { body, options });
  }
}

class Webhooks extends made.Webhooks {
  /** Returns the event of a verified call to your endpoint. Throws WebhookError. See `verifyWebhook`. */
  verify(
    rawBody: string | Uint8Array,
    headers: WebhookHeaders,
    secret: string | readonly string[],
    options?: VerifyOptions,
  ): Promise<MailEvent> {
    return verifyWebhook(rawBody, headers, secret, options);
  }

  /** Calls the endpoint with a sample event and returns the result. */
  test(id: string, body: { type?: EventType | undefined } = {}, options?: PostOptions): Call<WebhookDelivery> {
    return this.transport.call('POST', at`/v1/webhooks/${id}/test`, { body, options });
  }
}

/** A send request whose files may be bytes, such as what `readFile` gives. */
type WithBytes<Body> = Body extends { attachments?: readonly (infer File)[] | null | undefined }
  ? Omit<Body, 'attachments' | 'recipients'> & {
      attachments?: readonly FileWithBytes<File>[] | null | undefined;
    } & (Body extends { recipients: readonly (infer Entry)[] } ? { recipients: readonly WithBytes<Entry>[] } : unknown)
  : Body;

type FileWithBytes<File> = Omit<File, 'content'> & { content: string | Uint8Array };

interface HasFiles {
  attachments?: readonly { content?: unknown }[] | null | undefined;
  recipients?: readonly unknown[] | null | undefined;
}

/** Returns the body with base64 in place of bytes. */
function withBase64(body: object): object {
  const { attachments, recipients } = body as HasFiles;
  return {
    ...body,
    ...(Array.isArray(attachments) ? { attachments: attachments.map(encoded) } : {}),
    ...(Array.isArray(recipients)
      ? { recipients: recipients.map((one) => (isObject(one) ? withBase64(one) : (one as unknown))) }
      : {}),
  };
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

function encoded(file: unknown): unknown {
  if (!isObject(file) || !('content' in file) || !(file.content instanceof Uint8Array)) return file;
  return { ...file, content: base64(file.content) };
}

/** Characters that one call makes: arguments are limited. */
const AT_ONCE = 0x8000;

function base64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += AT_ONCE) text += String.fromCharCode(...bytes.subarray(at, at + AT_ONCE));
  return btoa(text);
}

export interface MailClientOptions {
  /** `ak_live_…` or `ak_test_…`; by default POSTHORN_API_KEY of the environment. */
  apiKey?: string | undefined;
  /** The address of the service without `/v1`: `https://mail.example.com`; by default POSTHORN_BASE_URL of the environment. */
  baseUrl?: string | undefined;
  /** Milliseconds for one try; 30,000 by default. */
  timeoutMs?: number | undefined;
  /** Tries after the first, of requests that failed with a network fault, 429 or 5xx; 3 by default. */
  maxRetries?: number | undefined;
  /** Replaces the runtime's `fetch`: for a proxy, or for tests. */
  fetch?: typeof fetch | undefined;
  /** Added to our own name in User-Agent: `shop/2.1`. */
  userAgent?: string | undefined;
}

export class MailClient extends Groups {
  override readonly messages: Messages;
  override readonly events: Events;
  override readonly suppressions: Suppressions;
  override readonly webhooks: Webhooks;
  readonly #transport: Transport;

  /** Throws a TypeError if key or address is missing or malformed. `around` is for tests. */
  constructor(options: MailClientOptions = {}, around: Surroundings = surroundings) {
    const transport = new Transport(
      {
        apiKey: given('apiKey', options.apiKey ?? around.environment('POSTHORN_API_KEY'), 'POSTHORN_API_KEY'),
        baseUrl: addressOf(
          given('baseUrl', options.baseUrl ?? around.environment('POSTHORN_BASE_URL'), 'POSTHORN_BASE_URL'),
        ),
        timeoutMs: options.timeoutMs ?? 30_000,
        maxRetries: options.maxRetries ?? 3,
        userAgent: [`posthorn-client/${madeFor}`, options.userAgent].filter(Boolean).join(' '),
      },
      options.fetch === undefined ? around : { ...around, fetch: options.fetch },
    );
    super(transport);
    this.messages = new Messages(transport);
    this.events = new Events(transport);
    this.suppressions = new Suppressions(transport);
    this.webhooks = new Webhooks(transport);
    this.#transport = transport;
  }

  /** Returns the OpenAPI document of the service. */
  openapi(options?: RequestOptions): Call<Record<string, unknown>> {
    return this.#transport.call('GET', '/v1/openapi.json', { options });
  }
}

function given(option: string, value: string | undefined, variable: string): string {
  if (value === undefined || value === '')
    throw new TypeError(`MailClient needs \`${option}\`, or ${variable} in the environment`);
  return value;
}

function addressOf(baseUrl: string): string {
  if (!URL.canParse(baseUrl) || !/^https?:$/.test(new URL(baseUrl).protocol))
    throw new TypeError(`\`baseUrl\` must be an http or https address, not ${JSON.stringify(baseUrl)}`);
  // The paths of the API begin with its version.
  return new URL(baseUrl).href.replace(/\/+$/, '').replace(/\/v1$/, '');
}
