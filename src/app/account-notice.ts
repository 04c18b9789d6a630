/**
 * Mails to the people of an account about something that stopped or will stop, since few look at a dashboard every day. The rows of
 * such a mail are committed with the change that it is about, so that it is sent exactly once.
 */
import { newId } from '../base/id.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Config } from '../config/schema.ts';
import { parseMailbox, type Mailbox } from '../mail/address.ts';
import { ownersOf } from '../members/member-store.ts';
import { hintsOf } from '../messages/delivery/due-hint.ts';
import { ownMailRows, type OwnMail } from '../messages/accept/own-mail.ts';
import { sealContent } from '../messages/store/stored-content.ts';
import type { Connection } from '../storage/connection.ts';
import type { Rows } from '../storage/rows.ts';
import type { AppContext } from './context.ts';

/** Subject and text of a notice. */
export interface NoticeText {
  subject: string;
  lines: readonly string[];
  /** Set if the lines have a link to a login: they are stored sealed. */
  isSecret?: true;
}

/** The mails as rows, the number of their recipients, and the function to call once they are committed. */
export interface Notice {
  rows: readonly Rows[];
  recipients: number;
  written(): void;
}

export type AccountNotices = ReturnType<typeof accountNotices>;

export function accountNotices({
  clock,
  notifiers,
  ownAccount,
  config,
  notices,
  keyring,
}: Pick<AppContext, 'clock' | 'notifiers' | 'ownAccount' | 'config' | 'notices' | 'keyring'>) {
  return {
    /** Is called before the transaction begins. */
    prepare: () => ownAccount.ensure(),
    /** Makes the mail to one person; its rows are committed with `written` called after it. */
    to(address: Mailbox, from: Mailbox, text: NoticeText): Notice & { messageId: string } {
      const now = clock.now();
      const mail = noticeMail(text, from, address, now, keyring);
      const rows = ownMailRows(mail, now, notices.retry);
      return {
        rows: [rows],
        recipients: 1,
        messageId: mail.id,
        written() {
          notifiers.deliveries.notify(hintsOf(rows));
        },
      };
    },
    /** Makes the mails inside the transaction. */
    async of(tx: Pick<Connection, 'all'>, accountId: string, text: NoticeText): Promise<Notice> {
      const now = clock.now();
      const [from, to] = [await senderFor(tx, accountId, config), await peopleOf(tx, accountId, config)];
      const mails = to.map((one) => ownMailRows(noticeMail(text, from, one, now, keyring), now, notices.retry));
      return {
        rows: mails,
        recipients: mails.length,
        written() {
          notifiers.deliveries.notify(mails.flatMap(hintsOf));
        },
      };
    },
  };
}

/** Returns the members who see the account; else those who see all accounts; else the operator. */
async function peopleOf(tx: Pick<Connection, 'all'>, accountId: string, { smtp }: Config): Promise<Mailbox[]> {
  const owners = await ownersOf(tx, accountId);
  const addresses = owners.length > 0 ? owners : [smtp.operatorAddress ?? ''];
  return addresses.flatMap((address) => {
    const parsed = parseMailbox(address, { smtputf8: true });
    return parsed.kind === 'bad' ? [] : [parsed.mailbox];
  });
}

/** Returns an address at a domain of the account with all its records, so that the mail is signed; else at our own name. */
const senderFor = async (tx: Pick<Connection, 'all'>, accountId: string, { smtp }: Config): Promise<Mailbox> =>
  (await verifiedSender(tx, accountId)) ?? postmasterAt(smtp.hostname);

/** Returns an address at a domain of the account with all its records, or null if it has none. */
export async function verifiedSender(tx: Pick<Connection, 'all'>, accountId: string): Promise<Mailbox | null> {
  const [verified] = await tx.all<{ name: string }>(
    `SELECT name FROM domains WHERE account_id = ? AND status = 'verified' AND failing_since IS NULL ORDER BY created_at, id LIMIT 1`,
    [accountId],
  );
  return verified === undefined ? null : postmasterAt(verified.name);
}

const postmasterAt = (domain: string): Mailbox => ({
  name: 'Posthorn',
  address: `postmaster@${domain}`,
  local: 'postmaster',
  domain,
});

/** Returns the mail to one recipient. Pure but for its id and its seal. */
function noticeMail(
  { subject, lines, isSecret }: NoticeText,
  from: Mailbox,
  to: Mailbox,
  now: number,
  keyring: Keyring,
): OwnMail {
  const id = newId('msg', now);
  const text = [...lines, ''].join('\n');
  const body = isSecret === true ? sealContent(keyring, id, text) : { text };
  const headers = [['Auto-Submitted', 'auto-generated']] as const;
  return { id, from, to, subject, content: { kind: 'text', ...body, headers, attachments: [] } };
}
