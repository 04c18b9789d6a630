/** `/v1/domains`: the sending domains of an account, their DNS records, checks and DKIM keys. */
import { z } from 'zod';
import { LOCAL_PATTERN } from '../base/address-pattern.ts';
import { rotateDkim } from '../domains/dkim-rotation.ts';
import { dkimMembers, domainMembers, toDomainRecord, type DomainWithKeys } from '../domains/domain-record.ts';
import {
  addDomain,
  checkReturnPath,
  findDomain,
  pageOfDomains,
  removeDomain,
  updateDomain,
} from '../domains/domain-store.ts';
import { notesOn } from '../domains/lost-records.ts';
import { formsOf } from '../domains/dns-records.ts';
import { mistakes } from '../domains/record-mistakes.ts';
import { verifyDomain } from '../domains/verify.ts';
import type { RowsFor } from '../storage/rows.ts';
import { answerChange, created, removed, updated, type Call, type Reply } from './route.ts';
import type { StoreContext } from './context.ts';
import { pageParameters } from './page.ts';
import { flag, maybe, maybeTime, maybeWhole, namedRequest, recordSchema, shows, text, texts } from './record-schema.ts';
import { resource } from './resource.ts';

const PATH = '/v1/domains';
const LONGEST_NAME = 300;
const CHECKED = '2026-01-31T09:30:02.481Z';

const dnsRecord = z.object({
  purpose: z
    .enum(['dkim', 'spf', 'return_path', 'dmarc', 'dmarc_consent', 'tracking', 'mx'])
    .describe(
      'What the record is for. `dmarc_consent` is at the host of this server that gets the DMARC reports, if that belongs to another organization. `mx` brings mail to a domain that receives.',
    ),
  type: text('Type of the DNS record.'),
  host: text('Name of the DNS record.'),
  value: text('What the record must say.'),
  required: flag('Whether the domain can be verified without it.'),
  forms: z
    .object({
      name: text('The host without the registered domain, as many web forms want it; `@` for the domain itself.'),
      quoted: maybe('The value of a TXT record as quoted strings of at most 255 bytes; null for other types.'),
      zone_line: text('The record as a line of a zone file.'),
      priority: maybeWhole('The number of an MX record; null for other types.'),
      target: maybe('The host that an MX record or an alias leads to; null for TXT.'),
    })
    .describe('The record as the forms of DNS providers take it.'),
  status: z.enum(['ok', 'missing', 'wrong']).describe('What the last check found.'),
  found: maybe('What DNS answered at the last check.'),
  mistake: z
    .enum(mistakes)
    .nullable()
    .describe('How the record went wrong, if that was recognised. There may be more values in the future.'),
  cure: maybe('What to do about it, in whole sentences; null if it is right or was never looked up.'),
  checked_at: maybeTime('When it was last looked up.'),
});

function published(purpose: 'return_path' | 'spf', type: 'MX' | 'TXT', value: string): z.output<typeof dnsRecord> {
  const record = { host: 'rp.acme.example', type, value };
  const found = { status: 'ok', found: value, mistake: null, cure: null, checked_at: CHECKED } as const;
  return { purpose, type, host: record.host, value, required: true, forms: formsOf(record), ...found };
}

const Domain = recordSchema(
  domainMembers,
  { id: 'Domain', description: 'A sending domain and the DNS records it needs.' },
  {
    records: shows(z.array(dnsRecord), [
      published('return_path', 'MX', '10 mail.posthorn.example'),
      published('spf', 'TXT', 'v=spf1 a:mail.posthorn.example ~all'),
    ]),
    dkim: z.array(recordSchema(dkimMembers)),
    notes: texts('Remarks on its state, in whole sentences.'),
  },
);

const params = z.object({ id: z.string().max(LONGEST_NAME).describe('Id of the domain, or its name.') });
type Params = z.output<typeof params>;

const kind = resource({
  path: PATH,
  params,
  schema: Domain,
  reads: 'domain:read',
  changes: 'domain',
  type: 'domain',
  named: 'name',
  audited: domainMembers.audited,
});

const domainOf = ({ params: { id }, caller }: Call<Params, unknown, unknown>) => ({
  accountId: caller.accountId,
  nameOrId: id,
});

const recordOf =
  ({ hostname, trackingTarget, clock }: StoreContext) =>
  (domain: DomainWithKeys) => {
    const record = toDomainRecord(domain, hostname, trackingTarget);
    return { ...record, notes: notesOn(record, clock.now()) };
  };

const storeOf = (context: StoreContext) => ({ ...context, changed: context.changes.domainChanged });

/** Changes a domain, whose record before that is for the audit. */
async function changed(
  call: Call<Params, object, unknown>,
  context: StoreContext,
  change: (rowsFor: RowsFor<DomainWithKeys>) => Promise<unknown>,
): Promise<Reply> {
  const record = recordOf(context);
  return answerChange(call, updated(record, record(await findDomain(context, domainOf(call)))), change);
}

const list = kind.list(
  {
    operationId: 'listDomains',
    description: 'The verified domains of the account, newest first; `status=any` lists all.',
    query: z.strictObject({
      ...pageParameters(),
      status: z.enum(['verified', 'pending', 'failed', 'any']).optional().describe('`verified` if not given.'),
    }),
  },
  async (wanted, { query: { status = 'verified' } }, context) => {
    const filter = { ...wanted, ...(status === 'any' ? {} : { status }) };
    const { domains, hasMore } = await pageOfDomains(context, filter);
    return { data: domains.map(recordOf(context)), hasMore };
  },
);

