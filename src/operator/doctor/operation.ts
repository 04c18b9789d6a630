/** The operation that examines the running server. Without a server, the command line runs the checks itself (doctor/reach.ts). */
import { z } from 'zod';
import { checkNames, examine, type CheckName } from './examine.ts';
import type { Finding } from './finding.ts';
import { serverProbes } from './probe.ts';
import { serverRoute } from '../server-route.ts';

export const doctorOperations = {
  /** Runs all checks, or only `checks`, at the same time. `dnssec`: try the DNS servers for DNSSEC in any case. */
  doctor: serverRoute({
    body: z.strictObject({
      checks: z
        .array(z.enum(checkNames as [CheckName, ...CheckName[]]))
        .min(1)
        .max(100)
        .optional(),
      dnssec: z.boolean().optional(),
    }),
    async run(deps, { checks = checkNames, dnssec = false }): Promise<{ data: Finding[] }> {
      return { data: await examine(serverProbes(deps, { wantsDnssec: dnssec }), checks) };
    },
  }),
};
