/** The operations that read the audit log of any account, and of the server. */
import { z } from 'zod';
import { findAuditEntry, pageOfParts, type AuditOf } from '../accounts/audit-list.ts';
import { auditDetails, auditRecord } from '../api/audit-list.ts';
import { Problem } from '../base/problem.ts';
import { accountArgument, accountNamed } from './team/accounts.ts';
import { storeRoute } from './server-route.ts';

const exact = z.string().max(200).optional();

export const auditOperations = {
  /**
   * Returns the newest acts first. `server`: acts that concern no account, such as those on the queue, the settings and the server
   * itself; with `account` both, in one list. `strangers`: uses of keys that are not known, and how many were only counted.
   */
  'audit.list': storeRoute({
    body: z.strictObject({
      account: accountArgument,
      server: z.boolean().optional(),
      strangers: z.boolean().optional(),
      limit: z.int().min(1).max(1000).optional(),
      after: exact,
      before: exact,
      since: z.int().optional(),
      until: z.int().optional(),
      actor: exact,
      operation: exact,
      endpoint: exact,
      ip: exact,
      request_id: exact,
      object_type: exact,
      object_id: exact,
      status: z.int().optional(),
      result: z.enum(['ok', 'refused', 'failed', 'idempotency_mismatch']).optional(),
    }),
    async run(deps, { account, server = false, strangers = false, limit = 100, after, before, ...filter }) {
      const { db } = deps;
      const parts: AuditOf[] = strangers ? ['strangers'] : server ? ['server'] : [];
      if (parts.length === 0 || account !== undefined)
        parts.push({ accountId: (await accountNamed({ db }, account)).id });
      const by = strangers ? undefined : ('person' as const);
      const { rows, hasMore } = await pageOfParts({ db }, parts, { ...filter, by }, { limit, after, before });
      return {
        data: rows.map(auditRecord),
        has_more: hasMore,
        ...(strangers ? { not_kept: deps.strangerLines?.notKept ?? 0 } : {}),
      };
    },
  }),
  /** Returns one entry with its details. */
  'audit.show': storeRoute({
    body: z.strictObject({ id: z.string().max(100) }),
    async run({ db }, { id }) {
      const found = await findAuditEntry({ db }, id);
      if (found === null) throw new Problem('not_found', `there is no entry ${JSON.stringify(id)}`, { field: 'id' });
      return { ...auditDetails(found), account_id: found.row.account_id };
    },
  }),
};
