/** An endpoint as the rest of this folder uses it: the events it wants, how it is called, and its record in the API. Pure. */
import { fitsAddress } from '../base/address-pattern.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { eventTypes, type EventSource, type EventType, type StoredReceived } from '../events/event.ts';
import { recordOf } from '../storage/record.ts';
import { webhooks, type WebhookRow } from '../storage/tables.ts';

/** A secret and until when it signs, milliseconds since the epoch; null for the one that is in force. */
export interface EndpointSecret {
  secret: Buffer;
  until: number | null;
}

type Settings = 'url' | 'include_machine_events' | 'include_engagement' | 'concurrency';

export interface Endpoint extends Readonly<Pick<WebhookRecord, 'id' | Settings>> {
  readonly accountId: string;
  readonly events: ReadonlySet<string>;
  readonly streams: readonly string[];
  readonly domains: readonly string[];
  readonly addresses: readonly string[];
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly secrets: readonly EndpointSecret[];
}

export type Choice = Pick<Endpoint, 'events' | 'streams' | 'domains' | 'addresses' | 'include_machine_events'>;

/** True for an event that this endpoint gets. Opens and clicks of machines are sent only if they were asked for. */
export function wants(
  choice: Choice,
  event: Pick<EventSource, 'type' | 'machine' | 'stream' | 'from_address' | 'detail_json'>,
): boolean {
  if (!choice.events.has(event.type)) return false;
  if (event.machine === 1 && !choice.include_machine_events) return false;
  if (choice.streams.length > 0 && !choice.streams.includes(event.stream)) return false;
  if (event.type === 'received') return wantsReceived(choice, JSON.parse(event.detail_json) as StoredReceived);
  if (choice.domains.length === 0) return true;
  return choice.domains.includes(event.from_address.slice(event.from_address.lastIndexOf('@') + 1));
}

function wantsReceived({ domains, addresses }: Choice, { domain, envelope }: StoredReceived): boolean {
  if (domains.length > 0 && !domains.includes(domain)) return false;
  return addresses.length === 0 || envelope.to.some((to) => addresses.some((pattern) => fitsAddress(pattern, to)));
}

/** Returns the kinds that were asked for in the order of the contract, each once; `*` means those that every endpoint gets. */
export function chosenTypes(asked: readonly string[], all: readonly EventType[]): EventType[] {
  const wanted = new Set<string>(asked.flatMap((type) => (type === '*' ? eventTypes : [type])));
  return all.filter((type) => wanted.has(type));
}

/** Returns the secrets that sign now, the newest first. */
export function validSecrets(secrets: readonly EndpointSecret[], now: number): Buffer[] {
  return secrets.filter(({ until }) => until === null || until > now).map(({ secret }) => secret);
}

export const webhookMembers = recordOf('webhook', webhooks);

export type WebhookRecord = ReturnType<typeof webhookRecord>;

/** Returns the API's webhook record; `nextDueAt` is when the next call that waits is due. */
export function webhookRecord(row: WebhookRow, nextDueAt: number | null) {
  const isCalled = row.status === 'active' && nextDueAt !== null;
  const next = isCalled ? Math.max(nextDueAt, row.rests_until ?? 0) : null;
  return webhookMembers(row, { next_attempt_at: rfc3339(next) });
}
