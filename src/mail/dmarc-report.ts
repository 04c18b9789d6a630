/**
 * DMARC aggregate reports (RFC 7489 section 7.2 and appendix C): the mails that receivers saw under the name of our domain. The XML is read
 * as a stream of tags and texts, without any entity but those of XML itself; what is beyond the limits is left out. Anyone may
 * send one, so nothing of it is kept as it was written: enumerations become one of their values, names are host names or nothing.
 */
import { isIP } from 'node:net';
import { Parser } from 'htmlparser2';
import { hostNameOr, oneOf, shortText } from './report-values.ts';

export interface DmarcReport {
  organization: string;
  id: string;
  /** The domain whose policy was asked for, lower case. */
  domain: string;
  /** Milliseconds since the epoch. */
  from: number;
  until: number;
  /** `none`, `quarantine`, `reject` or `unknown`. */
  policy: string;
  records: readonly DmarcRecord[];
  /** Records with a value that no reporter writes: a report of which these are the most is none. */
  unsound: number;
}

export interface DmarcRecord {
  source_ip: string;
  count: number;
  /** As `policy`. */
  disposition: string;
  /** The result with a domain that is aligned: `pass`, `fail` or `unknown`. */
  dkim: string;
  spf: string;
  header_from: string;
  envelope_from: string;
  /** Of the first signature and the first check, aligned or not. */
  dkim_domain: string;
  dkim_selector: string;
  dkim_result: string;
  spf_domain: string;
  spf_result: string;
}

const MOST_RECORDS = 5000;
const DEEPEST = 12;
const MOST_NESTED = 100;
const CHUNK = 4096;
const LONGEST_TEXT = 253;

const POLICIES = ['none', 'quarantine', 'reject'] as const;
/**
 * The revision of DMARC (draft-ietf-dmarc-aggregate-reporting) has a value of its own for mail that passed; RFC 7489 has the same as for
 * mail that no policy was applied to. We keep the older one, so that the reports of both add up.
 */
const PASSED = 'pass';
const ALIGNED = ['pass', 'fail'] as const;
const DKIM_RESULTS = ['none', 'pass', 'fail', 'policy', 'neutral', 'temperror', 'permerror'] as const;
/** Appendix C of RFC 7489 tells of `error` and `unknown`, which many reporters write for errors. */
const SPF_RESULTS = [
  'none',
  'neutral',
  'pass',
  'fail',
  'softfail',
  'temperror',
  'permerror',
  'hardfail',
  'error',
  'unknown',
] as const;

/** Path of a member in the document, without the root and namespace prefixes. */
const ofReport = {
  'report_metadata/org_name': 'organization',
  'report_metadata/report_id': 'id',
  'report_metadata/date_range/begin': 'begin',
  'report_metadata/date_range/end': 'end',
  'policy_published/domain': 'domain',
  'policy_published/p': 'policy',
} as const;
const ofRecord = {
  'record/row/source_ip': 'source_ip',
  'record/row/count': 'count',
  'record/row/policy_evaluated/disposition': 'disposition',
  'record/row/policy_evaluated/dkim': 'dkim',
  'record/row/policy_evaluated/spf': 'spf',
  'record/identifiers/header_from': 'header_from',
  'record/identifiers/envelope_from': 'envelope_from',
  'record/auth_results/dkim/domain': 'dkim_domain',
  'record/auth_results/dkim/selector': 'dkim_selector',
  'record/auth_results/dkim/result': 'dkim_result',
  'record/auth_results/spf/domain': 'spf_domain',
  'record/auth_results/spf/result': 'spf_result',
} as const;

type Texts = Partial<Record<string, string>>;

/** Reads a report; null for another document. Never throws. */
export function readDmarcReport(xml: string): DmarcReport | null {
  const { report, records, root } = read(xml);
  const [from, until] = [seconds(report['begin']), seconds(report['end'])];
  const domain = hostNameOr(report['domain']);
  if (root !== 'feedback' || domain === null || domain === '' || from === null || until === null || until < from)
    return null;
  const found = records.flatMap(recordFrom);
  return {
    organization: shortText(report['organization']),
    id: shortText(report['id']),
    domain,
    from,
    until,
    policy: oneOf(POLICIES, report['policy']) ?? 'unknown',
    records: found.map(({ record }) => record),
    unsound: found.filter(({ isSound }) => !isSound).length,
  };
}

