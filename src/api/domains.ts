/** `GET /v1/domains`: the caller's sending domains. */
import { z } from 'zod';
import { pageOfDomains } from '../domains/domain-store.ts';
import { toDomainRecord } from '../domains/domain-record.ts';
import type { Database } from '../storage/database.ts';
import type { Cursors } from './cursor.ts';
import { listName, listOf, pageParameters, pageReply, wantedPage, withoutCursors } from './page.ts';
import { route, type Route } from './route.ts';

export interface DomainsDeps {
  db: Pick<Database, 'commit' | 'read'>;
  cursors: Cursors;
  /** Our name in the mail world: the records point to it. */
  hostname: string;
}

const PATH = '/v1/domains';

const nullableTime = () => z.iso.datetime().nullable();

export const Domain = z
  .object({
    object: z.literal('domain'),
    id: z.string(),
    name: z.string(),
    status: z.enum(['pending', 'verified', 'failed']),
    records: z
      .array(
        z.object({
          purpose: z.enum(['dkim', 'spf', 'return_path', 'dmarc', 'tracking', 'mx']),
          type: z.string(),
          host: z.string(),
          value: z.string(),
          required: z.boolean(),
          status: z.enum(['ok', 'missing', 'wrong']),
          found: z.string().nullable().describe('What DNS answered at the last check.'),
          checked_at: nullableTime(),
        }),
      )
      .describe('The DNS records to publish, ready to paste.'),
    dkim: z.array(
      z.object({ selector: z.string(), algorithm: z.string(), state: z.enum(['active', 'pending', 'retiring']) }),
    ),
    return_path: z.string(),
    track_opens: z.boolean().nullable(),
    track_clicks: z.boolean().nullable(),
    created_at: z.iso.datetime(),
    verified_at: nullableTime(),
  })
  .meta({ id: 'Domain', description: 'A sending domain and the DNS records it needs.' });

export function domainRoutes({ db, cursors, hostname }: DomainsDeps): Route[] {
  return [
    route(
      {
        method: 'GET',
        path: PATH,
        operationId: 'listDomains',
        summary: 'List sending domains',
        description: 'The verified domains of the account, newest first; `status=any` lists all.',
        tag: 'domains',
        scope: ['domain:read'],
        query: z.strictObject({
          ...pageParameters(),
          status: z.enum(['verified', 'pending', 'failed', 'any']).optional().describe('`verified` where not given.'),
        }),
        responses: { 200: { description: 'A page of domains.', schema: listOf(Domain) } },
        problems: ['invalid_parameter', 'invalid_cursor', 'mutually_exclusive_fields'],
      },
      async ({ query, caller, search }) => {
        const { status = 'verified' } = query;
        const list = listName(`${PATH} ${caller.accountId}`, { status });
        const wanted = wantedPage(cursors, list, query);
        const { domains, hasMore } = await pageOfDomains(
          { db },
          { accountId: caller.accountId, ...(status === 'any' ? {} : { status }), ...wanted },
        );
        return pageReply(cursors, list, `${PATH}${withoutCursors(search)}`, wanted, {
          data: domains.map((domain) => toDomainRecord(domain, hostname)),
          hasMore,
          first: domains[0]?.row.id ?? null,
          last: domains.at(-1)?.row.id ?? null,
        });
      },
    ),
  ];
}
