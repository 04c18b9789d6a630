/** Operations on API keys. */
import { z } from 'zod';
import { createKey, listKeys, revokeKey, toKeyRecord } from '../keys/key-store.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onStore } from './operation.ts';

const MOST_LISTED = 1000;
/** Ten years. */
const LONGEST_TTL_MS = 3650 * 86_400_000;

const names = (most: number) => z.array(z.string().max(300)).max(most);

export const keyOperations = {
  /** The key record with the key itself, which is shown this once. */
  'keys.create': onStore({
    acts: true,
    args: z.strictObject({
      name: z.string().max(1000),
      scopes: names(100),
      mode: z.enum(['live', 'test']).optional(),
      ttl_ms: z.int().min(1).max(LONGEST_TTL_MS).optional(),
      allowed_ips: names(100).optional(),
      domains: names(100).optional(),
      account: accountArgument,
    }),
    async run(
      deps,
      { name, scopes, mode = 'live', ttl_ms: ttl, allowed_ips: allowedIps = [], domains = [], account },
      act,
    ) {
      const { id: accountId } = await accountNamed(deps, account);
      act.concerns(accountId);
      const expiresAt = ttl === undefined ? null : deps.clock.now() + ttl;
      const request = { name, scopes, mode, allowedIps, domains, expiresAt, accountId, createdBy: 'operator' };
      const { row, key } = await createKey(deps, request);
      return { ...toKeyRecord(row, deps.clock.now()), key };
    },
  }),
  'keys.list': onStore({
    acts: false,
    args: z.strictObject({ account: accountArgument }),
    async run(deps, { account }) {
      const { id: accountId } = await accountNamed(deps, account);
      const rows = await listKeys(deps, { accountId, limit: MOST_LISTED });
      return { data: rows.map((row) => toKeyRecord(row, deps.clock.now())) };
    },
  }),
  /** No request that begins after this has answered is let in with the key. */
  'keys.revoke': onStore({
    acts: true,
    args: z.strictObject({ id: z.string().max(100) }),
    async run(deps, { id }, act) {
      const callers = {
        forget: (publicId: string) => {
          deps.forgetKey(publicId);
        },
      };
      const row = await revokeKey({ ...deps, callers }, { accountId: null, id });
      act.concerns(row.account_id);
      return toKeyRecord(row, deps.clock.now());
    },
  }),
};
