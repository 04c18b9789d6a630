/** The setting `delivery.sources`: the addresses that mail leaves from, and the pools they stand in. */
import { isIPv4, isIPv6 } from 'node:net';
import { z } from 'zod';
import { isHostName } from './endpoint.ts';
import type { Kind } from './kind.ts';

export interface SourceSetting {
  /** As attempts, logs and lanes show it. */
  name: string;
  pool: string;
  /** Address of this machine that connections over IPv4 come from, or null where nothing leaves over IPv4. */
  ipv4: string | null;
  ipv6: string | null;
  /** Its name in EHLO; null for `smtp.hostname`. */
  ehlo: string | null;
  /** Null where it is warm; otherwise since when it is warmed up, in ms since the epoch, or null for its first mail. */
  warmUp: { since: number | null } | null;
}

const FORM = '{ name, ipv4, ipv6, ehlo, pool, warmUp }';
const MOST_SOURCES = 100;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

const slug = (what: string) =>
  z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, { error: `${what} of lower-case letters, digits and hyphens` });
const day = z.string().refine((written) => DAY.test(written) && !Number.isNaN(Date.parse(written)), {
  error: 'a day such as 2026-01-31',
});

const source = z
  .strictObject({
    name: slug('a name'),
    pool: slug('a pool').default('default'),
    ipv4: z.string().refine(isIPv4, { error: 'an IPv4 address' }).nullable().default(null),
    ipv6: z.string().refine(isIPv6, { error: 'an IPv6 address' }).nullable().default(null),
    ehlo: z.string().refine(isHostName, { error: 'a host name' }).nullable().default(null),
    warmUp: z
      .union([z.boolean(), day], { error: 'true, false, or the day it began' })
      .default(false)
      .transform((written) => (written === false ? null : { since: written === true ? null : Date.parse(written) })),
  })
  .refine(({ ipv4, ipv6 }) => ipv4 !== null || ipv6 !== null, { error: 'ipv4, ipv6 or both' });

/** No two of the same name. */
export function sources(): Kind<SourceSetting[]> {
  const expected = `at most ${String(MOST_SOURCES)} sources, each ${FORM} with a name of its own`;
  const schema = z
    .array(source, { error: expected })
    .max(MOST_SOURCES, { error: expected })
    .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, { error: expected });
  return { form: 'list', expected, unit: null, schema };
}
