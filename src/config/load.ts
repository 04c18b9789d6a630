/**
 * Loads the settings from file, credentials and environment into one frozen `Config`, or reports all mistakes at once. Later
 * sources win: default, file, systemd credential (named like the setting, such as `delivery.routes`), environment variable.
 */
import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs';
import path from 'node:path';
import { isScalar, Lexer, parseDocument, type Document } from 'yaml';
import { valueAt } from '../base/schema-path.ts';
import { writeDuration } from '../base/time.ts';
import type { Form } from './kind.ts';
import { plaintextPasswords } from './route.ts';
import { listSettings, type Config, type SettingEntry, type Surroundings } from './schema.ts';
import { readSettings } from './validate.ts';
import { nearest } from '../base/spelling.ts';

/**
 * The settings files that are tried in this order if neither `--config` nor POSTHORN_CONFIG names one. The second is relative
 * to the working directory.
 */
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

/**
 * The settings are invalid. `mistakes` has a line for each: the setting's path, what was expected, what was found. Exit code
 * 78.
 */
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
    if (message.startsWith('Missing closing'))
      return `${name}: the quote that opens in line ${openQuote(text)} is not closed`;
    const said = (message.split('\n')[0] ?? message).replace(/:$/, '');
    // The parser's own words are for programmers.
    return `${name}: ${code === 'MULTIPLE_DOCS' ? `expected one document, found another from line ${String(linePos?.[0].line ?? 1)} on` : said}`;
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

/** Returns the line of the quote that is not closed. The parser tells where it has missed its end, which may be that of the file. */
function openQuote(text: string): number {
  const isOpen = (token: string): boolean =>
    /^["']/.test(token) && (token.length < 2 || !token.endsWith(token.charAt(0)));
  const token = [...new Lexer().lex(text)].findLast(isOpen) ?? '';
  return text.slice(0, text.lastIndexOf(token)).split('\n').length;
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
    const reading = readText(file);
    if (reading.kind === 'ok') written.push(writtenAs(entry, reading.text.trim(), file));
    else
      mistakes.push(
        `${entry.path}: expected a readable credential, found ${file}: ${reading.kind === 'bad' ? reading.why : 'gone'}`,
      );
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
    else if (fromFile !== undefined) readIndirect(fromFile, { name, file: text }, env, readFile, reading);
    else reading.warnings.push(unknownSetting(name, [...known.keys()]));
  }
  return reading;
}

function readIndirect(
  entry: SettingEntry,
  source: { name: string; file: string },
  env: Readonly<Record<string, string | undefined>>,
  readFile: (file: string) => FileReading,
  into: ReadValues,
): void {
  if (env[variableOf(entry.path)] !== undefined) {
    into.mistakes.push(`${entry.path}: expected ${variableOf(entry.path)} or ${source.name}, found both`);
    return;
  }
  const reading = readFile(source.file);
  if (reading.kind === 'ok') into.written.push(writtenAs(entry, reading.text.trim(), source.name));
  else
    into.mistakes.push(
      `${entry.path} (${source.name}): expected a readable file, found ${source.file}: ${reading.kind === 'bad' ? reading.why : 'no such file'}`,
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

/** Returns the warning about a name that is not a setting, with the nearest one of `known`. */
export function unknownSetting(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  return `${name} is not a setting and has no effect${meant === null ? '' : `; did you mean ${meant}?`}`;
}