const tracking = () => z.boolean().nullable().optional().describe('Null: the setting of the account applies.');

const NewDomain = z.strictObject({
  name: z.string().min(1).max(LONGEST_NAME).describe('The domain behind the `@` of the senders.'),
  return_path: z
    .string()
    .min(1)
    .max(LONGEST_NAME)
    .optional()
    .describe('Host that bounces go to, the domain or a name below it; `rp.<name>` if not given.'),
  track_opens: tracking(),
  track_clicks: tracking(),
});

const create = kind.create(
  {
    operationId: 'createDomain',
    description:
      'Makes its DKIM keys and says which DNS records to publish. It can be sent from once they are found: ask with `POST /v1/domains/{id}/verify`. An account has at most 1,000.',
    says: 'added the domain {name}',
    operatorBody: NewDomain.extend({ trusted: z.boolean().optional() }),
    body: NewDomain.meta({ id: 'NewDomain', description: 'A domain to send from.' }),
    bodyExamples: { minimal: { summary: 'The name alone', value: { name: 'acme.example' } } },
    problems: ['already_exists', 'invalid_state'],
  },
  async (
    call: Call<object, object, z.output<typeof NewDomain> & { trusted?: boolean | undefined }>,
    context: StoreContext,
  ) => {
    const { name, trusted = false, return_path: returnPath, track_opens, track_clicks } = call.body;
    const { accountId, isOperator } = call.caller;
    // The operator may have bounces go elsewhere; a customer could so send under the name of another customer's domain.
    if (returnPath !== undefined && isOperator !== true) checkReturnPath(name, returnPath);
    const added = {
      accountId,
      name,
      trusted,
      trackOpens: track_opens,
      trackClicks: track_clicks,
      ...(returnPath === undefined ? {} : { returnPath }),
    };
    return answerChange(call, created(PATH, recordOf(context)), (rowsFor) =>
      addDomain(storeOf(context), added, rowsFor),
    );
  },
);

const get = kind.get(
  { operationId: 'getDomain', description: 'With its DNS records and what the last check found for each.' },
  async (call, context) => recordOf(context)(await findDomain(context, domainOf(call))),
);

const update = kind.update(
  {
    operationId: 'updateDomain',
    description:
      'Changes tracking, the return path, and whether it receives mail. A new return path needs new DNS records: publish them first, since the next check looks for them.',
    says: 'changed the domain {name}',
    body: namedRequest('DomainChanges', 'The members to change; all others stay the same.', {
      track_opens: tracking(),
      track_clicks: tracking(),
      return_path: z.string().min(1).max(LONGEST_NAME).optional().describe('The domain or a name below it.'),
      receiving: z.boolean().optional().describe('Whether mail to it is taken; needs the `mx` record.'),
      receiving_addresses: z
        .array(z.string().regex(LOCAL_PATTERN))
        .min(1)
        .max(100)
        .optional()
        .describe('Local parts that take mail: `support`, `reply+*` for all that begin so, or `*`.'),
    }),
    bodyExamples: {
      tracking: { summary: 'Track clicks', value: { track_clicks: true } },
      receiving: {
        summary: 'Receive answers',
        value: { receiving: true, receiving_addresses: ['support', 'reply+*'] },
      },
    },
  },
  (call, context: StoreContext) =>
    changed(call, context, (rowsFor) => updateDomain(storeOf(context), domainOf(call), call.body, rowsFor)),
);

const remove = kind.remove(
  {
    operationId: 'deleteDomain',
    description:
      'Removes it with its DKIM keys. Refused while mail from it waits, since that mail could no longer be signed.',
    says: 'removed the domain {name}',
    problems: ['invalid_state'],
  },
  (call, context: StoreContext) =>
    answerChange(call, removed(recordOf(context)), (rowsFor) =>
      removeDomain(storeOf(context), domainOf(call), rowsFor),
    ),
);

const verify = kind.post(
  {
    path: `${PATH}/{id}/verify`,
    operationId: 'verifyDomain',
    description:
      'Looks up every record again. The domain is verified when all required ones are found; DKIM keys that are found begin to sign. A verified domain that lost a required record keeps sending until `refused_at`, and becomes `failed` only when a check after that still finds it missing. A record for which DNS gives no answer keeps its last status.',
    scope: ['domain:verify'],
    says: 'checked the DNS records of {name}',
  },
  (call, context: StoreContext) => {
    const store = { ...storeOf(context), graceMs: context.domainGraceMs };
    return changed(call, context, (rowsFor) => verifyDomain(store, domainOf(call), rowsFor));
  },
);

const rotate = kind.post(
  {
    path: `${PATH}/{id}/dkim/rotate`,
    operationId: 'rotateDomainDkim',
    description:
      'The new keys are `pending` until DNS shows their records; then they sign and the old ones are `retiring`: leave their records for 7 days, after which the keys are removed.',
    scope: ['domain:dkim'],
    says: 'made new DKIM keys for {name}',
    keeps: ['dkim'],
    operatorBody: z.strictObject({ at_once: z.boolean().optional() }),
    problems: ['invalid_state'],
  },
  (call: Call<Params, object, { at_once?: boolean | undefined } | undefined>, context: StoreContext) =>
    changed(call, context, (alsoInTransaction) =>
      rotateDkim(storeOf(context), domainOf(call), { atOnce: call.body?.at_once === true, alsoInTransaction }),
    ),
);

export const domainOperations = [list, create, get, update, remove, verify, rotate];