function read(xml: string): { root: string; report: Texts; records: Texts[] } {
  const report: Texts = {};
  const records: Texts[] = [];
  const path: string[] = [];
  let text = '';
  const keep = (into: Texts, name: string): void => {
    const value = text.replace(/[\x00-\x1f\x7f]/g, ' ').trim();
    // Of several signatures the first; an empty element says nothing.
    if (value !== '') into[name] ??= value.slice(0, LONGEST_TEXT).toWellFormed();
  };
  let root = '';
  const parser = new Parser(
    {
      onopentag(tag) {
        const name = tag.slice(tag.indexOf(':') + 1);
        if (path.length === 0 && root === '') root = name;
        path.push(name);
        text = '';
        if (path.length === 2 && name === 'record' && records.length < MOST_RECORDS) records.push({});
      },
      ontext(part) {
        if (path.length <= DEEPEST && text.length <= LONGEST_TEXT) text += part;
      },
      onclosetag() {
        const place = path.length > DEEPEST ? '' : path.slice(1).join('/');
        const own = Object.hasOwn(ofReport, place) ? ofReport[place as keyof typeof ofReport] : null;
        const ofOne = Object.hasOwn(ofRecord, place) ? ofRecord[place as keyof typeof ofRecord] : null;
        const record = records.at(-1);
        if (own !== null) keep(report, own);
        else if (ofOne !== null && record !== undefined) keep(record, ofOne);
        path.pop();
        text = '';
      },
    },
    { xmlMode: true, decodeEntities: true },
  );
  // The parser's cost grows with the depth, so what is nested without end must be found soon.
  for (let at = 0; at < xml.length && path.length <= MOST_NESTED; at += CHUNK) parser.write(xml.slice(at, at + CHUNK));
  return { root, report, records };
}

function dispositionOf(text: string | undefined): string | null {
  const value = oneOf([...POLICIES, PASSED], text);
  return value === PASSED ? 'none' : value;
}

function recordFrom(texts: Texts): { record: DmarcRecord; isSound: boolean }[] {
  const { source_ip = '', count = '' } = texts;
  if (isIP(source_ip) === 0 || !/^\d{1,12}$/.test(count)) return [];
  const values = {
    disposition: dispositionOf(texts['disposition']),
    dkim: oneOf(ALIGNED, texts['dkim']),
    spf: oneOf(ALIGNED, texts['spf']),
    dkim_result: oneOf(DKIM_RESULTS, texts['dkim_result']),
    spf_result: oneOf(SPF_RESULTS, texts['spf_result']),
  };
  const names = {
    header_from: hostNameOr(texts['header_from']),
    envelope_from: hostNameOr(texts['envelope_from']),
    dkim_domain: hostNameOr(texts['dkim_domain']),
    dkim_selector: hostNameOr(texts['dkim_selector']),
    spf_domain: hostNameOr(texts['spf_domain']),
  };
  const of = (value: string | null): string => value ?? 'unknown';
  const record = {
    source_ip: source_ip.toLowerCase(),
    count: Number(count),
    disposition: of(values.disposition),
    dkim: of(values.dkim),
    spf: of(values.spf),
    header_from: names.header_from ?? '',
    envelope_from: names.envelope_from ?? '',
    dkim_domain: names.dkim_domain ?? '',
    dkim_selector: names.dkim_selector ?? '',
    dkim_result: of(values.dkim_result),
    spf_domain: names.spf_domain ?? '',
    spf_result: of(values.spf_result),
  };
  return [{ record, isSound: [...Object.values(values), ...Object.values(names)].every((value) => value !== null) }];
}

const seconds = (text: string | undefined): number | null =>
  text !== undefined && /^\d{1,11}$/.test(text) ? Number(text) * 1000 : null;
