/**
 * Moments that may have changed a reputation, in the order of time: block lists that list an address of ours or remove it, sites
 * that refuse one, and changed settings. They are for the time line next to the statistics.
 */
import type { Knex } from 'knex';
import { z } from 'zod';
import { idFloor } from '../../base/id.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import { sourceWords, type AuditRow, type LimitRow, type ListingRow } from '../../storage/tables.ts';
import { accountArgument, accountNamed } from '../team/accounts.ts';
import { readListings } from '../listings.ts';
import { storeRoute } from '../server-route.ts';
import { DAY_MS } from '../../base/time.ts';

export interface ReputationMoment {
  at: string;
  kind: 'listed' | 'unlisted' | 'blocked' | 'changed';
  what: string;
  /** The person who did it; null if it was not one of ours. */
  by: string | null;
}

export const reputationMomentOperations = {
  'reputation.moments': storeRoute({
    scope: 'stats:read',
    forMembers: { server: false },
    body: z.strictObject({
      account: accountArgument,
      days: z.int().min(1).max(400).optional(),
      /** Includes moments that concern the server; only administrators see them. */
      server: z.boolean().optional(),
    }),
    async run({ db, clock }, { account, days = 30, server = true }) {
      const { id } = await accountNamed({ db }, account);
      const since = clock.now() - days * DAY_MS;
      const [{ listings, checks }, blocks, changes, ours] = await Promise.all([
        readListings(db, since),
        server ? db.reader<LimitRow>('limits').where('kind', 'block_list').where('since', '>=', since).limit(MOST) : [],
        changesOf(db.reader, id, since),
        server ? changesOf(db.reader, null, since) : [],
      ]);
      const data = [
        ...listings.flatMap((row) => listingMoments(row, since)),
        ...blocks.map(blockMoment),
        ...[...changes, ...ours].map(changeMoment),
      ].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
      const asked = checks.map(({ ip, list, state, at }) => ({ ip, list, state, at: rfc3339(at) }));
      return { object: 'reputation_moments' as const, data, checks: asked };
    },
  }),
};

const MOST = 200;

function listingMoments({ ip, list, since: from, until, codes }: ListingRow, since: number): ReputationMoment[] {
  const listed: ReputationMoment = { at: rfc3339(from), kind: 'listed', what: `${ip} by ${list} (${codes})`, by: null };
  const over: ReputationMoment[] =
    until === null ? [] : [{ at: rfc3339(until), kind: 'unlisted', what: `${ip} by ${list}`, by: null }];
  return from < since && until !== null ? over : [listed, ...over];
}

const blockMoment = ({ source, site, domain, since, cause }: LimitRow): ReputationMoment => ({
  at: rfc3339(since),
  kind: 'blocked',
  what: `${sourceWords(source)} by ${site === '' ? 'several sites' : domain === null ? site : `${site} (${domain})`}: ${cause}`,
  by: null,
});

/** Acts of people that may change how mail is taken, by their operations. */
const changes: ReadonlySet<string> = new Set([
  'updateSettings',
  'createDomain',
  'updateDomain',
  'deleteDomain',
  'rotateDomainDkim',
  'createStream',
  'updateStream',
  'deleteStream',
  'accounts.plan',
  'accounts.pause',
  'queue.hold',
  'queue.release',
  'queue.limit',
  'queue.unblock',
]);

/** Reads the small index of acts of people. `accountId` null: acts that concern no account. */
async function changesOf(read: Knex, accountId: string | null, since: number): Promise<AuditRow[]> {
  const query = read<AuditRow>('audit').whereNull('key_id').andWhere('id', '>=', idFloor('aud', since));
  if (accountId === null) query.whereNull('account_id');
  else query.andWhere({ account_id: accountId });
  query.andWhere({ result: 'ok' }).whereIn('operation', [...changes]);
  return await query.orderBy('id', 'desc').limit(MOST);
}

const changeMoment = (row: AuditRow): ReputationMoment => ({
  at: rfc3339(row.at),
  kind: 'changed',
  what: row.summary ?? row.endpoint,
  by: row.actor,
});
