/** Loads the settings. Later sources win: default, file, systemd credential (named like `delivery.routes`), environment variable. */
import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs';
import path from 'node:path';
import { isScalar, parse, parseDocument, type Document } from 'yaml';
import type { z } from 'zod';
import { valueAt } from '../base/check.ts';
import { writeDuration } from '../base/time.ts';
import type { Form } from './kind.ts';
import { plaintextPasswords } from './route.ts';
import {
  complete,
  decide,
  listSettings,
  settings,
  type Config,
  type SettingEntry,
  type Surroundings,
} from './schema.ts';
import { poolsElsewhere } from './sources.ts';
import { nearest } from '../base/spelling.ts';

/** The settings files that are tried if neither `--config` nor POSTHORN_CONFIG names one; the second is relative to the working directory. */
const USUAL_FILES = ['/etc/posthorn/posthorn.yaml', 'config/posthorn.yaml'];
/** The prefix that systemd puts before file names for `LoadCredential=setting:/folder`. */
const FOLDER_CREDENTIAL = 'setting_';
/** Bytes of a settings file; usual ones have a few KiB, and a wrong file must not fill the memory. */
const LARGEST_FILE = 2 ** 20;

export interface LoadOptions extends Surroundings {
  file?: string | undefined;
  env: Readonly<Record<string, string | undefined>>;
}

export interface Loaded {
  config: Config;
  /** One line each, for the log. */
  warnings: string[];
  file: string | null;
  /** The origin of each setting that is not at its default: the file, a credential, a variable. */
  origins: ReadonlyMap<string, string>;
}

/** The settings are invalid (exit code 78). `mistakes` has a line for each: the setting's path, what was expected, what was found. */
export class ConfigError extends Error {
  readonly mistakes: readonly string[];
  /** True if this user may not read the settings file: then it is not the settings that are wrong. Exit code 77. */
  readonly isForbidden: boolean;

  constructor(mistakes: readonly string[], { isForbidden = false } = {}) {
    super(mistakes.join('\n'));
    this.name = 'ConfigError';
    this.mistakes = mistakes;
    this.isForbidden = isForbidden;
  }
}

/** Reads all sources of settings. Throws `ConfigError` with all mistakes. */
export function loadConfig(options: LoadOptions): Loaded {
  const entries = listSettings();
  const file = readSettingsFile(options, entries);
  const credentials = readCredentials(entries, options.env['CREDENTIALS_DIRECTORY']);
  const environment = readEnvironment(entries, options.env, readText);
  const written = [...credentials.written, ...environment.written];
  const origins = new Map([
    ...(file.name === null ? [] : [['', file.name] as const]),
    ...entries.filter((entry) => isWritten(file.tree, entry)).map((entry) => [entry.path, file.name ?? ''] as const),
    ...written.map((value) => [value.path, value.origin] as const),
  ]);
  const tree = layered(file.tree, written);
  const reading = readSettings(tree, options, origins);
  const mistakes = [
    ...file.mistakes,
    ...credentials.mistakes,
    ...environment.mistakes,
    ...(reading.kind === 'bad' ? reading.mistakes : []),
  ];
  if (reading.kind === 'bad' || mistakes.length > 0) throw new ConfigError(mistakes);
  const warnings = [
    ...file.empty.filter((name) => !origins.has(name)).map((name) => noValue(name, file.name ?? '')),
    ...credentials.warnings,
    ...environment.warnings,
    ...nameWarning(reading.config),
    ...retentionWarning(reading.config),
    ...plaintextPasswords(reading.config.delivery.routes),
  ];
  return { config: reading.config, warnings, file: file.name, origins };
}

function isWritten(tree: unknown, { path: name }: SettingEntry): boolean {
  return (valueAt(tree, name.split('.')) ?? null) !== null;
}

function nameWarning({ smtp }: Config): string[] {
  if (smtp.hostname.includes('.')) return [];
  return [`smtp.hostname: "${smtp.hostname}" is not a fully qualified name; many mail servers refuse it in EHLO`];
}

function retentionWarning({ retention: { content, messages } }: Config): string[] {
  if (content <= messages) return [];
  return [
    `retention.content: ${writeDuration(content)} has no effect beyond retention.messages (${writeDuration(messages)}), with which the contents go`,
  ];
}

interface SettingsFile {
  name: string | null;
  tree: unknown;
  mistakes: string[];
  /** Paths of settings whose name has nothing behind it. */
  empty: string[];
}

function readSettingsFile({ file, env, cwd }: LoadOptions, entries: readonly SettingEntry[]): SettingsFile {
  const named = file ?? env['POSTHORN_CONFIG'];
  const candidates = named === undefined ? USUAL_FILES : [named];
  for (const candidate of candidates) {
    const name = path.resolve(cwd, candidate);
    const reading = readText(name);
    if (reading.kind === 'ok') return readYaml(name, reading.text, entries);
    if (reading.kind === 'bad' && (reading.why === 'EACCES' || reading.why === 'EPERM'))
      throw new ConfigError([`${name}: this user may not read the settings (${reading.why})`], { isForbidden: true });
    if (reading.kind === 'bad') return unread(name, `${name}: expected a readable file: ${reading.why}`);
    if (named !== undefined) return unread(name, `${name}: expected a settings file, found none`);
  }
  return { name: null, tree: {}, mistakes: [], empty: [] };
}

