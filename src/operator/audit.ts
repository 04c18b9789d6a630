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
   * Returns the newest acts first, or with `by` the uses of keys. `server`: acts that concern no account, such as those on the queue, the settings
   * and the server itself; with `account` both, in one list. `strangers`: uses of keys that are not known, and how many were only counted.
   */
  'audit.list': storeRoute({
    body: z.strictObject({
      account: accountArgument,
      server: z.boolean().optional(),
      strangers: z.boolean().optional(),
      by: z.enum(['key', 'person']).optional(),
      limit: z.int().min(1).max(1000).optional(),
      after: exact,
      before: exact,
      since: z.int().optional(),
      until: z.int().optional(),
      key_id: exact,
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
    scope: 'audit:read',
    forMembers: { server: false, strangers: false },
    async run(deps, { account, server = false, strangers = false, by, limit = 100, after, before, ...filter }) {
      const { db } = deps;
      const parts: AuditOf[] = strangers ? ['strangers'] : server ? ['server'] : [];
      if (parts.length === 0 || account !== undefined)
        parts.push({ accountId: (await accountNamed({ db }, account)).id });
      const whose = strangers ? undefined : (by ?? 'person');
      const page = await pageOfParts({ db }, parts, { ...filter, by: whose }, { limit, after, before });
      const { rows, hasMore, first, last } = page;
      const isBack = before !== undefined;
      return {
        data: rows.map(auditRecord),
        has_more: hasMore,
        next_cursor: isBack || hasMore ? last : null,
        previous_cursor: (isBack ? hasMore : after !== undefined) ? first : null,
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
