/**
 * Makes the rows of a mail that this server sends itself: it is delivered like any other, in an account of its own, with the null sender, so that no
 * system answers it (RFC 5321 section 4.5.5). The rows are committed with the change that causes the mail.
 */
import { OWN_ACCOUNT } from '../../accounts/account-store.ts';
import type { Mailbox } from '../../mail/address.ts';
import type { Attachment } from '../../mail/mime-write.ts';
import type { Rows } from '../../storage/rows.ts';
import type { AgeRule } from '../delivery/retry.ts';
import type { MessageDraft } from '../request/message-draft.ts';
import { addMessage, newPlan, type Plan } from './accept-rows.ts';
import { DEFAULT_STREAM, type Sender } from './may-send.ts';

export interface OwnMail {
  /** The message's id; the header of a raw mail contains it already. */
  id: string;
  from: Mailbox;
  to: Mailbox;
  subject: string;
  content:
    | {
        kind: 'text';
        text: string;
        /** The id of a text that is sealed (messages/store/stored-content.ts). */
        id?: string;
        headers: readonly (readonly [string, string])[];
        attachments: readonly Attachment[];
      }
    /** Header and body as they are sent, with CRLF line ends. */
    | { kind: 'raw'; bytes: Buffer };
  /** The mail must have TLS on all hops (RFC 8689). */
  requireTls?: boolean;
}

/** The rows, due at once. All tables are present, so that a caller can join the rows of several mails. */
export type OwnMailRows = Required<Pick<Rows, 'contents' | 'attachments' | 'messages' | 'deliveries' | 'counters'>>;

const untracked = { opens: false, clicks: false, base: null };
const stream = { slug: DEFAULT_STREAM, class: 0, isBroadcast: false };
const nothing = { cc: [], bcc: [], replyTo: [], tags: [], metadata: {}, sendAt: null, expiresAt: null, stream: null };

/** Makes the rows of one mail. `isSimulated`: it goes to the simulator and never leaves this server. */
export function ownMailRows(mail: OwnMail, now: number, retry: AgeRule, { isSimulated = false } = {}): OwnMailRows {
  const plan = newPlan(false);
  addOwnMail(plan, mail, now, retry, isSimulated);
  const { contents, attachments, messages, deliveries } = plan.rows;
  return { contents, attachments, messages, deliveries, counters: [...plan.counters.values()] };
}

export function addOwnMail(plan: Plan, mail: OwnMail, now: number, retry: AgeRule, isSimulated = false): void {
  const { id, from, to, subject, content } = mail;
  const isText = content.kind === 'text';
  const draft: MessageDraft = {
    ...nothing,
    from,
    to,
    subject,
    content: {
      html: null,
      text: isText ? content.text : null,
      autoText: false,
      attachments: isText ? content.attachments : [],
    },
    headers: isText ? content.headers : [],
    ...(isText
      ? {}
      : {
          source: {
            id,
            rfcMessageId: `<${id}@${from.domain}>`,
            bytes: content.bytes,
            facts: null,
            recipients: [{ type: 'to', mailbox: to }],
            noticeTo: null,
          },
        }),
    requireTls: mail.requireTls === true ? true : null,
    trackOpens: false,
    trackClicks: false,
    unsubscribe: false,
    onSuppressed: 'accept',
    test: null,
  };
  const mode = isSimulated ? ('test' as const) : ('live' as const);
  const sender: Sender = { accountId: OWN_ACCOUNT, keyId: null, mode, domains: [], requestId: null };
  addMessage({ retry, simulatorDomain: '' }, plan, {
    ...{ sender, draft, stream, tracking: untracked, suppressed: new Map(), now, batchId: null },
    own: { message: id, content: isText ? content.id : undefined },
  });
}
