/** The operation that reads the audit log of any account, and of the server. */
import { z } from 'zod';
import { pageOfAudit } from '../accounts/audit-list.ts';
import { auditRecord } from '../api/audit-list.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onStore } from './operation.ts';

export const auditOperations = {
  /** Returns the newest acts first. `server`: acts that concern no account, such as those on the queue, the settings and the server itself. */
  'audit.list': onStore({
    act: null,
    args: z.strictObject({
      account: accountArgument,
      server: z.boolean().optional(),
      limit: z.int().min(1).max(1000).optional(),
    }),
    async run({ db }, { account, server = false, limit = 100 }) {
      const accountId = server ? null : (await accountNamed({ db }, account)).id;
      const { rows, hasMore } = await pageOfAudit({ db }, { accountId, by: 'person' }, { limit });
      return { data: rows.map(auditRecord), has_more: hasMore };
    },
  }),
};
