/** The client: settings once, then a group of methods for each kind of record. */
import { Audit, Settings } from './account.ts';
import { Batches } from './batches.ts';
import type { Call } from './call.ts';
import { Domains } from './domains.ts';
import { Events } from './events.ts';
import { Keys } from './keys.ts';
import { Messages } from './messages.ts';
import { Recipients, Stats } from './stats.ts';
import { Streams } from './streams.ts';
import { Suppressions } from './suppressions.ts';
import { surroundings, type Surroundings } from './surroundings.ts';
import { Templates } from './templates.ts';
import { Transport, type RequestOptions } from './transport.ts';
import { madeFor } from './version.ts';
import { Webhooks } from './webhooks.ts';

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

export class MailClient {
  readonly messages: Messages;
  readonly batches: Batches;
  readonly templates: Templates;
  readonly suppressions: Suppressions;
  readonly webhooks: Webhooks;
  readonly events: Events;
  readonly domains: Domains;
  readonly keys: Keys;
  readonly streams: Streams;
  readonly settings: Settings;
  readonly audit: Audit;
  readonly stats: Stats;
  readonly recipients: Recipients;
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
    this.messages = new Messages(transport);
    this.batches = new Batches(transport);
    this.templates = new Templates(transport);
    this.suppressions = new Suppressions(transport);
    this.webhooks = new Webhooks(transport);
    this.events = new Events(transport);
    this.domains = new Domains(transport);
    this.keys = new Keys(transport);
    this.streams = new Streams(transport);
    this.settings = new Settings(transport);
    this.audit = new Audit(transport);
    this.stats = new Stats(transport);
    this.recipients = new Recipients(transport);
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
