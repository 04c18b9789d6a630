/** `/v1/domains`: the sending domains of an account, their DNS records, checks and DKIM keys. */
import { z } from 'zod';
import { LOCAL_PATTERN } from '../base/address-pattern.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Log } from '../base/log.ts';
import type { Resolver } from '../net/resolver.ts';
import { rotateDkim } from '../domains/dkim-rotation.ts';
import {
  addDomain,
  checkReturnPath,
  findDomain,
  pageOfDomains,
  removeDomain,
  updateDomain,
} from '../domains/domain-store.ts';
import { notesOn } from '../domains/lost-records.ts';
import { domainMembers, toDomainRecord, type DomainWithKeys } from '../domains/domain-record.ts';
import { verifyDomain } from '../domains/verify.ts';
import type { Database } from '../storage/database.ts';
import type { ChangeNotices } from './change-notices.ts';
import type { Cursors } from './cursor.ts';
import { Domain } from './domain-schemas.ts';
import { answerPage, pageParameters, pageResponse, type PageWanted } from './page.ts';
import { type Call, jsonResponse, type Reply, route, type Route } from './route.ts';
import { answerChange, createdReply } from './answer-change.ts';

export interface DomainsDeps {
  db: Pick<Database, 'commit' | 'reader'>;
  clock: Clock;
  keyring: Keyring;
  resolver: Pick<Resolver, 'txt' | 'mx' | 'a' | 'aaaa' | 'cname'>;
  cursors: Cursors;
  /** Name of this mail server: the DNS records point to it. */
  hostname: string;
  /** Host that tracking hosts of domains point to; null if tracking hosts are off. */
  trackingTarget: string | null;
  /** How long a domain keeps sending after it lost a record. */
  domainGraceMs: number;
  log: Pick<Log, 'info' | 'warn'>;
  changes: Pick<ChangeNotices, 'domainChanged'>;
}

const PATH = '/v1/domains';
const LONGEST_NAME = 300;

const answer = (description: string) => jsonResponse(description, Domain, 'A domain');

const params = z.object({ id: z.string().max(LONGEST_NAME).describe('Id of the domain, or its name.') });
type Params = z.output<typeof params>;

export function domainRoutes(deps: DomainsDeps): Route[] {
  return [
    listRoute(deps),
    addRoute(deps),
    readRoute(deps),
    changeRoute(deps),
    removeRoute(deps),
    verifyRoute(deps),
    rotateRoute(deps),
  ];
}

const domainOf = ({ params: { id }, caller }: Call<Params, unknown, unknown>) => ({
  accountId: caller.accountId,
  nameOrId: id,
});

function recordOf({ hostname, trackingTarget, clock }: DomainsDeps, domain: DomainWithKeys) {
  const record = toDomainRecord(domain, hostname, trackingTarget);
  return { ...record, notes: notesOn(record, clock.now()) };
}

const storeOf = (deps: DomainsDeps) => ({ ...deps, changed: deps.changes.domainChanged });

function listRoute(deps: DomainsDeps): Route {
  const { db, cursors } = deps;
  return route(
    {
      method: 'GET',
      path: PATH,
      operationId: 'listDomains',
      description: 'The verified domains of the account, newest first; `status=any` lists all.',
      scope: ['domain:read'],
      query: z.strictObject({
        ...pageParameters(),
        status: z.enum(['verified', 'pending', 'failed', 'any']).optional().describe('`verified` if not given.'),
      }),
      responses: pageResponse('A page of domains.', Domain, 'One domain'),
    },
    (call) => {
      const { status = 'verified' } = call.query;
      const read = async (wanted: PageWanted) => {
        const { domains, hasMore } = await pageOfDomains(
          { db },
          { ...wanted, ...(status === 'any' ? {} : { status }) },
        );
        return { data: domains.map((domain) => recordOf(deps, domain)), hasMore };
      };
      return answerPage(cursors, PATH, call, read, { status });
    },
  );
}

