/**
 * The notice that submitted mail has failed (RFC 5321 section 6.1): programs that only speak SMTP hear of it in no other way.
 * It is made in the transaction in which a delivery fails, which happens to each one once, so there is exactly one.
 */
import { newId } from '../../base/id.ts';
import { parseMailbox, type Mailbox } from '../../mail/address.ts';
import { writeDeliveryReport, MOST_HEAD, type ReportedRecipient } from '../../mail/delivery-report-write.ts';
import { writeHead } from '../../mail/message-head.ts';
import type { Connection } from '../../storage/connection.ts';
import type { DeliveryStatus } from '../../storage/tables.ts';
import type { DecidedEvent } from './decision.ts';
import { ownMailRows, type OwnMail, type OwnMailRows } from '../accept/own-mail.ts';
import type { RetryRule } from './retry.ts';

export interface NoticeRule {
  /** `smtp.hostname`: who gives up. */
  hostname: string;
  retry: Pick<RetryRule, 'maxAge'>;
}

/** One delivery that has ended badly; `event` says how. */
export interface Failure {
  messageId: string;
  address: string;
  event: DecidedEvent;
}

/** Ends of which the sender is told. */
const failing: ReadonlySet<DeliveryStatus> = new Set(['bounced', 'failed', 'suppressed']);
export const isFailure = (status: DeliveryStatus): boolean => failing.has(status);

interface FailedMail {
  id: string;
  notice_to: string;
  from_domain: string;
  subject: string;
  created_at: number;
  require_tls: number | null;
  /** The front of the mail; null where its content is gone. */
  front: Buffer | null;
}

/** The rows of the notices, one for each message of which something failed. Reads inside the transaction `tx`. */
export async function noticeRows(
  tx: Pick<Connection, 'all'>,
  rule: NoticeRule,
  failures: readonly Failure[],
  now: number,
): Promise<OwnMailRows[]> {
  const ids = new Set(failures.map(({ messageId }) => messageId));
  const mails = await tx.all<FailedMail>(
    `SELECT m.id, m.notice_to, m.from_domain, m.subject, m.created_at, m.require_tls, substr(c.raw, 1, ${String(MOST_HEAD * 2)}) AS front
     FROM json_each(?) AS w JOIN messages m ON m.id = w.value LEFT JOIN contents c ON c.id = m.content_id
     WHERE m.notice_to IS NOT NULL`,
    [JSON.stringify([...ids])],
  );
  return mails.flatMap((mail) => {
    const own = failures.filter(({ messageId }) => messageId === mail.id);
    const notice = failureNotice(rule, mail, own, now);
    return notice === null ? [] : [ownMailRows(notice, now, rule.retry)];
  });
}

/** The notice as a mail; null where the address it would go to is none any more. Pure but for its id. */
export function failureNotice(
  { hostname }: NoticeRule,
  mail: FailedMail,
  failures: readonly Failure[],
  now: number,
): OwnMail | null {
  const to = parseMailbox(mail.notice_to, { smtputf8: true });
  if (to.kind === 'bad') return null;
  const id = newId('msg', now);
  // From the domain that the mail was from: it can be signed for, so the notice passes where the mail would have.
  const from: Mailbox = {
    name: 'Mail Delivery System',
    address: `mailer-daemon@${mail.from_domain}`,
    local: 'mailer-daemon',
    domain: mail.from_domain,
  };
  const subject = `Not delivered: ${mail.subject}`;
  const head = writeHead({
    from,
    to: [to.mailbox],
    cc: [],
    replyTo: [],
    subject,
    date: new Date(now),
    messageId: `<${id}@${from.domain}>`,
    // RFC 3834 section 5: no machine answers it.
    extra: [['Auto-Submitted', 'auto-replied']],
  });
  const report = writeDeliveryReport({
    reportingMta: hostname,
    arrivedAt: mail.created_at,
    messageId: mail.id,
    text: wordsOf(mail, failures),
    recipients: failures.map((failure) => reported(failure, now)),
    originalHead: headOf(mail.front),
  });
  const bytes = Buffer.concat([Buffer.from(`${head}${report.headers}\r\n`), report.body]);
  // RFC 8689 section 5: a notice brings back part of a mail that must not be read on its way.
  return { id, from, to: to.mailbox, subject, content: { kind: 'raw', bytes }, requireTls: mail.require_tls === 1 };
}

function headOf(front: Buffer | null): Buffer | null {
  if (front === null) return null;
  const end = front.indexOf('\r\n\r\n');
  return end < 0 ? front : front.subarray(0, end + 2);
}

function reported({ address, event }: Failure, now: number): ReportedRecipient {
  const { detail } = event;
  const attempts = typeof detail['attempts'] === 'number' ? detail['attempts'] : 0;
  const code = detail['smtp_code'];
  const said = saidOf(event);
  return {
    address,
    status: statusOf(event),
    diagnostic: said === null ? null : { type: typeof code === 'number' ? 'smtp' : 'x-posthorn', ...said },
    lastAttemptAt: attempts > 0 ? now : null,
  };
}

function saidOf({ type, detail }: DecidedEvent): { text: string; host: string | null } | null {
  if (type === 'suppressed')
    return { text: `the address is on the suppression list (${textOf(detail['reason']) ?? '?'})`, host: null };
  if (type === 'failed') return { text: textOf(detail['message']) ?? 'it could not be sent', host: null };
  const reply = textOf(detail['smtp_reply']);
  if (reply === null) return null;
  const code = typeof detail['smtp_code'] === 'number' ? `${String(detail['smtp_code'])} ` : '';
  return { text: reply.startsWith(code) ? reply : code + reply, host: textOf(detail['mx']) };
}

/** RFC 3463, always of the permanent class: nothing is tried again. */
function statusOf({ type, detail }: DecidedEvent): string {
  if (type === 'suppressed') return '5.7.1';
  if (type === 'failed') return '5.3.0';
  if (detail['reason'] === 'expired') return '5.4.7';
  const code = textOf(detail['enhanced_code']) ?? '';
  return /^[245]\.\d{1,3}\.\d{1,3}$/.test(code) ? `5${code.slice(1)}` : '5.0.0';
}

const textOf = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

function wordsOf({ subject, created_at: at }: FailedMail, failures: readonly Failure[]): string {
  const lines = failures.map((failure) => `${failure.address}\n    ${whyOf(failure)}\n`);
  return [
    'Your mail could not be delivered to the addresses below, and is not tried again.',
    '',
    `    Subject: ${oneLine(subject)}`,
    `    Sent: ${new Date(at).toUTCString()}`,
    '',
    ...lines,
    'Its header is attached.',
    '',
  ].join('\n');
}

function whyOf({ event }: Failure): string {
  const said = saidOf(event);
  const words = said === null ? null : oneLine(said.text);
  if (event.type !== 'bounced') return words ?? '';
  const who = said?.host === null || said?.host === undefined ? '' : `${said.host} said: `;
  const isExpired = event.detail['reason'] === 'expired';
  const last = words === null ? 'nobody said why' : `${who}${words}`;
  return isExpired ? `it was tried for too long; at last ${last}` : last;
}

const oneLine = (words: string): string => words.replace(/\s+/g, ' ').trim().slice(0, 1000);
