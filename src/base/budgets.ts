/**
 * Limits on what strangers cost. Everything that is kept, read or held in memory for clients that have not signed in has a budget here:
 * this table is the only place where its size is written down, and docs/security.md shows it (`npm run docs`). Each time one is
 * used up, `posthorn_budget_used_up_total{budget="<name>"}` counts it and the client gets an answer: never silence.
 */

export interface Budget {
  /** The door strangers come through. */
  door: string;
  /** The unit that is counted. */
  bounds: string;
  /** `network`: a /24 of IPv4 or a /64 of IPv6 (`networkOf`), for mail on port 25 a /48 (`siteOf`). */
  per:
    | 'network'
    | 'all'
    | 'address'
    | 'delivery'
    | 'domain'
    | 'mail'
    | 'account'
    | 'session'
    | 'request'
    | 'login'
    | 'login and network';
  most: number;
  unit: 'bytes' | 'mails' | 'rows' | 'connections' | 'requests' | 'fields' | 'tries' | 'ms';
  /** The time in which so much may be used; null if it is the most at any one time. */
  within: 'minute' | '15 minutes' | 'hour' | 'day' | null;
  /** The answer that the client gets when the budget is used up, or what is dropped then. */
  answer: string;
  /** The test that shows it. */
  test: string;
}

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

const LISTENER = 'test/inbound/listener.test.ts';
const HOURLY = 'test/inbound/mx-budgets.test.ts';
const UNREAD = 'test/inbound/unread.test.ts';
const KEPT = 'test/inbound/bounded-store.test.ts';
const RECEIVED = 'test/journeys/received.test.ts';
const SMTP_SECURITY = 'test/journeys/smtp-security.test.ts';
const STRANGERS = 'test/journeys/strangers.test.ts';
const AUDIT = 'test/api/stranger-lines.test.ts';
const HTTP = 'test/journeys/http-strangers.test.ts';
const BODIES = 'test/api/body-memory.test.ts';
const HEADS = 'test/api/heads.test.ts';
const NEWCOMERS = 'test/api/newcomers.test.ts';
const SIGN_IN = 'test/members/sign-in.test.ts';
const AGGREGATES = 'test/journeys/aggregate-reports.test.ts';

/** A budget of mail to domains that receive. */
const received = <Within extends Budget['within']>(
  bounds: string,
  per: Budget['per'],
  most: number,
  unit: Budget['unit'],
  within: Within,
): Budget & { within: Within } => ({
  door: 'domains that receive',
  bounds,
  per,
  most,
  unit,
  within,
  answer: '452',
  test: RECEIVED,
});

