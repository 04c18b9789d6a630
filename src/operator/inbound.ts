/** The operation that tries whether a mail that comes back is recognised. */
import { z } from 'zod';
import { onServer } from './operation.ts';

export interface SelfTestRecord {
  object: 'self_test';
  ok: boolean;
  /** What is wrong, or null. */
  why: string | null;
  ms: number;
}

export const inboundOperations = {
  /** Takes half a minute at the most. Nobody's numbers change by it. */
  'inbound.selfTest': onServer({
    acts: false,
    args: z.strictObject({}),
    async run(deps): Promise<SelfTestRecord> {
      return { object: 'self_test', ...(await deps.selfTest()) };
    },
  }),
};
