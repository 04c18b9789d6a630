/** Sending domains: the DNS records to publish with what DNS says now, checks, DKIM keys, tracking. */
import type { Operations } from '../../client/types.ts';
import type { DomainRecord } from '../../domains/domain-record.ts';
import { capital, lostOf, lostText, recordName, stateOf, unansweredOf } from '../../domains/lost-records.ts';
import { checkTimes } from '../../domains/domain-watch.ts';
import { pageOf, pagerOf } from '../links.ts';
import { get, move, post, type Page, type Shown, type Visit } from '../page.ts';
import { resource } from '../resource.ts';
import { spanText } from '../words.ts';

const WHERE = '/domains';

export const domainPages: readonly Page[] = [
  ...resource({ path: WHERE, view: 'domains', title: 'Domains', load: list }),
  ...resource({
    path: `${WHERE}/:id`,
    view: 'domain',
    title: ({ domain }) => domain.name,
    load: details,
    reads: {
      track_opens: ({ form }) => ({ track_opens: flags[form.get('track_opens') ?? ''] ?? null }),
      track_clicks: ({ form }) => ({ track_clicks: flags[form.get('track_clicks') ?? ''] ?? null }),
    },
  }),
  get(`${WHERE}/:id/zone`, zone),
  post(`${WHERE}/:id/verify`, async (visit) => {
    const { params } = visit;
    const domain = own(await visit.ask('verifyDomain', { params }));
    // The page itself shows what is wrong.
    const isRight =
      domain.records.every(({ required, status }) => !required || status === 'ok') && unansweredOf(domain).length === 0;
    const said = 'All required DNS records were found: mail from it is sent.';
    return move(`${WHERE}/${params['id'] ?? ''}`, isRight ? said : undefined);
  }),
];

/** The types of answers leave each list of values open for those of later versions; an answer of this server has its own only. */
const own = (domain: Operations['getDomain']['answer']): DomainRecord => domain as DomainRecord;

async function list(visit: Visit) {
  const { query } = visit;
  const domains = await visit.ask('listDomains', { query: { status: 'any', ...pageOf(query) } });
  const rows = domains.data.map(own).map((domain) => ({
    ...domain,
    ...countsOf(domain),
    ...stateOnPage(domain),
  }));
  return { rows, pager: pagerOf(WHERE, query, domains) };
}

/** Counts the records that matter: an optional one that is not there is no fault, such as that of the next DKIM key. */
function countsOf({ records }: DomainRecord): { wrong: number; all: number } {
  const counted = records.filter(({ required, status, mistake }) => required || status === 'ok' || mistake !== null);
  return { wrong: counted.filter(({ status }) => status !== 'ok').length, all: counted.length };
}

async function details(visit: Visit) {
  const { grace } = visit.server.config.domains;
  const domain = own(await visit.ask('getDomain', { params: visit.params }));
  const { every, fresh } = checkTimes;
  const isFresh = Date.parse(domain.created_at) > visit.now - fresh.forMs;
  return {
    domain,
    record: domain,
    ...recordsOnPage(domain),
    ...stateOnPage(domain),
    graceText: grace === 0 ? null : spanText(grace),
    checkedEvery: spanText(isFresh ? fresh.every : every),
    isAwaited: domain.verified_at === null && !domain.trusted,
    here: `${WHERE}/${visit.params['id'] ?? ''}`,
    isOverdue: domain.refused_at !== null && Date.parse(domain.refused_at) <= visit.now,
    opens: flagName(domain.track_opens),
    clicks: flagName(domain.track_clicks),
  };
}

/** Returns the badge, the required records that are missing, and those that DNS did not answer for. */
export function stateOnPage(domain: DomainRecord) {
  const state = stateOf(domain);
  const lost = lostOf(domain.records);
  const unanswered = unansweredOf(domain);
  return {
    state,
    badge: state === 'unverified' ? domain.status : state,
    lost: domain.taken || (lost.length === 0 && state === 'unverified') ? null : capital(lostText(lost)),
    because: lostText(lost),
    unanswered:
      unanswered.length > 2 ? `${String(unanswered.length)} records` : unanswered.map(recordName).join(' and the '),
  };
}

type Part = 'current' | 'next' | 'old';

/** Returns the records in use, those of the next DKIM keys (while another key of the algorithm signs), and those of the last ones. */
function recordsOnPage(domain: DomainRecord): object {
  const { dkim, records, trusted } = domain;
  const isSigning = (algorithm: string): boolean =>
    dkim.some((key) => key.algorithm === algorithm && key.state === 'active');
  const partOf = ({ host, purpose }: DomainRecord['records'][number]): Part => {
    const key =
      purpose === 'dkim' ? dkim.find(({ selector }) => host.startsWith(`${selector}._domainkey.`)) : undefined;
    if (key?.state === 'retiring') return 'old';
    return key?.state === 'pending' && isSigning(key.algorithm) ? 'next' : 'current';
  };
  const of = (part: Part) =>
    records.filter((record) => partOf(record) === part).map((record) => recordOnPage(record, trusted, part));
  const [current, next, old] = [of('current'), of('next'), of('old')];
  const required = current.filter(({ isOptional }) => !isOptional);
  const oldUntil = dkim.map(({ removed_at: at }) => at ?? '').reduce((a, b) => (a > b ? a : b), '');
  return {
    required,
    optional: current.filter(({ isOptional }) => isOptional),
    zoneFile: required.map(({ forms }) => forms.zone_line).join('\n'),
    next,
    old,
    oldUntil,
    rotation: next.length + old.length > 0,
  };
}

/** Returns whether a record counts as missing: not before the first check, and never for a trusted domain. */
function recordOnPage(record: DomainRecord['records'][number], isTrusted: boolean, part: Part) {
  const { status, checked_at: checkedAt, purpose, required, value, found } = record;
  const state = isTrusted && status !== 'ok' ? 'not_needed' : status;
  return {
    ...record,
    badge: checkedAt === null ? (isTrusted ? 'not_needed' : 'not_asked') : state,
    isWrong: status !== 'ok',
    foundText: found?.replaceAll('\n', ' | ') ?? null,
    isOptional: part === 'next' ? value.includes('k=ed25519') : !required,
    purposeText: purposes[purpose],
  };
}

const purposes: Readonly<Record<DomainRecord['records'][number]['purpose'], string>> = {
  dkim: 'DKIM',
  spf: 'SPF',
  dmarc: 'DMARC',
  dmarc_consent: 'Consent to DMARC reports',
  return_path: 'Return path',
  tracking: 'Tracking',
  mx: 'Receiving',
};

const flags: Readonly<Record<string, boolean | null>> = { '': null, on: true, off: false };
const flagName = (value: boolean | null): string => (value === null ? '' : value ? 'on' : 'off');

/** Writes the records as a zone file (RFC 1035 section 5). */
async function zone(visit: Visit): Promise<Shown> {
  const domain = own(await visit.ask('getDomain', { params: visit.params }));
  const lines = domain.records.map(
    ({ required, purpose, forms }) => `; ${purpose}${required ? '' : ' (optional)'}\n${forms.zone_line}`,
  );
  return {
    kind: 'file',
    body: `${lines.join('\n')}\n`,
    type: 'text/plain; charset=utf-8',
    name: `${domain.name}.zone`,
  };
}
