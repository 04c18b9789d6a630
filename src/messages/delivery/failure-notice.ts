/**
 * Writes the notice that submitted mail has failed (RFC 5321 section 6.1): programs that only speak SMTP get no other report.
 * It is made in the transaction in which a delivery fails, which happens only once, so there is exactly one.
 */
import { newId } from '../../base/id.ts';
import { parseMailbox, type Mailbox } from '../../mail/address.ts';
import { writeDeliveryReport, MOST_HEAD, type ReportedRecipient } from '../../mail/delivery-report-write.ts';
import { endOfHead, writeHead } from '../../mail/header.ts';
import type { Connection } from '../../storage/connection.ts';
import type { DeliveryStatus } from '../../storage/tables.ts';
import { statement } from '../../storage/sql.ts';
import type { DecidedEvent } from './decide.ts';
import { ownMailRows, type OwnMail, type OwnMailRows } from '../accept/own-mail.ts';
import type { AgeRule } from './retry.ts';

export interface NoticeRule {
  /** Setting `smtp.hostname`: the host that gave up. */
  hostname: string;
  retry: AgeRule;
}

export interface Failure {
  messageId: string;
  address: string;
  event: DecidedEvent;
}

/** The final statuses that send a notice. */
const failing: ReadonlySet<DeliveryStatus> = new Set(['bounced', 'failed', 'suppressed']);
export const isFailure = (status: DeliveryStatus): boolean => failing.has(status);

interface FailedMail {
  id: string;
  notice_to: string;
  from_domain: string;
  subject: string;
  created_at: number;
  require_tls: number | null;
  /** The first bytes of the mail; null if its content is deleted. */
  front: Buffer | null;
}

const failedMails = statement(
  ({
    listed,
  }) => `SELECT m.id, m.notice_to, m.from_domain, m.subject, m.created_at, m.require_tls, substr(c.raw, 1, ${String(MOST_HEAD * 2)}) AS front
     FROM ${listed('w', 'text')} JOIN messages m ON m.id = w.value LEFT JOIN contents c ON c.id = m.content_id
     WHERE m.notice_to IS NOT NULL`,
);

/** Returns the rows of the notices, one notice for each message. Reads inside the transaction `tx`. */
export async function noticeRows(
  tx: Pick<Connection, 'all'>,
  rule: NoticeRule,
  failures: readonly Failure[],
  now: number,
): Promise<OwnMailRows[]> {
  const ids = new Set(failures.map(({ messageId }) => messageId));
  const mails = await tx.all<FailedMail>(failedMails, [JSON.stringify([...ids])]);
  return mails.flatMap((mail) => {
    const own = failures.filter(({ messageId }) => messageId === mail.id);
    const notice = failureNotice(rule, mail, own, now);
    return notice === null ? [] : [ownMailRows(notice, now, rule.retry)];
  });
}

/** Returns the notice as a mail; null if the sender's address is not valid any more. Pure except for its id. */
export function failureNotice(
  { hostname }: NoticeRule,
  mail: FailedMail,
  failures: readonly Failure[],
  now: number,
): OwnMail | null {
  const to = parseMailbox(mail.notice_to, { smtputf8: true });
  if (to.kind === 'bad') return null;
  const id = newId('msg', now);
  // The sender is in the domain of the mail: we can sign for it, so the notice passes the same checks.
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
    // RFC 3834 section 5: automatic systems do not answer it.
    extra: [['Auto-Submitted', 'auto-replied']],
  });
  const report = writeDeliveryReport({
    reportingMta: hostname,
    arrivedAt: mail.created_at,
    messageId: mail.id,
    text: noticeText(mail, failures),
    recipients: failures.map((failure) => reportedRecipient(failure, now)),
    originalHead: mail.front?.subarray(0, endOfHead(mail.front)) ?? null,
  });
  const bytes = Buffer.concat([Buffer.from(`${head}${report.headers}\r\n`), report.body]);
  // RFC 8689 section 5: a notice contains part of the mail, so it needs the same protection.
  return { id, from, to: to.mailbox, subject, content: { kind: 'raw', bytes }, requireTls: mail.require_tls === 1 };
}

function reportedRecipient({ address, event }: Failure, now: number): ReportedRecipient {
  const { detail } = event;
  const attempts = typeof detail['attempts'] === 'number' ? detail['attempts'] : 0;
  const code = detail['smtp_code'];
  const diagnostic = diagnosticOf(event);
  return {
    address,
    status: statusOf(event),
    diagnostic: diagnostic === null ? null : { type: typeof code === 'number' ? 'smtp' : 'x-posthorn', ...diagnostic },
    lastAttemptAt: attempts > 0 ? now : null,
  };
}

function diagnosticOf({ type, detail }: DecidedEvent): { text: string; host: string | null } | null {
  if (type === 'suppressed')
    return { text: `the address is on the suppression list (${stringOrNull(detail['reason']) ?? '?'})`, host: null };
  if (type === 'failed') return { text: stringOrNull(detail['message']) ?? 'it could not be sent', host: null };
  const reply = stringOrNull(detail['smtp_reply']);
  if (reply === null) return null;
  const code = typeof detail['smtp_code'] === 'number' ? `${String(detail['smtp_code'])} ` : '';
  return { text: reply.startsWith(code) ? reply : code + reply, host: stringOrNull(detail['mx']) };
}

/** The status of RFC 3463, always permanent: there is no further attempt. */
function statusOf({ type, detail }: DecidedEvent): string {
  if (type === 'suppressed') return '5.7.1';
  if (type === 'failed') return '5.3.0';
  if (detail['reason'] === 'expired') return '5.4.7';
  const code = stringOrNull(detail['enhanced_code']) ?? '';
  return /^[245]\.\d{1,3}\.\d{1,3}$/.test(code) ? `5${code.slice(1)}` : '5.0.0';
}

const stringOrNull = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

function noticeText({ subject, created_at: at }: FailedMail, failures: readonly Failure[]): string {
  const lines = failures.map((failure) => `${failure.address}\n    ${reasonText(failure)}\n`);
  return [
    'Your mail could not be delivered to the addresses below. It will not be tried again.',
    '',
    `    Subject: ${oneLine(subject)}`,
    `    Sent: ${new Date(at).toUTCString()}`,
    '',
    ...lines,
    'Its header is attached.',
    '',
  ].join('\n');
}

function reasonText({ event }: Failure): string {
  const diagnostic = diagnosticOf(event);
  const words = diagnostic === null ? null : oneLine(diagnostic.text);
  if (event.type !== 'bounced') return words ?? '';
  const who = diagnostic?.host === null || diagnostic?.host === undefined ? '' : `${diagnostic.host} said: `;
  const isExpired = event.detail['reason'] === 'expired';
  const last = words === null ? 'no server gave a reason' : `${who}${words}`;
  return isExpired ? `it was tried until its time was over; the last answer: ${last}` : last;
}

const oneLine = (words: string): string => words.replace(/\s+/g, ' ').trim().slice(0, 1000);
