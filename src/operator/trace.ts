/** Writes a message's history as lines in the order of time: acceptance, attempts with replies, events, and the next step. Pure. */
import type { AttemptRecord } from '../messages/store/message-store.ts';
import type { Waiting } from '../messages/delivery/why.ts';
import type { EventRecord } from '../client/types.ts';
import type { WholeMessage } from './messages.ts';

export interface TraceLine {
  /** RFC 3339. */
  at: string;
  what: 'accepted' | 'attempt' | 'event' | 'next';
  recipient: string | null;
  text: string;
}

export function trace(message: WholeMessage, why: readonly Waiting[] = []): TraceLine[] {
  const { created_at: at, from, to, cc, bcc, subject, stream, test, send_at: sendAt } = message;
  const others = cc.length + bcc.length === 0 ? '' : ` and ${String(cc.length + bcc.length)} more`;
  const notes = [
    `stream ${stream}`,
    ...(test ? ['simulated'] : []),
    ...(sendAt === null ? [] : [`to be sent at ${sendAt}`]),
  ];
  const accepted = `from ${from} to ${to}${others}: ${JSON.stringify(subject)} (${notes.join(', ')})`;
  const lines: TraceLine[] = [
    { at, what: 'accepted', recipient: null, text: accepted },
    ...message.attempts.map(attemptLine),
    ...message.events.map(eventLine),
  ];
  // Times are all written in one form, so they sort as text; lines of one millisecond stay in the order above.
  lines.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  const last = lines.at(-1)?.at ?? at;
  return [...lines, ...message.recipients.flatMap((recipient) => nextLine(recipient, why, last))];
}

function attemptLine(attempt: AttemptRecord): TraceLine {
  const { number, ended_at: at, recipient, mx, ip, tls, outcome, smtp_reply: reply, next_attempt_at: next } = attempt;
  const peer = mx === null ? 'no connection' : ip === null ? mx : `${mx} [${ip}]`;
  const secured = mx === null ? '' : tls === null ? ', no TLS' : `, ${tls.protocol}${tls.verified ? ' verified' : ''}`;
  const said = reply === null ? '' : `: ${replyText(attempt.smtp_code, reply)}`;
  const why = attempt.reason === null ? '' : ` (${[attempt.class, attempt.reason].filter(Boolean).join(', ')})`;
  const then = next === null ? '' : `, next try ${next}`;
  const text = `attempt ${String(number)} ${outcome}${why} by ${peer}${secured}${said} [${timings(attempt)}]${then}`;
  return { at, what: 'attempt', recipient, text };
}

/** Puts the code before a reply that does not begin with it. */
function replyText(code: number | null, reply: string): string {
  return code === null || reply.startsWith(String(code)) ? reply : `${String(code)} ${reply}`;
}

function timings({ started_at: from, ended_at: to, timings_ms: phases }: AttemptRecord): string {
  const total = `${String(Date.parse(to) - Date.parse(from))} ms`;
  const parts = Object.entries(phases).flatMap(([name, ms]) => (ms > 0 ? [`${name} ${String(Math.round(ms))}`] : []));
  return [total, ...parts].join(', ');
}

function eventLine({ timestamp: at, type, sequence, data }: EventRecord): TraceLine {
  return {
    at,
    what: 'event',
    recipient: data.recipient,
    text: `${type} (event ${String(sequence)}), status ${data.status}`,
  };
}

/** Returns what it waits for, as `messages why` does; without a running server only its next time is known. */
function nextLine(recipient: WholeMessage['recipients'][number], why: readonly Waiting[], now: string): TraceLine[] {
  const { email, status, next_attempt_at: next, attempt_count: count } = recipient;
  const known = why.find((one) => one.email === email && one.reason !== 'finished');
  if (known !== undefined)
    return [{ at: known.until ?? next ?? now, what: 'next', recipient: email, text: `${status}: ${known.message}` }];
  if (next === null) return [];
  const text = `${status}, to be tried ${count === 0 ? 'for the first time' : 'again'}`;
  return [{ at: next, what: 'next', recipient: email, text }];
}
