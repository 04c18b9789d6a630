/**
 * Aggregate reports of other mail systems about our domain: DMARC (RFC 7489 section 7.2 and appendix C) and SMTP TLS (RFC 8460 section 4.4). Anyone
 * may send one, so nothing is kept as written: enumerations become one of their values, names host names or nothing, and lists are cut. Pure.
 */
import { isIP } from 'node:net';
import { Parser } from 'htmlparser2';
import { gunzipSync, inflateRawSync } from 'node:zlib';

/** Longer names exist in standards only; a report of hostile ones must not become large. */
const LONGEST_NAME = 100;
const LONGEST_TEXT = 100;
const HOST_NAME = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){0,30}$/;

/** Reads a value: empty if there is none, null if no reporter writes such a one. */
type Reading = (text: string) => string | null;

const oneOf =
  (...values: readonly string[]): Reading =>
  (text) =>
    text === '' || values.includes(text.toLowerCase()) ? text.toLowerCase() : null;

/** A host name or a label of one, in lower case, without its last dot; of an address what follows its `@`. `<>` counts as none. */
const hostName: Reading = (text) => {
  const name = text.slice(0, 400).toLowerCase();
  const host = name.slice(name.lastIndexOf('@') + 1).replace(/[.>]$/, '');
  if (host === '' || host === '<') return '';
  return host.length <= LONGEST_NAME && HOST_NAME.test(host) ? host : null;
};

const policy = oneOf('none', 'quarantine', 'reject');
const aligned = oneOf('pass', 'fail');

/** Reads the disposition. The revision of DMARC has `pass` for mail that passed, RFC 7489 that of mail without a policy: kept, so both add up. */
const disposition: Reading = (text) => (text.toLowerCase() === 'pass' ? 'none' : policy(text));

/** Columns of a record, with their place in it. What cannot be read becomes empty if it is a name, else `unknown`. */
const columns = {
  disposition: ['row/policy_evaluated/disposition', disposition],
  /** The result with a domain that is aligned. */
  dkim: ['row/policy_evaluated/dkim', aligned],
  spf: ['row/policy_evaluated/spf', aligned],
  header_from: ['identifiers/header_from', hostName],
  envelope_from: ['identifiers/envelope_from', hostName],
  /** Of the first signature and the first check, aligned or not. */
  dkim_domain: ['auth_results/dkim/domain', hostName],
  dkim_selector: ['auth_results/dkim/selector', hostName],
  dkim_result: [
    'auth_results/dkim/result',
    oneOf('none', 'pass', 'fail', 'policy', 'neutral', 'temperror', 'permerror'),
  ],
  spf_domain: ['auth_results/spf/domain', hostName],
  // Many reporters write `error` and `unknown` of appendix C for errors.
  spf_result: [
    'auth_results/spf/result',
    oneOf('none', 'neutral', 'pass', 'fail', 'softfail', 'temperror', 'permerror', 'hardfail', 'error', 'unknown'),
  ],
} as const satisfies Record<string, readonly [place: string, read: Reading]>;

type DmarcRecord = Record<keyof typeof columns, string> & { source_ip: string; count: number };

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

const MOST_RECORDS = 5000;
const DEEPEST = 12;
const MOST_NESTED = 100;
const CHUNK = 4096;
/** Kept of one record, and of the report around them. */
const MOST_PLACES = 100;
const LONGEST_VALUE = 253;

/** The texts of a document, or of a record in it, by their place without the root and without prefixes of namespaces. */
type Texts = Map<string, string>;

/** Reads a DMARC report; null for another document. Never throws. */
export function readDmarcReport(xml: string): DmarcReport | null {
  const { root, report, records } = textsIn(xml);
  const text = (place: string): string => report.get(place) ?? '';
  const [from, until] = ['begin', 'end'].map((end) => seconds(text(`report_metadata/date_range/${end}`)));
  const domain = hostName(text('policy_published/domain')) ?? '';
  if (root !== 'feedback' || domain === '' || from == null || until == null || until < from) return null;
  const found = records.flatMap(recordFrom);
  return {
    organization: shortText(text('report_metadata/org_name')),
    id: shortText(text('report_metadata/report_id')),
    domain,
    from,
    until,
    policy: policy(text('policy_published/p')) ?? 'unknown',
    records: found.map(({ record }) => record),
    unsound: found.filter(({ isSound }) => !isSound).length,
  };
}

