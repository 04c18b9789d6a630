/**
 * The mail that tells people that a webhook endpoint of theirs is not called any more: nobody looks at a dashboard every day, and an
 * endpoint that was forgotten makes no noise. It is committed with the end of the endpoint, which happens once, so it goes once.
 */
import { newId } from '../base/id.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { Config } from '../config/schema.ts';
import { parseMailbox, type Mailbox } from '../mail/address.ts';
import { ownersOf } from '../members/member-store.ts';
import { hintsOf } from '../messages/due-hint.ts';
import { ownMailRows, type OwnMail } from '../messages/own-mail.ts';
import { dashboardUrl } from '../operator/admin.ts';
import type { Connection } from '../storage/connection.ts';
import type { WebhookRow } from '../storage/tables.ts';
import type { DisabledNotice } from '../webhooks/dispatcher.ts';
import type { Ground } from './ground.ts';

export function disabledNotice({ clock, bells, ownAccount, config, notices }: Pick<Ground, 'clock' | 'bells' | 'ownAccount' | 'config' | 'notices'>): DisabledNotice {
  return {
    prepare: () => ownAccount.ensure(),
    async of(tx, row) {
      const now = clock.now();
      const [from, to] = [await senderFor(tx, row.account_id, config), await peopleOf(tx, row.account_id, config)];
      const mails = to.map((one) => ownMailRows(noticeMail(row, from, one, config, now), now, notices.retry));
      return {
        rows: mails,
        told: mails.length,
        written() {
          bells.deliveries.ring(mails.flatMap(hintsOf));
        },
      };
    },
  };
} // prettier-ignore

/** Who sees the account; where nobody does, who sees all of them, and at last whoever runs this. */
async function peopleOf(tx: Pick<Connection, 'all'>, accountId: string, { smtp }: Config): Promise<Mailbox[]> {
  const owners = await ownersOf(tx, accountId);
  const addresses = owners.length > 0 ? owners : [smtp.operatorAddress ?? ''];
  return addresses.flatMap((address) => {
    const parsed = parseMailbox(address, { smtputf8: true });
    return parsed.kind === 'bad' ? [] : [parsed.mailbox];
  });
}

/** A domain of theirs that can be signed for; where there is none, our own name. */
async function senderFor(tx: Pick<Connection, 'all'>, accountId: string, { smtp }: Config): Promise<Mailbox> {
  const [verified] = await tx.all<{ name: string }>(
    `SELECT name FROM domains WHERE account_id = ? AND status = 'verified' ORDER BY created_at, id LIMIT 1`,
    [accountId],
  );
  const domain = verified?.name ?? smtp.hostname;
  return { name: 'Posthorn', address: `postmaster@${domain}`, local: 'postmaster', domain };
}

/** The mail to one of them. Pure but for its id. */
export function noticeMail(
  row: Pick<WebhookRow, 'id' | 'url' | 'disabled_reason' | 'updated_at'>,
  from: Mailbox,
  to: Mailbox,
  config: Pick<Config, 'http' | 'dashboard'>,
  now: number,
): OwnMail {
  // What stands behind the path, or before the host, may be a secret.
  const { origin, host, pathname } = new URL(row.url);
  return {
    id: newId('msg', now),
    from,
    to,
    subject: `The webhook to ${host} was disabled`,
    content: {
      kind: 'text',
      text: [
        `On ${rfc3339(row.updated_at)} Posthorn stopped calling this endpoint:`,
        '',
        `  ${origin}${pathname}`,
        `  ${row.id}`,
        '',
        row.disabled_reason ?? '',
        '',
        'No event is lost: they stay readable by GET /v1/events for as long as events are kept. When the endpoint is well again,',
        'enable it, and it is told what it missed:',
        '',
        `  ${dashboardUrl(config)}/webhooks/${row.id}`,
        `  PATCH /v1/webhooks/${row.id} with {"enabled": true}`,
        '',
      ].join('\n'),
      headers: [['Auto-Submitted', 'auto-generated']],
      attachments: [],
    },
  };
}
