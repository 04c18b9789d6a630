/** The setting `delivery.sources`: the addresses that mail leaves from, and their pools. */
import { isIPv4, isIPv6 } from 'node:net';
import { z } from 'zod';
import { isHostName, isNodeName } from './endpoint.ts';
import { orUnknown, textThat, type Kind } from './kind.ts';

const FORM = '{ name, ipv4, ipv6, ehlo, pool, warmUp, node }';
const MOST_SOURCES = 100;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

const slug = (what: string) =>
  textThat(`${what} of lower-case letters, digits and hyphens`, (written) => /^[a-z][a-z0-9-]{0,31}$/.test(written));
const day = textThat('a day such as 2026-01-31', (text) => DAY.test(text) && !Number.isNaN(Date.parse(text)));

const source = z
  .strictObject(
    {
      /** The name in attempts, logs and lanes. */
      name: slug('a name'),
      pool: slug('a pool').default('default'),
      /** Address of this machine for connections over IPv4, or null for none. */
      ipv4: textThat('an IPv4 address', isIPv4).nullable().default(null),
      ipv6: textThat('an IPv6 address', isIPv6).nullable().default(null),
      /** Its name in EHLO; null for `smtp.hostname`. */
      ehlo: textThat('a host name', isHostName).nullable().default(null),
      /** Null if receivers know the address; otherwise the start of its warm-up in ms since the epoch, or null for its first mail. */
      warmUp: z
        .union([z.boolean(), day], { error: 'true, false, or the day it began' })
        .default(false)
        .transform((written) => (written === false ? null : { since: written === true ? null : Date.parse(written) })),
      /** The `node.name` of the node whose address it is; null for an address that every node may use. */
      node: textThat('the name of a node', isNodeName).nullable().default(null),
    },
    { error: orUnknown(FORM) },
  )
  .refine(({ ipv4, ipv6 }) => ipv4 !== null || ipv6 !== null, { error: 'ipv4, ipv6 or both' });

export type SourceSetting = z.output<typeof source>;

export function sources(): Kind<SourceSetting[]> {
  const expected = `at most ${String(MOST_SOURCES)} sources, each ${FORM} with a name of its own`;
  const schema = z
    .array(source, { error: expected })
    .max(MOST_SOURCES, { error: expected })
    .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, { error: expected });
  return { form: 'list', expected, unit: null, schema };
}

/** Returns the pools none of whose sources this node may use. */
export const poolsElsewhere = (all: readonly Pick<SourceSetting, 'pool' | 'node'>[], node: string): string[] => {
  const usable = new Set(all.flatMap((one) => (one.node === null || one.node === node ? [one.pool] : [])));
  return [...new Set(all.map(({ pool }) => pool))].filter((pool) => !usable.has(pool));
};
