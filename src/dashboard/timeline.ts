/** What happened to a message, in the order of time: its acceptance, its attempts with the words of the other side, its events. Pure. */

interface Attempt {
  recipient: string;
  number: number;
  started_at: string;
  ended_at: string;
  mx: string | null;
  ip: string | null;
  tls: { protocol: string; verified: boolean } | null;
  timings_ms: Readonly<Record<string, number>>;
  outcome: string;
  smtp_reply: string | null;
  smtp_code: number | null;
  class: string | null;
  reason: string | null;
  next_attempt_at: string | null;
}

interface EventRecord {
  type: string;
  timestamp: string;
  data: { recipient: string } & Readonly<Record<string, unknown>>;
}

/** The API's message record, as far as pages look at it. */
export interface MessageWhole {
  id: string;
  subject: string;
  test: boolean;
  request_id: string | null;
  created_at: string;
  status: string;
  metadata: Readonly<Record<string, string>>;
  recipients: { email: string; status: string; next_attempt_at: string | null }[];
  attempts: Attempt[];
  events: EventRecord[];
}

export interface Moment {
  at: string;
  /** Event type or outcome: its badge. */
  what: string;
  title: string;
  /** Words of the other side. */
  reply: string | null;
  /** Further facts, a line each. */
  facts: string[];
  /** A scanner or proxy, no person. */
  isMachine: boolean;
  /** When it is tried again. */
  next?: string | null;
  /** Where the mail that told it can be had. */
  href?: string;
  /** It proves nothing, and can be confirmed. */
  isUnverified?: boolean;
}

/** A mail that came back, as the API has it. */
export interface ReportSeen {
  id: string;
  kind: string | null;
  received_at: string;
  recipient: string;
  sender: string;
  verified: boolean;
}

/** Events that only repeat what the attempt beside them says. */
const toldByAttempt: ReadonlySet<string> = new Set(['delivered', 'deferred']);

/** `here`: where the page of the message is. */
export function timelineOf(message: MessageWhole, reports: readonly ReportSeen[], here: string): Moment[] {
  const accepted: Moment = {
    at: message.created_at,
    what: 'accepted',
    title: 'by Posthorn',
    reply: null,
    facts: [],
    isMachine: false,
  };
  const attempts = message.attempts.map(attemptMoment);
  const hasAttempts = attempts.length > 0;
  const events = message.events
    .filter(({ type }) => type !== 'sent' && !(hasAttempts && toldByAttempt.has(type)))
    .map(eventMoment);
  const returned = reports.map((report) => reportMoment(report, here));
  return [accepted, ...attempts, ...events, ...returned].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

function reportMoment({ id, kind, received_at: at, recipient, sender, verified }: ReportSeen, here: string): Moment {
  const facts = [
    sender === '' ? 'from the null sender' : `from ${sender}`,
    ...(verified ? [] : ['unverified: nothing proves that it is true, so nothing was changed']),
  ];
  const title = `A mail came back for ${recipient}`;
  return {
    at,
    what: kind?.replace('_', ' ') ?? 'not read yet',
    title,
    reply: null,
    facts,
    isMachine: false,
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
    isMachine: false,
  };
}

const tlsText = ({ protocol, verified }: { protocol: string; verified: boolean }): string =>
  `${protocol}${verified ? ', verified' : ''}`;

function eventMoment({ type, timestamp, data }: EventRecord): Moment {
  const detail = (data[type] ?? {}) as Readonly<Record<string, unknown>>;
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
