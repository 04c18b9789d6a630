/** Erases a person from the mail of all accounts. */
import { z } from 'zod';
import { operatorCaller } from '../api/inside.ts';
import { Problem } from '../base/problem.ts';
import { pluralize } from '../base/pluralize.ts';
import { findAccount } from '../accounts/account-store.ts';
import { addressKey, parseMailbox } from '../mail/address.ts';
import type { OperatorDeps } from './deps.ts';
import { serverRoute } from './server-route.ts';
import { accountArgument, accountNamed } from './team/accounts.ts';

interface Owner {
  id: string;
  name: string;
  recipients: number;
}

/** Returns the accounts that have mailed the person or got mail from them, with the number of these mails. Throws `not_found` if there is none. */
async function ownersOf({ db }: OperatorDeps, email: string, account: string | undefined): Promise<Owner[]> {
  const parsed = parseMailbox(email, { smtputf8: true });
  const only = account === undefined ? null : (await accountNamed({ db }, account)).id;
  const rows =
    parsed.kind === 'bad'
      ? []
      : await db.maintenance.all<Owner>(
          `SELECT a.id, a.name, COUNT(*) AS recipients FROM (
             SELECT account_id FROM deliveries WHERE address_key = ?
             UNION ALL SELECT account_id FROM received WHERE from_key = ?) d
           JOIN accounts a ON a.id = d.account_id GROUP BY a.id, a.name ORDER BY a.id`,
          [addressKey(parsed.mailbox.address), addressKey(parsed.mailbox.address)],
        );
  const found = rows.filter(({ id }) => only === null || id === only);
  if (found.length === 0) throw new Problem('not_found', 'Nothing was sent to this address.', { field: 'email' });
  return found;
}

export const eraseOperations = {
  /** Performs `deleteRecipient` in each account that has mailed the person, which says what goes and what stays. */
  'recipients.erase': serverRoute({
    act: {
      says: 'erased a person from the mail of all accounts',
      type: 'recipient',
      named: null,
      keeps: ['accounts', 'recipients'],
    },
    body: z.strictObject({ email: z.string().min(1).max(1000), account: accountArgument }),
    async dryRun(deps, { email, account }) {
      const owners = await ownersOf(deps, email, account);
      const recipients = owners.reduce((sum, one) => sum + one.recipients, 0);
      const would = `erase ${pluralize(recipients, 'recipient')} of mail of ${owners.map(({ name }) => name).join(', ')}`;
      return { would, accounts: owners.length, recipients };
    },
    async run(deps, { email, account }, act) {
      const owners = await ownersOf(deps, email, account);
      for (const { id } of owners) {
        const row = await findAccount(deps, id);
        if (row === null) continue;
        const asking = {
          caller: operatorCaller(row),
          ip: null,
          userAgent: act.acting.user_agent,
          whenOver: () => undefined,
        };
        await deps.inside.ask(asking, 'deleteRecipient', { params: { email } });
      }
      const recipients = owners.reduce((sum, one) => sum + one.recipients, 0);
      act.on({ after: { accounts: owners.length, recipients } });
      return { object: 'erasure' as const, accounts: owners.map(({ name }) => name), recipients };
    },
  }),
};
