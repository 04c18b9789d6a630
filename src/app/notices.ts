/** Mails to the people of an account about what stopped or will, and invitations. Their rows commit with the change, so each is sent exactly once. */
import { newId } from '../base/id.ts';
import type { Keyring } from '../base/keyring.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { Config } from '../config/schema.ts';
import { toDomainRecord, type DomainRecord, type DomainWithKeys } from '../domains/domain-record.ts';
import { capital, lostOf, lostText } from '../domains/lost-records.ts';
import { parseMailbox, type Mailbox } from '../mail/address.ts';
import { ownersOf } from '../members/member-store.ts';
import { hintsOf } from '../messages/delivery/due-hint.ts';
import { ownMailRows, type OwnMail } from '../messages/accept/own-mail.ts';
import { sealContent } from '../messages/store/stored-content.ts';
import type { Invitations } from '../operator/server-route.ts';
import { dashboardUrl } from '../operator/team/team.ts';
import type { Connection } from '../storage/connection.ts';
import type { Notice } from '../storage/rows.ts';
import type { WebhookRow } from '../storage/tables.ts';
import { trackingTargetOf, urlReach } from '../tracking/host.ts';
import type { AppContext } from './core.ts';

interface NoticeText {
  subject: string;
  lines: readonly string[];
  /** Set if the lines have a link to a login: they are stored sealed. */
  isSecret?: true;
}

export type AccountNotices = ReturnType<typeof accountNotices>;

export function accountNotices({ clock, notifiers, ownAccount, config, notices, keyring }: AppContext) {
  return {
    /** Is called before the transaction begins. */
    prepare: () => ownAccount.ensure(),
    /** Makes the mail to one person as rows; `written` is called once they are committed. */
    to(address: Mailbox, from: Mailbox, text: NoticeText) {
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
    async of(tx: Pick<Connection, 'all'>, accountId: string, text: NoticeText) {
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
async function verifiedSender(tx: Pick<Connection, 'all'>, accountId: string): Promise<Mailbox | null> {
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

/** The notice that a domain has lost a DNS record, and until when its mail is still sent. */
export function domainNotice(notices: AccountNotices, config: Config): Notice<DomainWithKeys> {
  return {
    prepare: () => notices.prepare(),
    of: (tx, domain) =>
      notices.of(
        tx,
        domain.row.account_id,
        lostRecordText(toDomainRecord(domain, config.smtp.hostname, trackingTargetOf(config)), dashboardUrl(config)),
      ),
  };
}

/** `2026-02-03 09:30 UTC`. */
const inWords = (at: string): string => `${at.slice(0, 16).replace('T', ' ')} UTC`;

function lostRecordText(
  { id, name, status, failing_since, refused_at, records }: DomainRecord,
  dashboard: string,
): NoticeText {
  const lost = lostOf(records);
  const at = inWords(refused_at ?? failing_since ?? rfc3339(0));
  const isRefused = status !== 'verified';
  return {
    subject: isRefused
      ? `${name} has lost a DNS record: its mail is refused`
      : `${name} has lost a DNS record: its mail is refused from ${at}`,
    lines: [
      `Posthorn looked for the DNS records of ${name}. ${capital(lostText(lost))}.`,
      '',
      isRefused
        ? `Mail from ${name} has been refused since ${at}, until the record is there again.`
        : `Mail from ${name} keeps going until ${at}. If the record is not there by then, mail is refused until it is.`,
      '',
      ...lost.map(({ cure }) => cure ?? ''),
      '',
      'DNS is asked again every 30 minutes. You can have it asked at once:',
      '',
      `  ${dashboard}/domains/${id}`,
      `  POST /v1/domains/${name}/verify`,
      '',
      'This is the only mail about it.',
    ],
  };
}

/** The notice that a webhook endpoint was disabled. */
export function disabledNotice(
  notices: AccountNotices,
  config: Pick<Config, 'http' | 'dashboard'>,
): Notice<WebhookRow> {
  return {
    prepare: () => notices.prepare(),
    of: (tx, row) => notices.of(tx, row.account_id, disabledText(row, dashboardUrl(config))),
  };
}

function disabledText(
  row: Pick<WebhookRow, 'id' | 'url' | 'disabled_reason' | 'updated_at'>,
  dashboard: string,
): NoticeText {
  // The query and the user name of a URL may be secrets.
  const { origin, host, pathname } = new URL(row.url);
  return {
    subject: `The webhook to ${host} was disabled`,
    lines: [
      `On ${rfc3339(row.updated_at)} Posthorn stopped calling this endpoint:`,
      '',
      `  ${origin}${pathname}`,
      `  ${row.id}`,
      '',
      row.disabled_reason ?? '',
      '',
      'No event is lost: they stay readable by GET /v1/events for as long as events are kept. When the endpoint works again,',
      'enable it, and it gets the events that it missed:',
      '',
      `  ${dashboard}/webhooks/${row.id}`,
      `  PATCH /v1/webhooks/${row.id} with {"enabled": true}`,
    ],
  };
}

/** The mail that invites a person to the team, with the link that sets their password. */
export function invitationMail(notices: AccountNotices, { db, config }: AppContext): Invitations {
  const url = dashboardUrl(config);
  return {
    async prepare(accountIds) {
      if (['unset', 'machine'].includes(urlReach(config.http)))
        return {
          kind: 'no',
          why: `The link begins with ${url}, which opens on this server only: set http.publicUrl to the address that people use.`,
        };
      const [first] = await db.prepared.all<{ id: string }>('SELECT id FROM accounts ORDER BY created_at, id LIMIT 1');
      for (const accountId of [...accountIds, ...(first === undefined ? [] : [first.id])]) {
        const from = await verifiedSender(db.prepared, accountId);
        if (from === null) continue;
        await notices.prepare();
        return {
          kind: 'yes',
          mail(invitation) {
            const parsed = parseMailbox(invitation.to, { smtputf8: true });
            if (parsed.kind === 'bad') throw new Error(`the address of a member is not one: ${parsed.why}`);
            return notices.to(parsed.mailbox, from, invitationText(invitation));
          },
        };
      }
      return {
        kind: 'no',
        why: 'There is no verified domain yet to send the mail from: add one under Domains.',
      };
    },
  };
}

function invitationText({ url, expiresAt, by }: { url: string; expiresAt: number; by: string }): NoticeText {
  const until = rfc3339(expiresAt).slice(0, 16).replace('T', ' ');
  return {
    isSecret: true,
    subject: `You are invited to the mail server ${new URL(url).hostname}`,
    lines: [
      `${by === 'operator' ? 'The operator of the server' : by} invites you to its dashboard. Choose a password here:`,
      '',
      `  ${url}`,
      '',
      `The link works once, until ${until} UTC. Whoever has it can use it: do not forward this mail.`,
      'If you did not expect it, ignore it; nothing happens.',
    ],
  };
}
