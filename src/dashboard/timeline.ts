/**
 * The history of a message as one list in the order of time: acceptance, attempts, events, mails that came back, suppressions, and last
 * what it waits for. Each fact stands once: an event that only repeats an attempt or a mail that came back is joined with it. Pure.
 */
import type {
  Attempt,
  AuditEntry,
  EventRecord,
  MessageDetails,
  Report,
  Suppression,
  WebhookDelivery,
  Why,
} from '../client/types.ts';
import { pluralize } from '../base/pluralize.ts';
import { linkTo } from './links.ts';
import { answerText, browserText } from './words.ts';

export interface Moment {
  /** Null for what holds now. */
  at: string | null;
  /** Event type, outcome or status, shown as the badge. */
  what: string;
  title: string;
  reply?: string | null;
  facts: string[];
  links: { href: string; text: string }[];
  /** The times of the steps of the SMTP dialogue, shown on request. */
  dialogue?: { id: string; steps: readonly { name: string; ms: number }[]; tls: string | null };
  /** Calls to webhook endpoints about it. */
  calls: Call[];
  /** Shown on request: opens and clicks by scanners and proxies, or attempts with the same answer. */
  folded?: { at: string; what: string; facts: string }[];
  /** The wait that holds now: its beginning, its end at the earliest, and who set it. */
  wait?: { since: string | null; until: string | null; by: string | null };
  /** The path of a mail that came back. */
  report?: string;
  /** The report is not verified and can be confirmed by hand. */
  isUnverified?: boolean;
}

/** The last call to an endpoint about one event. */
type Call = WebhookDelivery & { href: string; endpoint: string; isPlanned: boolean };

/** Everything that is known about a message. */
export interface History {
  message: MessageDetails;
  reports: readonly Report[];
  suppressions: readonly Suppression[];
  calls: readonly WebhookDelivery[];
  /** The address of each webhook endpoint, by its id. */
  endpoints: ReadonlyMap<string, string>;
  /** The request that it came with, as long as the audit log has it. */
  request: AuditEntry | null;
  waits: Why['recipients'];
  /** The path of the message's page. */
  here: string;
  now: number;
}

/** Returns the moments in the order of time; what it waits for comes last. */
export function timelineOf(history: History): Moment[] {
  const { message, reports, here } = history;
  const isOne = message.recipients.length === 1;
  const attempts = message.attempts.map((attempt) => ({ attempt, moment: attemptMoment(attempt, isOne) }));
  const unmatched = new Set(reports);
  const isOfMachine = (event: EventRecord): boolean => detailOf(event)['is_bot'] === true;
  const machines = message.events.filter(isOfMachine);
  const events = message.events
    .filter((event) => !isOfMachine(event))
    .map((event) => {
      const attempt = attempts.findLast((one) => isSame(one.attempt, event));
      const report = [...unmatched].find((one) => isCause(one, event));
      if (report !== undefined) unmatched.delete(report);
      return {
        event,
        moment: attempt === undefined ? eventMoment(event, isOne, history, report) : joined(attempt.moment, event),
      };
    });
  for (const { event, moment } of events) moment.calls.push(...callsOf(history, event.id));
  const past = [
    acceptedMoment(history),
    ...foldedAttempts(attempts),
    ...new Set(events.map(({ moment }) => moment).filter((moment) => !attempts.some((one) => one.moment === moment))),
    ...[...unmatched].map((report) => reportMoment(report, here, isOne)),
    ...history.suppressions.map(suppressionMoment),
    ...machinesMoment(history, machines),
  ].sort((a, b) => timeOf(a) - timeOf(b));
  return [...past, ...waitMoments(history)];
}

const timeOf = ({ at }: Moment): number => (at === null ? Infinity : Date.parse(at));

const bare = (): Pick<Moment, 'facts' | 'links' | 'calls'> => ({ facts: [], links: [], calls: [] });

function acceptedMoment({ message, request }: History): Moment {
  return {
    ...bare(),
    at: message.created_at,
    what: 'accepted',
    title: acceptedTitle(request),
    facts: request?.ip == null ? [] : [`from ${request.ip}`],
    links: request === null ? [] : [{ href: `/developer/log/${request.id}`, text: request.request_id }],
  };
}

/** Opens and clicks by machines say nothing of the recipient: they are one moment, with the time of the first. */
function machinesMoment(history: History, events: readonly EventRecord[]): Moment[] {
  const [first] = events;
  if (first === undefined) return [];
  const lines = events.map((event) => ({
    at: event.timestamp,
    what: event.type,
    facts: eventFacts(detailOf(event)).join(', '),
  }));
  const title = `${pluralize(events.length, 'open or click', 'opens and clicks')} by machines, not counted`;
  const calls = events.flatMap(({ id }) => callsOf(history, id));
  return [{ ...bare(), at: first.timestamp, what: '', title, calls, folded: lines }];
}