const unread = (name: string, ...mistakes: string[]): SettingsFile => ({ name, tree: {}, mistakes, empty: [] });

function readYaml(name: string, text: string, entries: readonly SettingEntry[]): SettingsFile {
  const document = parseDocument(text, { prettyErrors: true });
  const mistakes = document.errors.map(({ code, message, linePos }) => {
    const line = linePos?.[0].line ?? 1;
    if (message.startsWith('Missing closing')) return `${name}: a quote is not closed before line ${line}`;
    const said = (message.split('\n')[0] ?? message).replace(/:$/, '');
    // The parser's own words are for programmers.
    return `${name}: ${code === 'MULTIPLE_DOCS' ? `expected one document, found another from line ${line} on` : said}`;
  });
  if (mistakes.length > 0) return unread(name, ...mistakes);
  try {
    return { name, tree: document.toJS({ maxAliasCount: 100 }), mistakes, empty: emptyValues(document, entries) };
  } catch (error) {
    // The error would name the alias, which may be a password that begins with an asterisk.
    const why = String(error).includes('Excessive alias count')
      ? 'its aliases (`*name`) make too much of it'
      : 'a value begins with `*`, which YAML takes for an alias, and there is no such anchor: put it in quotes';
    return unread(name, `${name}: ${why}`);
  }
}

function emptyValues(document: Document, entries: readonly SettingEntry[]): string[] {
  return entries.flatMap(({ path: name }) => {
    const node = document.getIn(name.split('.'), true);
    return isScalar(node) && node.value === null && node.source === '' ? [name] : [];
  });
}

/** A passphrase that begins with `#` is a comment to YAML, and one that begins with `&` an anchor. */
const noValue = (name: string, file: string): string =>
  `${name}: has no value in ${file}, so the default holds; text that begins with # or & needs quotes`;

function readCredentials(entries: readonly SettingEntry[], folder: string | undefined): ReadValues {
  if (folder === undefined) return { written: [], mistakes: [], warnings: [] };
  const written: Written[] = [];
  const mistakes: string[] = [];
  const present = new Set(namesIn(folder));
  for (const entry of entries) {
    const name = [entry.path, `${FOLDER_CREDENTIAL}${entry.path}`].find((one) => present.has(one));
    if (name === undefined) continue;
    const file = path.join(folder, name);
    readValue(entry, { name: file, file }, readText, { written, mistakes });
  }
  // Files of the folder of settings have no other use; a credential with a name of its own may be a certificate.
  const paths = entries.map((entry) => entry.path);
  const warnings = [...present]
    .filter((name) => name.startsWith(FOLDER_CREDENTIAL))
    .map((name) => name.slice(FOLDER_CREDENTIAL.length))
    .filter((name) => !paths.includes(name))
    .map((name) => `${path.join(folder, FOLDER_CREDENTIAL + name)}: ${unknownSetting(name, paths)}`);
  return { written, mistakes, warnings };
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // an unreadable folder has no credential for us; systemd makes its own folder readable
  }
}

/** Puts single values into the tree of the file. A group that is not a map stays, so that the schema refuses it. */
function layered(tree: unknown, written: readonly Written[]): unknown {
  return written.reduce((grown, { path: name, value }) => withValue(grown, name.split('.'), value), tree);
}

export function withValue(tree: unknown, [step, ...rest]: readonly string[], value: unknown): unknown {
  if (step === undefined) return value;
  const from = tree ?? {};
  if (typeof from !== 'object' || Array.isArray(from)) return tree;
  return { ...from, [step]: withValue(Reflect.get(from, step), rest, value) };
}

/** Reads a file of at most 1 MiB of UTF-8. */
export function readText(file: string): FileReading {
  let descriptor: number | null = null;
  try {
    descriptor = openSync(file, 'r');
    const buffer = Buffer.alloc(LARGEST_FILE + 1);
    let length = 0;
    for (let n = -1; n !== 0 && length < buffer.length; length += n)
      n = readSync(descriptor, buffer, length, buffer.length - length, null);
    return length > LARGEST_FILE
      ? { kind: 'bad', why: 'larger than 1 MiB' }
      : { kind: 'ok', text: buffer.toString('utf8', 0, length) };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    return code === 'ENOENT' || code === 'ENOTDIR' ? { kind: 'absent' } : { kind: 'bad', why: code };
  } finally {
    if (descriptor !== null) closeSync(descriptor);
  }
}

/** Returns the path of a file in the program's own folder `config/`, from `src/` and from `dist/src/` alike. */
export function shippedFile(name: string): string {
  const places = ['../..', '../../..'].map((up) => path.resolve(import.meta.dirname, up, 'config', name));
  return places.find((place) => existsSync(place)) ?? path.join('config', name);
}

