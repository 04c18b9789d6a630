/** Turns a tree of values, as YAML gives it, into a frozen `Config`, or into one line for each mistake. */
import type { z } from 'zod';
import { valueAt } from '../base/schema-path.ts';
import { nearest } from '../base/spelling.ts';
import { poolsElsewhere } from './sources.ts';
import { complete, decide, listSettings, settings, type Config, type Surroundings } from './schema.ts';

export type SettingsReading = { kind: 'ok'; config: Config } | { kind: 'bad'; mistakes: string[] };

/** Validates the whole tree. `origins` has the origin of each setting by its path, so that a line can name the variable. */
export function readSettings(
  written: unknown,
  around: Surroundings,
  origins: ReadonlyMap<string, string> = new Map(),
): SettingsReading {
  const whole = complete(written);
  const result = settings.safeParse(whole);
  if (result.success) {
    const config = decide(result.data, around);
    const mistakes = contradictions(config);
    return mistakes.length === 0 ? { kind: 'ok', config: deepFreeze(config) } : { kind: 'bad', mistakes };
  }
  return { kind: 'bad', mistakes: mistakesOf(result.error.issues, whole, origins) };
}

/** Finds settings that are valid alone but not together. */
function contradictions(config: Config): string[] {
  const { delivery } = config;
  const clashes = [...portClashes(config), ...lonelyRoles(config), ...foreignPools(config)];
  const dane = Object.keys(delivery.tls).filter((domain) => delivery.tls[domain] === 'dane');
  if (delivery.dnssecResolver || dane.length === 0) return clashes;
  return [
    ...clashes,
    `delivery.tls.${dane[0] ?? ''}: expected delivery.dnssecResolver to be true, without which no TLSA record counts, found dane`,
  ];
}

/** The only server of a database needs every role. */
function lonelyRoles({ node, storage }: Config): string[] {
  if (storage.url.startsWith('postgres') || (node.roles.includes('delivery') && node.roles.includes('chores')))
    return [];
  return ['node.roles: expected delivery and chores, since a SQLite database has one server'];
}

/** A node that delivers needs a source of each pool: its mail would wait for ever. */
function foreignPools({ node, delivery }: Config): string[] {
  if (!node.roles.includes('delivery')) return [];
  return poolsElsewhere(delivery.sources, node.name).map(
    (pool) =>
      `delivery.sources: expected a source of the pool ${pool} with the node ${node.name} or without a node, found only those of other nodes`,
  );
}

function mistakesOf(
  issues: readonly z.core.$ZodIssue[],
  whole: unknown,
  origins: ReadonlyMap<string, string>,
): string[] {
  const lines = new Map<string, string>();
  for (const issue of issues) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) lines.set(spell([...issue.path, key]), unknownSetting(issue.path, key));
      continue;
    }
    const place = spell(issue.path);
    // Several faults in one value are reported as one mistake: the first says what is expected.
    if (!lines.has(place)) lines.set(place, wrongValue(place, issue, whole, origins));
  }
  return [...lines.values()];
}

function wrongValue(
  place: string,
  issue: z.core.$ZodIssue,
  whole: unknown,
  origins: ReadonlyMap<string, string>,
): string {
  const entry = listSettings().find(
    ({ path: name }) => place === name || place.startsWith(`${name}.`) || place.startsWith(`${name}[`),
  );
  const origin = entry === undefined ? undefined : origins.get(entry.path);
  const expected = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
  const found = issue.code === 'invalid_key' ? issue.path.at(-1) : valueAt(whole, issue.path);
  const shown = entry?.note.secret === true && issue.code !== 'invalid_key' ? kindOf(found) : show(found);
  const file = origins.get('');
  const isElsewhere = origin !== undefined && origin !== file;
  return `${place === '' ? (file ?? 'settings') : place}${isElsewhere ? ` (${origin})` : ''}: expected ${expected}, found ${shown}`;
}

function unknownSetting(group: readonly PropertyKey[], key: string): string {
  const place = spell([...group, key]);
  const paths = listSettings().map(({ path: name }) => name);
  const within = group.length === 0 ? '' : `${spell(group)}.`;
  const siblings = paths
    .filter((name) => name.startsWith(within))
    .map((name) => name.slice(within.length).split('.')[0] ?? '');
  const near = nearest(key, siblings);
  const meant = near === null ? paths.find((name) => name.split('.').at(-1) === key) : within + near;
  return `${place}: unknown setting${meant === undefined ? '' : `, did you mean ${meant}?`}`;
}

const spell = (place: readonly PropertyKey[]): string =>
  place.map((step, i) => (typeof step === 'number' ? `[${step}]` : `${i === 0 ? '' : '.'}${String(step)}`)).join('');

function show(value: unknown): string {
  // An API key given in place of its id must not appear in a log.
  if (typeof value === 'string' && /\bak_(?:live|test)_/.test(value)) return 'an API key';
  if (typeof value === 'string' && value.includes('-----BEGIN')) return 'the contents of a PEM file';
  const text =
    typeof value === 'object' || value === undefined ? kindOf(value) : withoutPassword(JSON.stringify(value));
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}

/** Hides the password of a URL, which may have any character: from the first colon after the scheme to the last `@`. */
const withoutPassword = (text: string): string => text.replace(/(:\/\/[^:@]*):.*@/s, '$1:***@');

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  return typeof value === 'string' ? 'another text' : `a ${typeof value}`;
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}

/** Finds two listeners of the settings that name the same port, of which only one could be opened. Pure. */

interface Listening {
  readonly http: { readonly host: string; readonly port: number };
  readonly dashboard: { readonly port: number };
  readonly metrics: { readonly host: string; readonly port: number | null };
  readonly smtp: {
    readonly mx: { readonly host: string; readonly port: number };
    readonly submission: { readonly host: string; readonly port: number; readonly tlsPort: number };
  };
}

interface Place {
  setting: string;
  host: string;
  port: number;
}

/** Returns a line for each listener whose port another one has, on the same address or on all addresses. Port 0 takes a free one. */
export function portClashes({ http, dashboard, metrics, smtp }: Listening): string[] {
  const { mx, submission } = smtp;
  const places: Place[] = [
    { setting: 'http.port', host: http.host, port: http.port },
    // The dashboard shares the port of the API unless it has another one.
    ...(dashboard.port === http.port ? [] : [{ setting: 'dashboard.port', host: http.host, port: dashboard.port }]),
    ...(metrics.port === null ? [] : [{ setting: 'metrics.port', host: metrics.host, port: metrics.port }]),
    { setting: 'smtp.mx.port', host: mx.host, port: mx.port },
    { setting: 'smtp.submission.port', host: submission.host, port: submission.port },
    { setting: 'smtp.submission.tlsPort', host: submission.host, port: submission.tlsPort },
  ];
  return places.flatMap((place, at) => {
    const other = places.slice(0, at).find((earlier) => clash(earlier, place));
    if (other === undefined) return [];
    return [`${place.setting}: expected another port than ${other.setting}, found ${String(place.port)} for both`];
  });
}

const clash = (a: Place, b: Place): boolean =>
  a.port !== 0 &&
  a.port === b.port &&
  (isWildcard(a.host) || isWildcard(b.host) || addressesOf(a.host).some((one) => addressesOf(b.host).includes(one)));

const addressesOf = (host: string): readonly string[] => (host === 'localhost' ? ['127.0.0.1', '::1'] : [host]);

const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::';
