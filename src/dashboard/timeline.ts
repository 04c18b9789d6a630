/** The history of a message in order of time: acceptance, attempts with the replies of mail hosts, events, reports. Pure. */
import type { Attempt, EventRecord, MessageDetails, Report } from '../client/types.ts';

export interface Moment {
  at: string;
  /** Event type or outcome, shown as the badge. */
  what: string;
  title: string;
  /** Reply of the mail host. */
  reply?: string | null;
  /** Further facts, one a line. */
  facts?: string[];
  /** Caused by a scanner or proxy, not by a person. */
  isMachine?: boolean;
  /** Time of the next try. */
  next?: string | null;
  /** Address of the report's source. */
  href?: string;
  /** The report is not verified and can be confirmed by hand. */
  isUnverified?: boolean;
}

/** The types of events that only repeat an attempt. */
const repeatsAttempt: ReadonlySet<string> = new Set(['delivered', 'deferred']);

/** Returns the moments in order of time. `here` is the path of the message's page. */
export function timelineOf(message: MessageDetails, reports: readonly Report[], here: string): Moment[] {
  const accepted: Moment = {
    at: message.created_at,
    what: 'accepted',
    title: 'by Posthorn',
  };
  const attempts = message.attempts.map(attemptMoment);
  const hasAttempts = attempts.length > 0;
  const events = message.events
    .filter(({ type }) => type !== 'sent' && !(hasAttempts && repeatsAttempt.has(type)))
    .map(eventMoment);
  const returned = reports.map((report) => reportMoment(report, here));
  return [accepted, ...attempts, ...events, ...returned].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

function reportMoment({ id, kind, received_at: at, recipient, sender, verified }: Report, here: string): Moment {
  const facts = [
    sender === '' ? 'from the null sender' : `from ${sender}`,
    ...(verified ? [] : ['unverified: nothing proves that it is true, so nothing was changed']),
  ];
  const title = `A mail came back for ${recipient}`;
  return {
    at,
    what: kind?.replace('_', ' ') ?? 'not read yet',
    title,
    facts,
    href: `${here}/reports/${id}`,
    isUnverified: !verified,
  };
}

function attemptMoment(attempt: Attempt): Moment {
  const { mx, ip, tls, reason, class: kind, next_attempt_at: next } = attempt;
  const ms = Object.entries(attempt.timings_ms).filter(([, n]) => n > 0);
  const facts = [
    ...(mx === null ? [] : [`${mx}${ip === null ? '' : ` (${ip})`}, ${tls === null ? 'without TLS' : tlsText(tls)}`]),
    ...(reason === null ? [] : [`${kind === null ? '' : `${kind}: `}${reason.replaceAll('_', ' ')}`]),
    ...(ms.length === 0 ? [] : [ms.map(([phase, n]) => `${phase} ${n.toFixed(0)} ms`).join(', ')]),
  ];
  const title = `Attempt ${String(attempt.number)} for ${attempt.recipient}`;
  return {
    at: attempt.ended_at,
    what: attempt.outcome,
    title,
    reply: attempt.smtp_reply,
    facts,
    next,
  };
}

const tlsText = ({ protocol, verified }: { protocol: string; verified: boolean }): string =>
  `${protocol}${verified ? ', verified' : ''}`;

/** Returns the member of an event that has the name of its type. */
export const detailOf = ({ type, data }: Pick<EventRecord, 'type' | 'data'>): Readonly<Record<string, unknown>> =>
  ((data as unknown as Record<string, unknown>)[type] ?? {}) as Record<string, unknown>;

function eventMoment({ type, timestamp, data }: EventRecord): Moment {
  const detail = detailOf({ type, data });
  const text = (name: string): string | null => {
    const value = detail[name];
    return typeof value === 'string' && value !== '' ? value : null;
  };
  const isMachine = detail['is_bot'] === true;
  const facts = [
    text('url'),
    text('reason')?.replaceAll('_', ' '),
    text('message'),
    [text('client'), text('os'), text('device')].filter((one) => one !== null).join(', ') || null,
    text('ip'),
    text('user_agent'),
    isMachine ? `by a machine (${text('bot') ?? 'unknown'}), not counted` : null,
    detail['suppression_added'] === true ? 'the address was put on the suppression list' : null,
  ].filter((one) => one != null);
  const title = `${type.replace(/^./, (first) => first.toUpperCase())}: ${data.recipient}`;
  return { at: timestamp, what: type, title, reply: text('smtp_reply'), facts, isMachine };
}
