/** Formats values for pages: times, numbers, states. Holds the helpers of the views. Pure: the time is a parameter. */
import Handlebars from 'handlebars';
import { isScope, scopeAllows, type Scope } from '../keys/scopes.ts';
import { pluralize } from '../base/pluralize.ts';
import { wallClock } from '../base/zones.ts';
import { DAY_MS } from '../base/time.ts';

const { SafeString, escapeExpression } = Handlebars;

/** `2026-01-31 09:30:02`, in UTC. */
export const utcText = (ms: number): string => new Date(ms).toISOString().slice(0, 19).replace('T', ' ');

/** Formats a duration with at most two units: `3 d 4 h`, `12 min`, `4 s`. */
export function spanText(ms: number): string {
  const total = Math.max(0, Math.round(ms / 1000));
  const [d, h, m, s] = [
    Math.floor(total / 86_400),
    Math.floor(total / 3600) % 24,
    Math.floor(total / 60) % 60,
    total % 60,
  ];
  if (d >= 3) return `${String(d)} d`;
  if (d > 0) return h === 0 ? `${String(d)} d` : `${String(d)} d ${String(h)} h`;
  if (h > 0) return m === 0 || h > 9 ? `${String(h)} h` : `${String(h)} h ${String(m)} min`;
  return m > 0 ? `${String(m)} min` : `${String(s)} s`;
}

/** `3 d ago`, `in 12 d`, `now`. */
export function agoText(at: number, now: number): string {
  const past = now - at;
  if (Math.abs(past) < 1000) return 'now';
  return past > 0 ? `${spanText(past)} ago` : `in ${spanText(-past)}`;
}

/** `1,234,567`. */
export const numberText = (n: number): string => n.toLocaleString('en-US');

/** Formats a share as `99.07 %`, null as a dash. `digits` aligns the values of a column. */
export function percentText(part: number | null, digits?: number): string {
  if (part === null) return '–';
  const percent = part * 100;
  return `${percent === 0 || percent === 100 ? percent.toFixed(0) : percent.toFixed(digits ?? (percent < 1 ? 3 : 2))} %`;
}

/** Returns the address in `Ana <ana@example.net>`. */
export function addressText(mailbox: string): string {
  const from = mailbox.lastIndexOf('<');
  const until = mailbox.indexOf('>', from);
  return from === -1 || until < from + 2 ? mailbox : mailbox.slice(from + 1, until);
}

export function bytesText(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = n < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(n) / 10));
  const size = n / 1024 ** power;
  return `${power === 0 || size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${units[power] ?? ''}`;
}

/** Turns `snake_case`, `kebab-case` and `stream:name` into words. */
export const wordsOf = (text: string): string => text.replaceAll(/[_:-]+/g, ' ');

/** Names a member as a label does. */
export const titleOf = (member: string): string => wordsOf(member).replace(/^./, (first) => first.toUpperCase());

/** Names of mailbox providers that are not their words in capitals. */
const providerNames: Readonly<Record<string, string>> = {
  gmx: 'GMX',
  mailru: 'Mail.ru',
  qq: 'QQ',
  netease: 'NetEase',
  telekom: 'T-Online',
  yahoo_japan: 'Yahoo Japan',
  other: 'all others',
};

export const providerText = (name: string): string =>
  providerNames[name] ?? name.replace(/^./, (first) => first.toUpperCase());

/** The marks of programs and systems, the more exact ones first, with their names if those differ. */
const programs = { Edg: 'Edge', OPR: 'Opera', Firefox: '', Chrome: '', Safari: '' };
const systems = {
  'Windows NT': 'Windows',
  Android: '',
  iPhone: '',
  iPad: '',
  'Mac OS X': 'macOS',
  CrOS: 'ChromeOS',
  Linux: '',
};

/** Returns a browser as people name it, such as `Firefox on Windows`; the text itself if it is none of the known ones. */
export function browserText(userAgent: string): string {
  const markIn = (marks: Readonly<Record<string, string>>, end: string): string | undefined =>
    Object.entries(marks).flatMap(([mark, name]) => (userAgent.includes(mark + end) ? [name || mark] : []))[0];
  const [program, system] = [markIn(programs, '/'), markIn(systems, '')];
  if (system === undefined) return userAgent;
  return program === undefined ? system : `${program} on ${system}`;
}

