/**
 * Limits on what strangers cost: all that is kept, read or held in memory for clients that have not signed in. docs/security.md shows this
 * table (`npm run docs`). Each use of the last of one is counted (`posthorn_budget_used_up_total`), and the client gets an answer.
 */

export interface Budget {
  door: string;
  bounds: string;
  /** `network`: a /24 of IPv4 or a /64 of IPv6 (`networkOf`), for mail on port 25 a /48 (`siteOf`). */
  per: string;
  most: number;
  unit: 'bytes' | 'mails' | 'rows' | 'connections' | 'requests' | 'fields' | 'tries' | 'ms';
  /** The time in which so much may be used; null if it is the most at any one time. */
  within: 'minute' | '15 minutes' | 'hour' | 'day' | null;
  /** The answer that the client gets when the budget is used up, or what is dropped then. */
  answer: string;
}

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

/** Makes the budgets of a door, with the answer that most of them have. */
const door =
  (name: string, usual: string) =>
  <Within extends Budget['within']>(
    bounds: string,
    per: string,
    most: number,
    unit: Budget['unit'],
    within: Within,
    answer = usual,
  ): Budget & { within: Within } => ({ door: name, bounds, per, most, unit, within, answer });

const port25 = door('port 25', '452');
const withoutToken = door('port 25, without our token', '452');
const withToken = door('port 25, with our token', '452');
const unknownKey = door('HTTP with an unknown key', '401; counted, not noted');
const aggregates = door('dmarc@ and tls@', 'the oldest go');
const newcomers = door('HTTP, without a key or a session', 'the connection is closed');
const openForms = door('`/login`, `/setup/`, `/t/u/`', '503');
const signIn = door('`/login`', '401');
const forwarding = door('postmaster@ and abuse@', 'only the beginning is sent on');
const codeForm = door('`/login/code`', '401');
const submission = door('submission', '421; good keys still sign in');
const withoutKey = door('submission without a key', 'refused, not noted');
const received = door('domains that receive', '452');

export const budgets = {
  mx_connections: port25('connections', 'all', 500, 'connections', null, '421 to the oldest of the busiest network'),
  mx_connections_network: port25('connections', 'network', 100, 'connections', null, '421'),
  mx_memory: port25('mail in memory that is still arriving', 'all', 64 * MIB, 'bytes', null),
  mx_memory_network: port25('mail in memory that is still arriving', 'network', 16 * MIB, 'bytes', null),
  loose_mails_network: withoutToken('mails', 'network', 1000, 'mails', 'hour'),
  loose_bytes_network: withoutToken('what is kept of them', 'network', 32 * MIB, 'bytes', 'hour'),
  loose_mails: withoutToken('mails', 'all', 20_000, 'mails', 'hour'),
  loose_bytes: withoutToken('what is kept of them', 'all', 256 * MIB, 'bytes', 'hour'),
  loose_reading_network: withoutToken('time of the process that reads them', 'network', 60_000, 'ms', 'hour'),
  unread_mails: port25('unread mails, those with our token counted apart', 'all', 5000, 'mails', null),
  unread_mails_network: port25('unread mails, those with our token counted apart', 'network', 500, 'mails', null),
  token_mails_delivery: withToken('mails', 'delivery', 10, 'mails', 'hour'),
  token_bytes_delivery: withToken('what is kept of them', 'delivery', MIB, 'bytes', 'hour'),
  token_bytes_network: withToken('what is kept of them', 'network', 512 * MIB, 'bytes', 'hour'),
  kept_loose: port25('mails of no delivery: 1 % of the disk at most', 'all', GIB, 'bytes', null, 'the oldest go'),
  kept_matched: port25('mails of deliveries: 5 % of the disk at most', 'all', 5 * GIB, 'bytes', null, 'the oldest go'),
  kept_of_mail: port25('kept of a mail that is no bounce', 'mail', 32 * KIB, 'bytes', null, 'the rest is dropped'),
  received_memory: received('mail in memory that is still arriving', 'all', 96 * MIB, 'bytes', null),
  received_memory_network: received('mail in memory that is still arriving', 'network', 48 * MIB, 'bytes', null),
  received_mail: received('one mail', 'mail', 25 * MIB, 'bytes', null, '552'),
  received_mails_network: received('mails', 'network', 5000, 'mails', 'hour'),
  received_bytes_network: received('mails', 'network', GIB, 'bytes', 'hour'),
  received_mails_domain: received('mails', 'domain', 20_000, 'mails', 'hour'),
  received_bytes_domain: received('mails', 'domain', 4 * GIB, 'bytes', 'hour'),
  received_reading_network: received('time of the reading process', 'network', 600_000, 'ms', 'hour'),
  received_unread: received('unread mails', 'all', 10_000, 'mails', null),
  received_unread_domain: received('unread mails', 'domain', 2000, 'mails', null),
  received_waiting: received('what waits for webhooks', 'account', 10_000, 'mails', null),
  received_waiting_bytes: received('what waits for webhooks', 'account', 2 * GIB, 'bytes', null),
  received_kept: received('what is kept: 20 % of the disk at most', 'all', 50 * GIB, 'bytes', null),
  forwarded_mail: forwarding('what of one of 20 mails an hour is sent on', 'mail', 128 * KIB, 'bytes', null),
  submission_keys_network: submission('unknown keys', 'network', 100, 'tries', 'hour'),
  submission_audit_network: withoutKey('lines of the audit log', 'network', 60, 'rows', 'minute'),
  unknown_key_lines_network: unknownKey('lines of the request log', 'network', 20, 'rows', 'hour'),
  unknown_key_lines: unknownKey('lines of the request log', 'all', 200, 'rows', 'hour'),
  aggregate_rows_domain: aggregates('records', 'domain', 5000, 'rows', 'day', 'noted, not counted'),
  aggregate_rows: aggregates('records', 'all', 500_000, 'rows', null),
  http_connections: newcomers('connections', 'all', 2000, 'connections', null, 'the busiest network loses its oldest'),
  http_connections_network: newcomers('connections', 'network', 1000, 'connections', null),
  http_head_bytes: door('HTTP', '400')('its head, of 100 fields at most', 'request', 16 * KIB, 'bytes', null),
  open_form_bytes: openForms('what a form has', 'request', 16 * KIB, 'bytes', null, '413'),
  open_form_ms: openForms('time in which a form arrives', 'request', 10_000, 'ms', null, '408'),
  open_form_memory: openForms('forms in memory', 'all', 16 * MIB, 'bytes', null),
  open_form_memory_network: openForms('forms in memory, if as much is left', 'network', 8 * MIB, 'bytes', null),
  sign_in_login_network: signIn('wrong passwords and codes', 'login and network', 10, 'tries', '15 minutes'),
  sign_in_network: signIn('wrong passwords and codes', 'address', 50, 'tries', '15 minutes'),
  sign_in_login: signIn('wrong passwords and codes; then one try an address', 'login', 100, 'tries', '15 minutes'),
  sign_in_codes: codeForm('wrong codes, after the right password', 'login', 10, 'tries', '15 minutes'),
  sign_in_rows: signIn('wrong tries in the sign-in log', 'all', 100_000, 'rows', null, 'the oldest go'),
  sign_in_waiting: signIn('passwords that wait to be checked', 'all', 100, 'tries', null, '503'),
  sign_in_waiting_network: signIn('passwords that wait to be checked', 'address', 5, 'tries', null, '503'),
} as const satisfies Record<string, Budget>;

export type BudgetName = keyof typeof budgets;

export type UsedUp = (budget: BudgetName) => void;

export const budgetNames = Object.keys(budgets) as BudgetName[];