/** Reads a document as a stream of tags and texts, without any entity but those of XML itself. */
function textsIn(xml: string): { root: string; report: Texts; records: Texts[] } {
  const report: Texts = new Map();
  const records: Texts[] = [];
  const path: string[] = [];
  let text = '';
  let root = '';
  const parser = new Parser(
    {
      onopentag(tag) {
        const name = tag.slice(tag.indexOf(':') + 1);
        if (path.length === 0 && root === '') root = name;
        path.push(name);
        text = '';
        if (path.length === 2 && name === 'record' && records.length < MOST_RECORDS) records.push(new Map());
      },
      ontext(part) {
        if (path.length <= DEEPEST && text.length <= LONGEST_VALUE) text += part;
      },
      onclosetag() {
        const place = path.slice(1, DEEPEST);
        const into = place[0] === 'record' ? records.at(-1) : report;
        const key = (place[0] === 'record' ? place.slice(1) : place).join('/');
        const value = cleanText(text, LONGEST_VALUE);
        // Of several signatures the first; an empty element says nothing.
        if (value !== '' && path.length <= DEEPEST && into !== undefined && !into.has(key) && into.size < MOST_PLACES)
          into.set(key, value);
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

function recordFrom(texts: Texts): { record: DmarcRecord; isSound: boolean }[] {
  const [source_ip, count] = [texts.get('row/source_ip') ?? '', texts.get('row/count') ?? ''];
  if (isIP(source_ip) === 0 || !/^\d{1,12}$/.test(count)) return [];
  let isSound = true;
  const record: Record<string, string> = {};
  for (const [name, [place, read]] of Object.entries(columns)) {
    const value = read(texts.get(place) ?? '');
    if (value === null) isSound = false;
    record[name] = value ?? (read === hostName ? '' : 'unknown');
  }
  return [
    {
      record: {
        ...(record as Record<keyof typeof columns, string>),
        source_ip: source_ip.toLowerCase(),
        count: Number(count),
      },
      isSound,
    },
  ];
}

const seconds = (text: string): number | null => (/^\d{1,11}$/.test(text) ? Number(text) * 1000 : null);

const shortText = (text: string): string => cleanText(text, LONGEST_TEXT);

/** Returns one line of at most so many characters; empty for any other value. */
const cleanText = (value: unknown, most: number): string =>
  typeof value === 'string'
    ? value
        .slice(0, most)
        .replace(/[\x00-\x1f\x7f]/g, ' ')
        .trim()
        .toWellFormed()
    : '';

export interface TlsReport {
  organization: string;
  /** Milliseconds since the epoch; `until` is the last second of the range. */
  from: number;
  until: number;
  id: string;
  policies: readonly TlsReportPolicy[];
}

interface TlsReportPolicy {
  type: string;
  domain: string;
  successes: number;
  failures: number;
  /** Texts that a report leaves out are empty. */
  details: readonly ReturnType<typeof readDetail>[];
}

const policyType = oneOf('tlsa', 'sts', 'no-policy-found');
/** Section 4.3 of RFC 8460. */
const resultType = oneOf(
  ...'starttls-not-supported certificate-host-mismatch certificate-expired certificate-not-trusted validation-failure'.split(
    ' ',
  ),
  ...'tlsa-invalid dnssec-invalid dane-required sts-policy-fetch-error sts-policy-invalid sts-webpki-invalid'.split(
    ' ',
  ),
);

const MOST_POLICIES = 200;
const MOST_DETAILS = 500;
/** Of all policies together: all of them are handed to the main loop. */
const MOST_DETAILS_IN_ALL = 5000;
/** Of JSON, the largest reports have some ten thousand. In memory an object of nine characters takes three hundred octets. */
const MOST_VALUES = 100_000;
/** A count beyond is false. The sum of all that are kept stays an integer that SQLite has. */
const MOST_SESSIONS = 999_999_999_999;

/** Reads a TLS report, or returns null for other content. Wrong or missing members become empty, unknown policies and results `unknown`. */
export function readTlsReport(text: string): TlsReport | null {
  // Each value follows a comma or a bracket: too many are found before they take memory.
  if (text.split(/[,[{]/, MOST_VALUES + 2).length > MOST_VALUES + 1) return null;
  const report = objectIn(parsed(text));
  if (!Array.isArray(report['policies'])) return null;
  const range = objectIn(report['date-range']);
  const [from, until] = [timeOf(range['start-datetime']), timeOf(range['end-datetime'])];
  if (from === null || until === null || until < from) return null;
  let left = MOST_DETAILS_IN_ALL;
  const policies = report['policies'].slice(0, MOST_POLICIES).flatMap((one) => {
    const entry = objectIn(one);
    const { 'policy-domain': named, 'policy-type': type } = objectIn(entry['policy']);
    const domain = hostName(cleanText(named, LONGEST_VALUE)) ?? '';
    if (domain === '') return [];
    const summary = objectIn(entry['summary']);
    const given: unknown[] = Array.isArray(entry['failure-details']) ? entry['failure-details'] : [];
    const details = given.slice(0, Math.min(MOST_DETAILS, left)).map(readDetail);
    left -= details.length;
    return {
      type: policyType(cleanText(type, 40)) ?? 'unknown',
      domain,
      successes: countOf(summary['total-successful-session-count']),
      failures: countOf(summary['total-failure-session-count']),
      details,
    };
  });
  return {
    organization: cleanText(report['organization-name'], LONGEST_TEXT),
    from,
    until,
    id: cleanText(report['report-id'], LONGEST_TEXT),
    policies,
  };
}

function readDetail(given: unknown) {
  const detail = objectIn(given);
  return {
    result: resultType(cleanText(detail['result-type'], 60)) ?? 'unknown',
    source_ip: addressOf(detail['sending-mta-ip']),
    mx: hostName(cleanText(detail['receiving-mx-hostname'], LONGEST_VALUE)) ?? '',
    ip: addressOf(detail['receiving-ip']),
    reason: cleanText(detail['failure-reason-code'], LONGEST_TEXT),
    sessions: countOf(detail['failed-session-count']),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''));
  } catch {
    return null;
  }
}

const objectIn = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

function addressOf(value: unknown): string {
  const text = cleanText(value, 60).toLowerCase();
  return isIP(text) === 0 ? '' : text;
}

const countOf = (value: unknown): number =>
  typeof value === 'number' && value >= 0 && value <= MOST_SESSIONS ? Math.floor(value) : 0;

function timeOf(value: unknown): number | null {
  const at = typeof value === 'string' ? Date.parse(value) : NaN;
  return at >= 0 && at < 2 ** 42 ? at : null;
}

// The one file in what reports are sent as (RFC 7489 section 7.2.1.1, RFC 8460 section 5.3): gzip, zip (deflate or stored), or as it is.

export type Unpacked = { kind: 'file'; bytes: Buffer } | { kind: 'bad'; why: string };

/** Reports of the largest senders have some megabytes; a bomb has more. */
export const MOST_UNPACKED = 5 * 1024 * 1024;

const GZIP = 0x1f8b;
const LOCAL_ENTRY = 0x04034b50;
const STORED = 0;
const DEFLATED = 8;
const SLASH = 0x2f;

export function unpack(bytes: Buffer, most = MOST_UNPACKED): Unpacked {
  try {
    if (bytes.length >= 2 && bytes.readUInt16BE(0) === GZIP) {
      // The size at the end of one within the limit ends in a zero octet. Some senders put a line end or text behind it.
      const whole = bytes.subarray(0, bytes.lastIndexOf(0) + 1);
      return file(gunzipSync(whole, { maxOutputLength: most }));
    }
    if (bytes.length >= 4 && bytes.readUInt32LE(0) === LOCAL_ENTRY) return unzip(bytes, most);
  } catch (error) {
    return bad(error instanceof RangeError ? 'it unpacks to too much, or is cut off' : 'it cannot be unpacked');
  }
  return bytes.length > most ? bad('it is too large') : file(bytes);
}

/** Returns the first entry that is a file. Deflate knows its own end: the directory at the end of the zip is not read. */
function unzip(bytes: Buffer, most: number, at = 0): Unpacked {
  if (bytes.readUInt32LE(at) !== LOCAL_ENTRY) return bad('the zip holds no file');
  const [method, packed] = [bytes.readUInt16LE(at + 8), bytes.readUInt32LE(at + 18)];
  const nameEnd = at + 30 + bytes.readUInt16LE(at + 26);
  const data = bytes.subarray(nameEnd + bytes.readUInt16LE(at + 28));
  if (bytes[nameEnd - 1] === SLASH) return unzip(data, most, packed);
  if (method === DEFLATED) return file(inflateRawSync(data, { maxOutputLength: most }));
  return method === STORED && packed <= Math.min(most, data.length)
    ? file(data.subarray(0, packed))
    : bad('the zip is broken');
}

const file = (bytes: Buffer): Unpacked => ({ kind: 'file', bytes });
const bad = (why: string): Unpacked => ({ kind: 'bad', why });
