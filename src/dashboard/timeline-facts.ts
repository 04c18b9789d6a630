/** Words of the time line of a message: what an attempt, an event and a webhook call say. Pure. */
import type { Attempt, AuditEntry, WebhookDelivery } from '../client/types.ts';
import { linkTo } from './links.ts';
import type { Call } from './timeline.ts';

export interface Step {
  name: string;
  ms: number;
}

/** Says by whom a message was sent and through which door. `request` is null if the audit log no longer has it. */
export function acceptedTitle(request: Pick<AuditEntry, 'actor' | 'method'> | null): string {
  if (request === null) return 'by Posthorn';
  const { actor, method } = request;
  if (actor.startsWith('key:'))
    return `by the key ${actor.slice(4)} ${method === 'SMTP' ? 'over SMTP' : 'over the API'}`;
  if (actor.startsWith('member:')) return `by ${actor.slice(7)} in the dashboard`;
  return method === 'CLI' ? `by ${actor} on the command line` : `by ${actor}`;
}

export function attemptFacts({ mx, ip, class: kind, reason, tls, source }: Attempt): string[] {
  const host = mx === null ? null : `${mx}${ip === null ? '' : ` (${ip})`}`;
  return [
    ...(host === null
      ? []
      : [`${host}, ${tls === null ? 'without TLS' : `${tls.protocol}${tls.verified ? ', verified' : ''}`}`]),
    ...(source === null ? [] : [`sent from ${source}`]),
    ...(reason === null ? [] : [`${kind === null ? '' : `${kind}: `}${reason.replaceAll('_', ' ')}`]),
  ];
}

const steps = {
  dns: 'DNS',
  connect: 'Connection',
  banner: 'Greeting and EHLO',
  tls: 'STARTTLS and handshake',
  mail: 'MAIL FROM',
  rcpt: 'RCPT TO',
  data: 'DATA',
  dot: 'The mail, up to the answer to its final dot',
} as const;

/** Returns the steps that took place; a mail over an open connection has no connection of its own. */
export function dialogueOf({ timings_ms: timings, tls }: Pick<Attempt, 'timings_ms' | 'tls'>): {
  steps: Step[];
  tls: string | null;
} {
  const names = Object.keys(steps) as (keyof typeof steps)[];
  return {
    steps: names
      .filter((name) => timings[name] > 0)
      .map((name) => ({ name: steps[name], ms: Number(timings[name].toFixed(1)) })),
    tls: tls === null ? null : `${tls.protocol}, ${tls.cipher}, policy ${tls.policy}`,
  };
}

const verbs: Readonly<Record<string, string>> = {
  sent: 'A first attempt has begun',
  delivered: 'Delivered',
  deferred: 'Not accepted yet',
  opened: 'Opened',
  clicked: 'A link was followed',
  bounced: 'Bounced',
  complained: 'Reported as spam',
  suppressed: 'Not sent: the address is on the suppression list',
  failed: 'Given up',
  unsubscribed: 'Unsubscribed',
  received: 'Answered',
};

/** Returns what happened in words. `recipient` is null if the message has only one. */
export function eventTitle(type: string, recipient: string | null, detail: Readonly<Record<string, unknown>>): string {
  const late = type === 'bounced' && detail['async'] === true ? ' later, by mail' : '';
  return `${verbs[type] ?? type}${late}${recipient === null ? '' : `: ${recipient}`}`;
}

export function eventFacts(detail: Readonly<Record<string, unknown>>): string[] {
  const text = (name: string): string | null => {
    const value = detail[name];
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const facts = [
    text('url'),
    text('reason')?.replaceAll('_', ' '),
    text('message'),
    [text('client'), text('os'), text('device')].filter((one) => one !== null).join(', ') || null,
    text('ip'),
    text('user_agent'),
    detail['is_bot'] === true ? `by a machine (${text('bot') ?? 'unknown'}), not counted` : null,
  ];
  return facts.filter((one) => one != null);
}

/** Returns a call with the link to all calls to this endpoint for this event. */
export function calledBy(call: WebhookDelivery, endpoints: ReadonlyMap<string, string>, now: number): Call {
  const { webhook_id: id, event_id: event, next_attempt_at: next } = call;
  return {
    href: `${linkTo(`/webhooks/${id}`, new URLSearchParams({ event_id: event }))}#deliveries`,
    endpoint: endpoints.get(id) ?? id,
    type: call.event_type,
    status: call.status,
    code: call.status_code,
    error: call.error,
    attempt: call.attempt,
    ms: call.ms,
    next: next !== null && Date.parse(next) > now ? next : null,
  };
}
