/**
 * Reads settings from environment variables: `delivery.dnsServers` is `POSTHORN_DELIVERY__DNS_SERVERS`, or `..._FILE` with the
 * path of a file that has the value. Files and the environment are parameters.
 */
import { nearest } from '../base/spelling.ts';
import type { SettingEntry } from './schema.ts';
import type { Form } from './kind.ts';

const PREFIX = 'POSTHORN_';

/** Variables with this prefix that are not settings: for the command line, the unit, clients and tests. */
const NOT_SETTINGS: ReadonlySet<string> = new Set(
  ['CONFIG', 'BOOT_ID', 'API_KEY', 'BASE_URL', 'CORPORA'].map((name) => PREFIX + name),
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

/** Reads all `POSTHORN_*` variables. */
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