/** Reads `named`, or the shipped file if it is null. Throws ConfigError with a line for each mistake, which begins with `setting`, if given. */
export function readDataFile<T>(
  form: z.ZodType<T>,
  { setting, named, shipped = '' }: { setting: string | null; named: string | null; shipped?: string },
): T {
  const file = named ?? shippedFile(shipped);
  const fault = (...mistakes: string[]): ConfigError =>
    new ConfigError(mistakes.map((one) => [...(setting === null ? [] : [setting]), file, one].join(': ')));
  const reading = readText(file);
  if (reading.kind !== 'ok') throw fault(reading.kind === 'bad' ? reading.why : 'no such file');
  let tree: unknown;
  try {
    tree = parse(reading.text);
  } catch (error) {
    throw fault(error instanceof Error ? (error.message.split('\n')[0] ?? '') : 'unreadable');
  }
  const result = form.safeParse(tree);
  if (result.success) return result.data;
  throw fault(...result.error.issues.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`));
}

const PREFIX = 'POSTHORN_';

/** Variables with this prefix that are not settings: for the command line, clients and tests. */
const NOT_SETTINGS: ReadonlySet<string> = new Set(
  ['CONFIG', 'API_KEY', 'BASE_URL', 'CORPORA'].map((name) => PREFIX + name),
);

/** One written value, as YAML would give it. */
export interface Written {
  path: string;
  value: unknown;
  /** The origin for error lines: a variable or a file name. */
  origin: string;
}

export type FileReading = { kind: 'ok'; text: string } | { kind: 'absent' } | { kind: 'bad'; why: string };

/** The result of one source of settings: the environment, or the credentials. */
export interface ReadValues {
  written: Written[];
  /** One line each; the program starts all the same. */
  warnings: string[];
  mistakes: string[];
}

/** Returns the variable of a setting: `http.publicUrl` is `POSTHORN_HTTP__PUBLIC_URL`. */
export function variableOf(path: string): string {
  const words = path.replaceAll('.', '__').replaceAll(/[A-Z]/g, (capital) => `_${capital}`);
  return PREFIX + words.toUpperCase();
}

export function readEnvironment(
  entries: readonly SettingEntry[],
  env: Readonly<Record<string, string | undefined>>,
  readFile: (file: string) => FileReading,
): ReadValues {
  const known = new Map(entries.map((entry) => [variableOf(entry.path), entry]));
  const reading: ReadValues = { written: [], warnings: [], mistakes: [] };
  for (const [name, text] of Object.entries(env)) {
    if (text === undefined || !name.startsWith(PREFIX) || NOT_SETTINGS.has(name)) continue;
    const direct = known.get(name);
    const fromFile = name.endsWith('_FILE') ? known.get(name.slice(0, -'_FILE'.length)) : undefined;
    if (direct !== undefined) reading.written.push(writtenAs(direct, text, name));
    else if (fromFile !== undefined && env[variableOf(fromFile.path)] !== undefined)
      reading.mistakes.push(`${fromFile.path}: expected ${variableOf(fromFile.path)} or ${name}, found both`);
    else if (fromFile !== undefined) readValue(fromFile, { name, file: text }, readFile, reading);
    else reading.warnings.push(unknownSetting(name, [...known.keys()]));
  }
  return reading;
}

function readValue(
  entry: SettingEntry,
  { name, file }: { name: string; file: string },
  readFile: (file: string) => FileReading,
  { written, mistakes }: Pick<ReadValues, 'written' | 'mistakes'>,
): void {
  const reading = readFile(file);
  if (reading.kind === 'ok') written.push(writtenAs(entry, reading.text.trim(), name));
  else
    mistakes.push(
      `${entry.path} (${name}): expected a readable file, found ${file}: ${reading.kind === 'bad' ? reading.why : 'no such file'}`,
    );
}

export function writtenAs({ path, note }: SettingEntry, text: string, origin: string): Written {
  return { path, value: fromText(note.form, text), origin };
}

/** Returns the YAML value of the text. A text that does not fit stays text, and the schema reports what it expected. */
function fromText(form: Form, text: string): unknown {
  switch (form) {
    case 'text':
      return text;
    case 'number':
      return /^-?\d{1,15}(?:\.\d+)?$/.test(text.trim()) ? Number(text) : text;
    case 'flag':
      return text === 'true' ? true : text === 'false' ? false : text;
    case 'list':
      return text.trimStart().startsWith('[') ? fromJson(text) : items(text);
    case 'map':
      return fromJson(text);
  }
}

function items(text: string): string[] {
  const found = text.split(',').map((item) => item.trim());
  return found.length === 1 && found[0] === '' ? [] : found;
}

function fromJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function unknownSetting(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return `${name} is not a setting and has no effect${meant === null ? '' : `; did you mean ${meant}?`}`;
}

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
      for (const key of issue.keys) lines.set(spell([...issue.path, key]), unknownMember(issue.path, key));
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

function unknownMember(group: readonly PropertyKey[], key: string): string {
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

interface Place {
  setting: string;
  host: string;
  port: number;
}

/** Returns a line for each listener whose port another one has, on the same address or on all addresses. Port 0 takes a free one. */
function portClashes({ http, dashboard, metrics, smtp }: Config): string[] {
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