function attemptMoment(attempt: Attempt, isOne: boolean): Moment {
  const { id, number, mx, recipient, outcome, smtp_code: code, smtp_reply: reply, ended_at: at } = attempt;
  return {
    ...bare(),
    at,
    what: outcome === 'accepted' ? 'delivered' : outcome,
    title: [
      number > 1 ? `attempt ${String(number)}` : '',
      mx === null ? '' : `at ${mx}`,
      isOne ? '' : `for ${recipient}`,
    ]
      .filter((part) => part !== '')
      .join(' '),
    reply: reply === null ? null : answerText(code, reply),
    facts: attemptFacts(attempt),
    dialogue: { id: `dialogue-${id}`, ...dialogueOf(attempt) },
  };
}

/** Returns the moments of attempts; what was deferred again with the same answer is one moment, that of the last. */
function foldedAttempts(attempts: readonly { attempt: Attempt; moment: Moment }[]): Set<Moment> {
  const shown = new Set<Moment>();
  const last = new Map<string, { moment: Moment; lines: NonNullable<Moment['folded']> }>();
  for (const { attempt, moment } of attempts) {
    const before = last.get(attempt.recipient);
    const lines = [{ at: attempt.ended_at, what: moment.title, facts: moment.facts.join(', ') }];
    if (moment.what === 'deferred' && before?.moment.what === 'deferred' && moment.reply === before.moment.reply) {
      lines.unshift(...before.lines);
      moment.title = `${String(lines.length)} times with the same answer, last in ${moment.title}`;
      moment.folded = lines;
      moment.calls.unshift(...before.moment.calls);
      shown.delete(before.moment);
    }
    shown.add(moment);
    last.set(attempt.recipient, { moment, lines });
  }
  return shown;
}

/** Returns whether the event only says how the attempt ended. */
function isSame(attempt: Attempt, { type, timestamp, data }: EventRecord): boolean {
  if (attempt.recipient !== data.recipient) return false;
  const number = data.sent?.attempt ?? data.delivered?.attempt ?? data.deferred?.attempt;
  if (number !== undefined) return attempt.number === number;
  const isImmediate = type === 'bounced' && data.bounced?.async === false;
  return isImmediate && attempt.outcome === 'refused' && Date.parse(attempt.ended_at) <= Date.parse(timestamp);
}

/** Adds to the moment of an attempt what its event says beyond it. */
function joined(moment: Moment, { type, data }: EventRecord): Moment {
  if (type === 'bounced') moment.what = 'bounced';
  if (data.delivered?.via_relay === true) moment.facts.push('a smarthost took it, which delivers it further');
  return moment;
}

const causes: Readonly<Record<string, Report['kind']>> = {
  bounced: 'bounce',
  complained: 'complaint',
  unsubscribed: 'unsubscribe',
};

/** Returns whether the event was recorded because of this mail. */
const isCause = (
  { kind, recipient, verified, received_at: at }: Report,
  { type, timestamp, data }: EventRecord,
): boolean =>
  verified &&
  kind !== null &&
  causes[type] === kind &&
  recipient === data.recipient &&
  Date.parse(at) <= Date.parse(timestamp);

function eventMoment(event: EventRecord, isOne: boolean, { message, here }: History, report?: Report): Moment {
  const { type, timestamp: at, data } = event;
  const detail = detailOf(event);
  const isRepeated = message.attempts.some(({ smtp_reply: reply }) => reply !== null && reply === detail['smtp_reply']);
  const reply = isRepeated ? null : answerText(detail['smtp_code'], detail['smtp_reply']);
  const facts = [
    ...(type === 'received' ? [] : eventFacts(detail)),
    ...(report === undefined ? [] : [`by a mail ${fromWhom(report.sender)}`]),
  ];
  return {
    ...bare(),
    at,
    what: type,
    title: eventTitle(type, isOne ? null : type === 'received' ? data.from : data.recipient, detail),
    reply,
    facts,
    ...(type === 'received'
      ? { links: [{ href: `/messages/received/${String(detail['id'])}`, text: data.subject || 'the mail' }] }
      : {}),
    ...(report === undefined ? {} : { report: `${here}/reports/${report.id}` }),
  };
}

/** Returns the member of an event that has the name of its type. */
export const detailOf = ({ type, data }: Pick<EventRecord, 'type' | 'data'>): Readonly<Record<string, unknown>> =>
  ((data as unknown as Record<string, unknown>)[type] ?? {}) as Record<string, unknown>;

const fromWhom = (sender: string): string => (sender === '' ? 'from the null sender' : `from ${sender}`);

function reportMoment(report: Report, here: string, isOne: boolean): Moment {
  const { id, kind, received_at: at, recipient, sender, verified } = report;
  return {
    ...bare(),
    at,
    what: kind?.replace('_', ' ') ?? 'not read yet',
    title: `A mail came back${isOne ? '' : ` for ${recipient}`}`,
    facts: [
      fromWhom(sender),
      ...(verified ? [] : ['unverified: nothing proves that it is true, so nothing was changed']),
    ],
    report: `${here}/reports/${id}`,
    isUnverified: !verified,
  };
}

