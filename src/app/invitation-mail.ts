/** The mail that invites a person to the team, with the link that sets their password. */
import { rfc3339 } from '../base/rfc3339.ts';
import { parseMailbox } from '../mail/address.ts';
import type { Invitations } from '../operator/deps.ts';
import { dashboardUrl } from '../operator/team/admin.ts';
import { urlReach } from '../tracking/host.ts';
import { verifiedSender, type AccountNotices, type NoticeText } from './account-notice.ts';
import type { AppContext } from './context.ts';

export function invitationMail(
  notices: AccountNotices,
  { db, config }: Pick<AppContext, 'db' | 'config'>,
): Invitations {
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
