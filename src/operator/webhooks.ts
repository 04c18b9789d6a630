/** Operations on webhook endpoints: see them, and let one rest. */
import { z } from 'zod';
import { webhookRecord } from '../webhooks/endpoint.ts';
import { pageOfEndpoints, updateEndpoint } from '../webhooks/endpoint-store.ts';
import { accountArgument, accountNamed } from './accounts.ts';
import { onServer, onStore } from './operation.ts';

const MOST_LISTED = 1000;

export const webhookOperations = {
  'webhooks.list': onStore({
    acts: false,
    args: z.strictObject({ account: accountArgument }),
    async run(deps, { account }) {
      const { id: accountId } = await accountNamed(deps, account);
      return { data: (await pageOfEndpoints(deps, { accountId, limit: MOST_LISTED })).rows.map(webhookRecord) };
    },
  }),
  /** Pauses an endpoint, or brings back one that was paused or disabled. */
  'webhooks.enable': onServer({
    acts: true,
    args: z.strictObject({ id: z.string().max(100), enabled: z.boolean() }),
    async run(deps, { id, enabled }, act) {
      const store = {
        ...deps,
        changed: (webhookId: string) => {
          deps.webhookChanged(webhookId);
        },
      };
      const row = await updateEndpoint(store, { accountId: null, id }, { enabled }, ({ account_id: accountId }) => {
        act.concerns(accountId);
        return act.rows();
      });
      return webhookRecord(row);
    },
  }),
};
