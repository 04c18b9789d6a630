/** The client: settings once, then a group of methods for each kind of record. */
import { type Call, Transport, type RequestOptions } from './transport.ts';
import { Groups } from './operations.ts';
import { Events, Messages, Suppressions, Webhooks } from './resources.ts';
import { surroundings, type Surroundings } from './surroundings.ts';
import { madeFor } from './version.ts';

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