/** Returns the last call to each endpoint about an event, with the link to all calls to it about the event. */
function callsOf({ calls, endpoints, now }: History, eventId: string): Call[] {
  const last = new Map(calls.filter((call) => call.event_id === eventId).map((call) => [call.webhook_id, call]));
  return [...last.values()].map((call) => ({
    ...call,
    href: `${linkTo(`/webhooks/${call.webhook_id}`, { event_id: eventId })}#deliveries`,
    endpoint: endpoints.get(call.webhook_id) ?? call.webhook_id,
    isPlanned: call.next_attempt_at !== null && Date.parse(call.next_attempt_at) > now,
  }));
}

function suppressionMoment({ email, reason, scope, created_at: at, note }: Suppression): Moment {
  const where = scope === 'account' ? '' : ` of the stream ${scope.replace('stream:', '')}`;
  return {
    ...bare(),
    at,
    what: 'suppressed',
    title: `${email} was put on the suppression list${where}: ${reason.replaceAll('_', ' ')}`,
    facts: note === null || note === '' ? [] : [`“${note}”`],
    links: [{ href: `/suppressions?q=${encodeURIComponent(email)}`, text: 'Look at the entry' }],
  };
}

const MOST_NAMED = 3;

/** Returns what it waits for now; recipients that wait for the same share one moment. */
function waitMoments({ message, waits }: History): Moment[] {
  const isOne = message.recipients.length === 1;
  const groups = new Map<string, { first: Why['recipients'][number]; emails: string[] }>();
  for (const one of waits) {
    if (one.reason === 'finished') continue;
    const key = `${one.summary} ${String(one.until)}`;
    const { first, emails } = groups.get(key) ?? { first: one, emails: [] };
    groups.set(key, { first, emails: [...emails, one.email] });
  }
  return [...groups.values()].map(({ first: { summary, reason, since, until, set_by: by }, emails }): Moment => {
    const more = emails.length > MOST_NAMED ? ` and ${String(emails.length - MOST_NAMED)} more` : '';
    return {
      ...bare(),
      at: null,
      what: reason === 'being_sent' ? 'sent' : 'waiting',
      title: summary,
      facts: isOne ? [] : [`for ${emails.slice(0, MOST_NAMED).join(', ')}${more}`],
      wait: { since, until, by },
    };
  });
}

/** Says by whom a message was sent and through which door. `request` is null if the audit log no longer has it. */
function acceptedTitle(request: Pick<AuditEntry, 'actor' | 'method'> | null): string {
  if (request === null) return 'by Posthorn';
  const { actor, method } = request;
  if (actor.startsWith('key:'))
    return `by the key ${actor.slice(4)} ${method === 'SMTP' ? 'over SMTP' : 'over the API'}`;
  if (actor.startsWith('member:')) return `by ${actor.slice(7)} in the dashboard`;
  return method === 'CLI' ? `by ${actor} on the command line` : `by ${actor}`;
}

function attemptFacts({ mx, ip, class: kind, reason, tls, source }: Attempt): string[] {
  return [
    ...(ip === null ? [] : [ip]),
    ...(mx === null ? [] : [tls === null ? 'without TLS' : `${tls.protocol}${tls.verified ? ', verified' : ''}`]),
    ...(source === null ? [] : [`from ${source}`]),
    ...(reason === null ? [] : [`${kind === null ? '' : `${kind}: `}${reason.replaceAll('_', ' ')}`]),
  ];
}

/** Returns the steps that took place, by the names of the API; a mail over an open connection has no connection of its own. */
const dialogueOf = ({ timings_ms: timings, tls }: Attempt) => ({
  steps: Object.entries(timings).flatMap(([name, ms]) => (ms > 0 ? [{ name, ms: Number(ms.toFixed(1)) }] : [])),
  tls: tls === null ? null : `${tls.protocol}, ${tls.cipher}, policy ${tls.policy}`,
});

const verbs: Readonly<Record<string, string>> = {
  sent: 'a first attempt has begun',
  deferred: 'not accepted yet',
  complained: 'reported as spam',
  suppressed: 'not sent: the address is on the suppression list',
  failed: 'given up',
  received: 'Answered',
};

/** Returns what the name of the type does not say. `recipient` is null if the message has only one. */
function eventTitle(type: string, recipient: string | null, detail: Readonly<Record<string, unknown>>): string {
  const words = type === 'bounced' && detail['async'] === true ? 'later, by mail' : verbs[type];
  return [words, recipient].filter((one) => one != null).join(': ');
}

function eventFacts(detail: Readonly<Record<string, unknown>>): string[] {
  const text = (name: string): string | null => {
    const value = detail[name];
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const agent = text('user_agent');
  const reader = [
    text('client') ?? (agent === null ? null : browserText(agent)),
    text('os'),
    text('device'),
    text('ip'),
  ];
  const facts = [
    text('url'),
    text('bot'),
    text('reason')?.replaceAll('_', ' '),
    text('message'),
    reader.filter((one) => one !== null).join(', ') || null,
  ];
  return facts.filter((one) => one != null);
}