const NewDomain = z.strictObject({
  name: z.string().min(1).max(LONGEST_NAME).describe('The domain behind the `@` of the senders.'),
  return_path: z
    .string()
    .min(1)
    .max(LONGEST_NAME)
    .optional()
    .describe('Host that bounces go to, the domain or a name below it; `rp.<name>` if not given.'),
  track_opens: z.boolean().nullable().optional().describe('Null: the setting of the account applies.'),
  track_clicks: z.boolean().nullable().optional().describe('Null: the setting of the account applies.'),
});

function addRoute(deps: DomainsDeps): Route {
  return route(
    {
      method: 'POST',
      path: PATH,
      operationId: 'createDomain',
      description:
        'Makes its DKIM keys and says which DNS records to publish. It can be sent from once they are found: ask with `POST /v1/domains/{id}/verify`. An account has at most 1,000.',
      scope: ['domain'],
      act: { says: 'added the domain {name}', type: 'domain', named: 'name', keeps: domainMembers.audited },
      operatorBody: NewDomain.extend({ trusted: z.boolean().optional() }),
      body: NewDomain.meta({ id: 'NewDomain', description: 'A domain to send from.' }),
      bodyExamples: { minimal: { summary: 'The name alone', value: { name: 'acme.example' } } },
      responses: { 201: { ...answer('The new domain.'), headers: { Location: 'Path of the domain.' } } },
      problems: ['already_exists', 'invalid_state'],
    },
    async (call: Call<object, object, z.output<typeof NewDomain> & { trusted?: boolean | undefined }>) => {
      const {
        name,
        trusted = false,
        return_path: returnPath,
        track_opens: trackOpens,
        track_clicks: trackClicks,
      } = call.body;
      // The operator may have bounces go elsewhere; a customer could so send under the name of another customer's domain.
      if (returnPath !== undefined && call.caller.isOperator !== true) checkReturnPath(name, returnPath);
      const replyOf = (domain: DomainWithKeys): Reply => createdReply(PATH, recordOf(deps, domain));
      const added = {
        accountId: call.caller.accountId,
        name,
        trusted,
        trackOpens,
        trackClicks,
        ...(returnPath === undefined ? {} : { returnPath }),
      };
      return answerChange(call, replyOf, (rowsFor) => addDomain(storeOf(deps), added, rowsFor));
    },
  );
}

function readRoute(deps: DomainsDeps): Route {
  return route(
    {
      method: 'GET',
      path: `${PATH}/{id}`,
      operationId: 'getDomain',
      description: 'With its DNS records and what the last check found for each.',
      scope: ['domain:read'],
      params,
      responses: { 200: answer('The domain.') },
    },
    async (call) => ({ status: 200, body: recordOf(deps, await findDomain(deps, domainOf(call))) }),
  );
}

function changeRoute(deps: DomainsDeps): Route {
  return route(
    {
      method: 'PATCH',
      path: `${PATH}/{id}`,
      operationId: 'updateDomain',
      description:
        'Changes tracking, the return path, and whether it receives mail. A new return path needs new DNS records: publish them first, since the next check looks for them.',
      scope: ['domain'],
      act: { says: 'changed the domain {name}', type: 'domain', named: 'name', keeps: domainMembers.audited },
      params,
      body: z
        .strictObject({
          track_opens: z.boolean().nullable().optional().describe('Null: the setting of the account applies.'),
          track_clicks: z.boolean().nullable().optional().describe('Null: the setting of the account applies.'),
          return_path: z.string().min(1).max(LONGEST_NAME).optional().describe('The domain or a name below it.'),
          receiving: z.boolean().optional().describe('Whether mail to it is taken; needs the `mx` record.'),
          receiving_addresses: z
            .array(z.string().regex(LOCAL_PATTERN))
            .min(1)
            .max(100)
            .optional()
            .describe('Local parts that take mail: `support`, `reply+*` for all that begin so, or `*`.'),
        })
        .meta({ id: 'DomainChanges', description: 'The members to change; all others stay the same.' }),
      bodyExamples: {
        tracking: { summary: 'Track clicks', value: { track_clicks: true } },
        receiving: {
          summary: 'Receive answers',
          value: { receiving: true, receiving_addresses: ['support', 'reply+*'] },
        },
      },
      responses: { 200: answer('The domain as it is now.') },
    },
    async (call) => {
      const before = recordOf(deps, await findDomain(deps, domainOf(call)));
      const replyOf = (domain: DomainWithKeys): Reply => ({ status: 200, body: recordOf(deps, domain), before });
      return answerChange(call, replyOf, (rowsFor) => updateDomain(storeOf(deps), domainOf(call), call.body, rowsFor));
    },
  );
}