const millis = (value: unknown): number | null => {
  if (typeof value === 'number') return value;
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(ms) ? null : ms;
};

/** Returns the reply of a mail host, with its code once. */
export function answerText(code: unknown, reply: unknown): string {
  const text = typeof reply === 'string' ? reply : '';
  return typeof code === 'number' && !text.startsWith(String(code)) ? `${String(code)} ${text}` : text;
}

/** Turns a text of the API's description into HTML: text between backticks becomes code. */
export const proseHtml = (text: string): string =>
  escapeExpression(text).replaceAll(/&#x60;([^&]*(?:&(?!#x60;)[^&]*)*)&#x60;/g, '<code>$1</code>');

const URL_IN_TEXT = /https?:\/\/[^\s"'<>()[\]]{1,500}[^\s"'<>()[\].,;:!?]/g;

/** Turns a text of a stranger into HTML in which the addresses of pages are links, which tell the page nothing of where they stand. */
export function linkedHtml(text: string): string {
  let html = '';
  let at = 0;
  for (const { 0: url, index } of text.matchAll(URL_IN_TEXT)) {
    const shown = escapeExpression(url);
    html += `${escapeExpression(text.slice(at, index))}<a href="${shown}" rel="noreferrer noopener nofollow" target="_blank">${shown}</a>`;
    at = index + url.length;
  }
  return html + escapeExpression(text.slice(at));
}

/** Writes the message of a problem as a sentence. Those of commands begin in lower case without a full stop; a name at the beginning stays. */
export const sentenceText = (message: string): string =>
  message
    .replace(/^[a-z]+(?=[\s,:])/, (word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .replace(/[^.!?:]$/, '$&.');

/** Returns the message of a refused form as a sentence, with the line or the field that it is about if the message does not name it. */
export function faultText(message: string, field: string | null): string {
  const [, line] = /^\w+\[(\d+)\]$/.exec(field ?? '') ?? [];
  if (line !== undefined) return `Line ${String(Number(line) + 1)}: ${sentenceText(message)}`;
  if (field === null || field === '' || message.includes(field)) return sentenceText(message);
  // The same member is called so in tables and forms.
  if (field === 'email') return `Address: ${sentenceText(message)}`;
  return `${titleOf(field)}: ${sentenceText(message)}`;
}

interface Options {
  data: { root: { now?: number; zone?: string; scopes?: readonly string[] } };
  hash: Record<string, unknown>;
}

/** Shows a time in the zone of the page, with UTC in the title. On the first page app.js puts the viewer's zone in the place of UTC. */
function time(value: unknown, { data }: Options): unknown {
  const ms = millis(value);
  if (ms === null) return '–';
  return timeHtml(ms, wallClock(ms, data.root.zone ?? 'UTC'));
}

const timeHtml = (ms: number, text: string, attribute = ''): unknown =>
  new SafeString(
    `<time datetime="${new Date(ms).toISOString()}" title="${utcText(ms)} UTC"${attribute}>${text}</time>`,
  );

/** Shows a time of the present day without its date, and without seconds if they are not asked for. */
function clock(value: unknown, { data, hash }: Options): unknown {
  const ms = millis(value);
  if (ms === null) return '–';
  const { now = ms, zone = 'UTC' } = data.root;
  const [text, today] = [wallClock(ms, zone), wallClock(now, zone)];
  const time = text.slice(11, hash['seconds'] === true ? 19 : 16);
  const shown = text.slice(0, 10) === today.slice(0, 10) ? time : `${dayText(text)} ${time}`;
  return timeHtml(ms, shown, ` data-clock="${String(time.length)}"`);
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const;

/** `29 Oct` of `2026-10-29 09:30`. */
export const dayText = (text: string): string =>
  `${String(Number(text.slice(8, 10)))} ${MONTHS[Number(text.slice(5, 7)) - 1] ?? ''}`;

function ago(value: unknown, { data }: Options): unknown {
  const ms = millis(value);
  if (ms === null) return '–';
  return timeHtml(ms, agoText(ms, data.root.now ?? ms), ' data-ago');
}

/** Mail that is held without an end is due in thousands of years. */
const FOREVER_MS = 100 * 366 * DAY_MS;

/** Shows the time of a task: `in 4 min`, or `overdue by 4 min`. */
function due(value: unknown, options: Options): unknown {
  const ms = millis(value);
  const now = options.data.root.now;
  if (ms !== null && now !== undefined && ms - now > FOREVER_MS) return 'when released';
  if (ms === null || now === undefined || now - ms < 1000) return ago(value, options);
  return timeHtml(ms, `overdue by ${spanText(now - ms)}`, ' data-ago');
}

const setters: Readonly<Record<string, string>> = {
  receiver: 'the receiver',
  dns: 'its DNS',
  operator: 'an operator',
  us: 'this server',
  sender: 'the sender',
};

/** The states and what they mean to a person: well, failed, to be looked at, an objection, under way. Others say nothing of that. */
const kinds = {
  good: 'delivered ok verified trusted accepted active leading published clear unlisted set_up done',
  red: 'bounced disabled refused code_refused wrong revoked expired listed blocked hard_bounce',
  amber:
    'warning deferred pending failing missing uncertain ending paused held parked limited warming draining draft silent',
  'red k-cross': 'failed',
  'amber k-bar': 'suppressed',
  violet: 'complained complaint unsubscribe unsubscribed',
  blue: 'sent queued scheduled opened clicked live waiting running',
};
const kindOf = new Map(
  Object.entries(kinds).flatMap(([kind, states]) => states.split(' ').map((state) => [state, kind] as const)),
);

/** Returns the class of a state's kind, which gives it its colour and shape. */
export const kindClass = (state: string): string => (kindOf.has(state) ? `k-${kindOf.get(state) ?? ''}` : '');

/** Shows a state as a coloured word; its meaning does not depend on the colour. */
function badge(value: unknown): unknown {
  const text = String(value);
  const classes = `badge ${kindClass(text)}`.trim();
  return new SafeString(`<span class="${classes}">${escapeExpression(wordsOf(text))}</span>`);
}

const isNothing = (value: unknown): boolean => value === false || value == null || value === '' || value === 0;
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

export const helpers: Readonly<Record<string, Handlebars.HelperDelegate>> = {
  time,
  clock,
  ago,
  due,
  badge,
  kindOf: (value: unknown) => kindClass(String(value)),
  setBy: (value: unknown) => setters[String(value)] ?? String(value),
  /** `1 mail`, `2 mails`. */
  count: (value: unknown, noun: unknown) => pluralize(typeof value === 'number' ? value : 0, String(noun)),
  number: (value: unknown) => (typeof value === 'number' ? numberText(value) : '–'),
  percent: (value: unknown, { hash }: Options) =>
    percentText(
      typeof value === 'number' ? value : null,
      typeof hash['digits'] === 'number' ? hash['digits'] : undefined,
    ),
  /** A change in percent points. */
  points: (value: unknown) => (typeof value === 'number' ? value.toFixed(value < 1 ? 2 : 1) : ''),
  browser: (value: unknown) => browserText(typeof value === 'string' ? value : ''),
  address: (value: unknown) => addressText(String(value)),
  bytes: (value: unknown) => bytesText(typeof value === 'number' ? value : 0),
  words: (value: unknown) => wordsOf(String(value)),
  lower: (value: unknown) => String(value).toLowerCase(),
  eq: (a: unknown, b: unknown) => a === b,
  may: (scope: unknown, { data }: Options) =>
    isScope(String(scope)) && scopeAllows(data.root.scopes ?? [], String(scope) as Scope),
  not: isNothing,
  or: (a: unknown, b: unknown) => (isNothing(a) ? b : a),
  faultText: (message: unknown, field: unknown) =>
    faultText(typeof message === 'string' ? message : '', typeof field === 'string' ? field : null),
  linked: (value: unknown) => new SafeString(linkedHtml(typeof value === 'string' ? value : '')),
  prose: (value: unknown) => new SafeString(proseHtml(typeof value === 'string' ? value : '')),
  includes: (values: unknown, value: unknown) => list(values).includes(value),
  join: (values: unknown, by: unknown) => list(values).join(typeof by === 'string' ? by : ', '),
  uri: (value: unknown) => encodeURIComponent(String(value)),
  /** Inserts HTML made by chart.ts or markdown-it, which escape all input. */
  markup: (value: unknown) => new SafeString(String(value)),
};