export const budgets = {
  mx_connections: {
    door: 'port 25',
    bounds: 'connections',
    per: 'all',
    most: 500,
    unit: 'connections',
    within: null,
    answer: '421 to the oldest of the busiest network',
    test: LISTENER,
  },
  mx_connections_network: {
    door: 'port 25',
    bounds: 'connections',
    per: 'network',
    most: 100,
    unit: 'connections',
    within: null,
    answer: '421',
    test: LISTENER,
  },
  mx_memory: {
    door: 'port 25',
    bounds: 'mail in memory that is still arriving',
    per: 'all',
    most: 64 * MIB,
    unit: 'bytes',
    within: null,
    answer: '452',
    test: LISTENER,
  },
  mx_memory_network: {
    door: 'port 25',
    bounds: 'mail in memory that is still arriving',
    per: 'network',
    most: 16 * MIB,
    unit: 'bytes',
    within: null,
    answer: '452',
    test: LISTENER,
  },
  loose_mails_network: {
    door: 'port 25, without our token',
    bounds: 'mails',
    per: 'network',
    most: 1000,
    unit: 'mails',
    within: 'hour',
    answer: '452',
    test: HOURLY,
  },
  loose_bytes_network: {
    door: 'port 25, without our token',
    bounds: 'what is kept of them',
    per: 'network',
    most: 32 * MIB,
    unit: 'bytes',
    within: 'hour',
    answer: '452',
    test: HOURLY,
  },
  loose_mails: {
    door: 'port 25, without our token',
    bounds: 'mails',
    per: 'all',
    most: 20_000,
    unit: 'mails',
    within: 'hour',
    answer: '452',
    test: HOURLY,
  },
  loose_bytes: {
    door: 'port 25, without our token',
    bounds: 'what is kept of them',
    per: 'all',
    most: 256 * MIB,
    unit: 'bytes',
    within: 'hour',
    answer: '452',
    test: HOURLY,
  },
  loose_reading_network: {
    door: 'port 25, without our token',
    bounds: 'time of the process that reads them',
    per: 'network',
    most: 60_000,
    unit: 'ms',
    within: 'hour',
    answer: '452',
    test: HOURLY,
  },
  unread_mails: {
    door: 'port 25',
    bounds: 'unread mails, those with our token counted apart',
    per: 'all',
    most: 5000,
    unit: 'mails',
    within: null,
    answer: '452',
    test: UNREAD,
  },
  unread_mails_network: {
    door: 'port 25',
    bounds: 'unread mails, those with our token counted apart',
    per: 'network',
    most: 500,
    unit: 'mails',
    within: null,
    answer: '452',
    test: UNREAD,
  },
  token_mails_delivery: {
    door: 'port 25, with our token',
    bounds: 'mails',
    per: 'delivery',
    most: 10,
    unit: 'mails',
    within: 'hour',
    answer: '452',
    test: HOURLY,
  },
  token_bytes_delivery: {
    door: 'port 25, with our token',
    bounds: 'what is kept of them',
    per: 'delivery',
    most: 1 * MIB,
    unit: 'bytes',
    within: 'hour',
    answer: '452',
    test: HOURLY,
  },
  token_bytes_network: {
    door: 'port 25, with our token',
    bounds: 'what is kept of them',
    per: 'network',
    most: 512 * MIB,
    unit: 'bytes',
    within: 'hour',
    answer: '452',
    test: HOURLY,
  },
  kept_loose: {
    door: 'port 25',
    bounds: 'mails that belong to no delivery: 1 % of the disk at most',
    per: 'all',
    most: 1 * GIB,
    unit: 'bytes',
    within: null,
    answer: 'the oldest go',
    test: KEPT,
  },
  kept_matched: {
    door: 'port 25',
    bounds: 'mails about deliveries: 5 % of the disk at most',
    per: 'all',
    most: 5 * GIB,
    unit: 'bytes',
    within: null,
    answer: 'the oldest go',
    test: KEPT,
  },
  kept_of_mail: {
    door: 'port 25',
    bounds: 'what is kept of a mail that is not a bounce',
    per: 'mail',
    most: 32 * KIB,
    unit: 'bytes',
    within: null,
    answer: 'the rest is discarded',
    test: STRANGERS,
  },
  received_memory: received('mail in memory that is still arriving', 'all', 96 * MIB, 'bytes', null),
  received_memory_network: received('mail in memory that is still arriving', 'network', 48 * MIB, 'bytes', null),
  received_mail: { ...received('one mail', 'mail', 25 * MIB, 'bytes', null), answer: '552' },
  received_mails_network: received('mails', 'network', 5000, 'mails', 'hour'),
  received_bytes_network: received('mails', 'network', 1 * GIB, 'bytes', 'hour'),
  received_mails_domain: received('mails', 'domain', 20_000, 'mails', 'hour'),
  received_bytes_domain: received('mails', 'domain', 4 * GIB, 'bytes', 'hour'),
  received_reading_network: received('time of the reading process', 'network', 600_000, 'ms', 'hour'),
  received_unread: received('unread mails', 'all', 10_000, 'mails', null),
  received_unread_domain: received('unread mails', 'domain', 2000, 'mails', null),
  received_waiting: received('what waits for webhooks', 'account', 10_000, 'mails', null),
  received_waiting_bytes: received('what waits for webhooks', 'account', 2 * GIB, 'bytes', null),
  received_kept: received('what is kept: 20 % of the disk at most', 'all', 50 * GIB, 'bytes', null),
  forwarded_mail: {
    door: 'postmaster@ and abuse@',
    bounds: 'what is sent on to the operator of one of 20 mails an hour',
    per: 'mail',
    most: 128 * KIB,
    unit: 'bytes',
    within: null,
    answer: 'only the beginning is sent on',
    test: STRANGERS,
  },
  submission_keys_network: {
    door: 'submission',
    bounds: 'unknown keys',
    per: 'network',
    most: 100,
    unit: 'tries',
    within: 'hour',
    answer: '421; good keys still sign in',
    test: SMTP_SECURITY,
  },
  submission_audit_network: {
    door: 'submission without a key',
    bounds: 'lines of the audit log',
    per: 'network',
    most: 60,
    unit: 'rows',
    within: 'minute',
    answer: 'refused, not noted',
    test: STRANGERS,
  },
  unknown_key_lines_network: {
    door: 'HTTP with an unknown key',
    bounds: 'lines of the request log',
    per: 'network',
    most: 20,
    unit: 'rows',
    within: 'hour',
    answer: '401; counted, not noted',
    test: AUDIT,
  },
  unknown_key_lines: {
    door: 'HTTP with an unknown key',
    bounds: 'lines of the request log',
    per: 'all',
    most: 200,
    unit: 'rows',
    within: 'hour',
    answer: '401; counted, not noted',
    test: AUDIT,
  },
  aggregate_rows_domain: {
    door: 'dmarc@ and tls@',
    bounds: 'records',
    per: 'domain',
    most: 5000,
    unit: 'rows',
    within: 'day',
    answer: 'noted, not counted',
    test: AGGREGATES,
  },
  aggregate_rows: {
    door: 'dmarc@ and tls@',
    bounds: 'records',
    per: 'all',
    most: 500_000,
    unit: 'rows',
    within: null,
    answer: 'the oldest go',
    test: AGGREGATES,
  },
  http_connections: {
    door: 'HTTP, without a key or a session',
    bounds: 'connections',
    per: 'all',
    most: 2000,
    unit: 'connections',
    within: null,
    answer: 'the oldest of the busiest network is closed',
    test: NEWCOMERS,
  },
  http_connections_network: {
    door: 'HTTP, without a key or a session',
    bounds: 'connections',
    per: 'network',
    most: 1000,
    unit: 'connections',
    within: null,
    answer: 'the connection is closed',
    test: NEWCOMERS,
  },
  http_head_bytes: {
    door: 'HTTP',
    bounds: 'the head of a request, which has 100 fields at most',
    per: 'request',
    most: 16 * KIB,
    unit: 'bytes',
    within: null,
    answer: '400',
    test: HEADS,
  },
  open_form_bytes: {
    door: '`/login`, `/setup/`, `/t/u/`',
    bounds: 'what a form has',
    per: 'request',
    most: 16 * KIB,
    unit: 'bytes',
    within: null,
    answer: '413',
    test: HTTP,
  },
  open_form_ms: {
    door: '`/login`, `/setup/`, `/t/u/`',
    bounds: 'time in which a form arrives',
    per: 'request',
    most: 10_000,
    unit: 'ms',
    within: null,
    answer: '408',
    test: HTTP,
  },
  open_form_memory: {
    door: '`/login`, `/setup/`, `/t/u/`',
    bounds: 'forms in memory',
    per: 'all',
    most: 16 * MIB,
    unit: 'bytes',
    within: null,
    answer: '503',
    test: HTTP,
  },
  open_form_memory_network: {
    door: '`/login`, `/setup/`, `/t/u/`',
    bounds: 'forms in memory, if as much is left for others',
    per: 'network',
    most: 8 * MIB,
    unit: 'bytes',
    within: null,
    answer: '503',
    test: BODIES,
  },
  sign_in_login_network: {
    door: '`/login`',
    bounds: 'wrong passwords and codes',
    per: 'login and network',
    most: 10,
    unit: 'tries',
    within: '15 minutes',
    answer: '401',
    test: SIGN_IN,
  },
  sign_in_network: {
    door: '`/login`',
    bounds: 'wrong passwords and codes',
    per: 'address',
    most: 50,
    unit: 'tries',
    within: '15 minutes',
    answer: '401',
    test: SIGN_IN,
  },
  sign_in_login: {
    door: '`/login`',
    bounds: 'wrong passwords and codes; then one try for each address',
    per: 'login',
    most: 100,
    unit: 'tries',
    within: '15 minutes',
    answer: '401',
    test: SIGN_IN,
  },
  sign_in_codes: {
    door: '`/login/code`',
    bounds: 'wrong codes, after the right password',
    per: 'login',
    most: 10,
    unit: 'tries',
    within: '15 minutes',
    answer: '401',
    test: SIGN_IN,
  },
  sign_in_rows: {
    door: '`/login`',
    bounds: 'wrong tries in the sign-in log',
    per: 'all',
    most: 100_000,
    unit: 'rows',
    within: null,
    answer: 'the oldest go',
    test: SIGN_IN,
  },
  sign_in_waiting: {
    door: '`/login`',
    bounds: 'passwords that wait to be checked',
    per: 'all',
    most: 100,
    unit: 'tries',
    within: null,
    answer: '503',
    test: SIGN_IN,
  },
  sign_in_waiting_network: {
    door: '`/login`',
    bounds: 'passwords that wait to be checked',
    per: 'address',
    most: 5,
    unit: 'tries',
    within: null,
    answer: '503',
    test: SIGN_IN,
  },
} as const satisfies Record<string, Budget>;

export type BudgetName = keyof typeof budgets;

export type UsedUp = (budget: BudgetName) => void;

export const budgetNames = Object.keys(budgets) as BudgetName[];