function removeRoute(deps: DomainsDeps): Route {
  return route(
    {
      method: 'DELETE',
      path: `${PATH}/{id}`,
      operationId: 'deleteDomain',
      description:
        'Removes it with its DKIM keys. Refused while mail from it waits, since that mail could no longer be signed.',
      scope: ['domain'],
      act: { says: 'removed the domain {name}', type: 'domain', named: 'name', keeps: domainMembers.audited },
      params,
      responses: { 204: { description: 'Removed.' } },
      problems: ['invalid_state'],
    },
    async (call) => {
      const replyOf = (domain: DomainWithKeys): Reply => ({ status: 204, body: null, before: recordOf(deps, domain) });
      return answerChange(call, replyOf, (rowsFor) => removeDomain(storeOf(deps), domainOf(call), rowsFor));
    },
  );
}

function verifyRoute(deps: DomainsDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/verify`,
      operationId: 'verifyDomain',
      description:
        'Looks up every record again. The domain is verified when all required ones are found; DKIM keys that are found begin to sign. A verified domain that lost a required record keeps sending until `refused_at`, and becomes `failed` only when a check after that still finds it missing. A record for which DNS gives no answer keeps its last status.',
      scope: ['domain:verify'],
      act: { says: 'checked the DNS records of {name}', type: 'domain', named: 'name', keeps: domainMembers.audited },
      params,
      responses: { 200: answer('The domain with what was found.') },
    },
    async (call) => {
      const before = recordOf(deps, await findDomain(deps, domainOf(call)));
      const replyOf = (domain: DomainWithKeys): Reply => ({ status: 200, body: recordOf(deps, domain), before });
      const store = { ...storeOf(deps), graceMs: deps.domainGraceMs };
      return answerChange(call, replyOf, (rowsFor) => verifyDomain(store, domainOf(call), rowsFor));
    },
  );
}

function rotateRoute(deps: DomainsDeps): Route {
  return route(
    {
      method: 'POST',
      path: `${PATH}/{id}/dkim/rotate`,
      operationId: 'rotateDomainDkim',
      description:
        'The new keys are `pending` until DNS shows their records; then they sign and the old ones are `retiring`: leave their records for 7 days, after which the keys are removed.',
      scope: ['domain:dkim'],
      act: { says: 'made new DKIM keys for {name}', type: 'domain', named: 'name', keeps: ['dkim'] },
      params,
      operatorBody: z.strictObject({ at_once: z.boolean().optional() }),
      responses: { 200: answer('The domain with its new keys.') },
      problems: ['invalid_state'],
    },
    async (call: Call<Params, object, { at_once?: boolean | undefined } | undefined>) => {
      const before = recordOf(deps, await findDomain(deps, domainOf(call)));
      const replyOf = (domain: DomainWithKeys): Reply => ({ status: 200, body: recordOf(deps, domain), before });
      const atOnce = call.body?.at_once === true;
      return answerChange(call, replyOf, (alsoInTransaction) =>
        rotateDkim(storeOf(deps), domainOf(call), { atOnce, alsoInTransaction }),
      );
    },
  );
}
