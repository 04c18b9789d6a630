/**
 * Loads the settings from file, credentials and environment into one frozen `Config`, or reports all mistakes at once. Later
 * sources win: default, file, systemd credential (named like the setting, such as `delivery.routes`), environment variable.
 */
import { closeSync, existsSync, openSync, readdirSync, readSync } from 'node:fs';
import path from 'node:path';
import { isScalar, Lexer, parseDocument, type Document } from 'yaml';
import { valueAt } from '../base/schema-path.ts';
import { writeDuration } from '../base/duration.ts';
import { readEnvironment, unknownSetting, writtenAs } from './environment.ts';
import type { FileReading, ReadValues, Written } from './environment.ts';
import { plaintextPasswords } from './route.ts';
import { listSettings, type Config, type SettingEntry, type Surroundings } from './schema.ts';
import { readSettings } from './validate.ts';

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

/** Returns the tree with another value at this place. */
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
