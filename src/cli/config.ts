/** `posthorn config check` and `posthorn config show`. */
import { valueAt } from '../base/check.ts';
import { ConfigError, withValue, type Loaded } from '../config/load.ts';
import { writeDuration } from '../base/time.ts';
import { writeSize } from '../config/kind.ts';
import { checkNamedFiles } from '../config/data-file.ts';
import { listSettings } from '../config/schema.ts';
import type { Config, SettingEntry } from '../config/schema.ts';
import { socketPath } from '../operator/door/socket.ts';
import { setupWarnings } from '../operator/setup-warnings.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { becomeOwnerOf } from './tls.ts';

/** Reads all settings and reports every mistake. */
export async function checkSettings(context: Context, asJson: boolean | undefined): Promise<void> {
  if (asJson === true) {
    const { exitCode, ...checked } = await check(context);
    context.print(asJson, checked, () => []);
    context.end(exitCode);
    return;
  }
  const { file, config } = context.loadAloud();
  for (const warning of await checkPlaces(config)) context.note(`posthorn: ${warning}`);
  context.out(`the settings are good (${file ?? 'no settings file'})`);
}

/** Prints the settings in effect, without secrets. */
export function showSettings(context: Context, asJson: boolean | undefined): void {
  const loaded = context.loadAloud();
  const shown = (): string => JSON.stringify(withoutSecrets(loaded.config), hidePasswords, 2);
  for (const line of asJson === true ? [shown()] : table(loaded)) context.out(line);
}

/** Checks what the settings name, as the user of the service. Returns warnings; throws ConfigError with the mistakes, as the start would. */
function checkPlaces(config: Config): Promise<string[]> {
  becomeOwnerOf(config.dataDir);
  checkNamedFiles(config);
  socketPath(config.dataDir);
  return setupWarnings(config);
}

/** Returns mistakes as data, for programs. `file` is null if there is none, or it could not be read. */
async function check(context: Context): Promise<{
  exitCode: number;
  valid: boolean;
  file: string | null;
  mistakes: readonly string[];
  warnings: readonly string[];
}> {
  try {
    const { file, config, warnings } = context.load();
    const more = await checkPlaces(config);
    return { exitCode: exitCodes.ok, valid: true, file, mistakes: [], warnings: [...warnings, ...more] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const exitCode = error.isForbidden ? exitCodes.noPermission : exitCodes.config;
    return { exitCode, valid: false, file: null, mistakes: error.mistakes, warnings: [] };
  }
}

const HIDDEN = '(hidden)';

/** Returns whether the whole value is a secret, such as a passphrase. Routes are shown without their passwords. */
const isSecret = (value: unknown, { note }: SettingEntry): boolean => note.secret && typeof value === 'string';

const hidePasswords = (key: string, value: unknown): unknown => (key === 'password' ? HIDDEN : value);

function withoutSecrets(config: Config): unknown {
  return listSettings()
    .map((entry) => ({ entry, place: entry.path.split('.') }))
    .filter(({ entry, place }) => isSecret(valueAt(config, place), entry))
    .reduce<unknown>((shown, { place }) => withValue(shown, place, HIDDEN), config);
}

function table({ config, origins }: Loaded): string[] {
  const rows = listSettings().map((entry) => {
    const value = valueAt(config, entry.path.split('.'));
    return { path: entry.path, value: written(value, entry), origin: origins.get(entry.path) ?? 'default' };
  });
  const width = Math.max(...rows.map(({ path }) => path.length));
  return rows.map(({ path, value, origin }) => `${path.padEnd(width)}  ${value}  (${origin})`);
}

function written(value: unknown, entry: SettingEntry): string {
  if (value === undefined || value === null) return 'none';
  if (isSecret(value, entry)) return HIDDEN;
  if (Array.isArray(value)) return `[${value.map((item: unknown) => written(item, entry)).join(', ')}]`;
  if (typeof value === 'number' && entry.note.unit === 'ms') return writeDuration(value);
  if (typeof value === 'number' && entry.note.unit === 'bytes') return writeSize(value);
  return typeof value === 'string' ? value : JSON.stringify(value, hidePasswords);
}
