/** Compares the settings in force with those that the file and the environment have now. */
import type { Clock } from '../base/clock.ts';
import { ConfigError } from './load.ts';
import { listSettings, type Config } from './schema.ts';
import { isDeepStrictEqual } from 'node:util';
import { valueAt } from '../base/check.ts';
import { words } from '../base/words.ts';

export type SettingsState =
  | { kind: 'in_force' }
  /** `applied` are settings that a reload would apply. */
  | { kind: 'edited'; changes: Changes }
  /** The written settings have mistakes: neither a reload nor a restart would take them. */
  | { kind: 'bad'; mistakes: readonly string[] };

/** Milliseconds for which an answer is good; a reading takes some milliseconds, and the dashboard asks often. */
const KEPT_MS = 5_000;

/** Returns a function that reads the settings, at most once in five seconds. `read` throws ConfigError for mistakes. */
export function watchSettings(
  { clock }: { clock: Pick<Clock, 'monotonic'> },
  { inForce, read }: { inForce: () => Config; read: () => Config },
): () => SettingsState {
  let last: { at: number; of: Config; state: SettingsState } | null = null;
  return () => {
    const at = clock.monotonic();
    const of = inForce();
    if (last?.of !== of || at - last.at >= KEPT_MS) last = { at, of, state: stateOf(of, read) };
    return last.state;
  };
}

function stateOf(inForce: Config, read: () => Config): SettingsState {
  try {
    const changes = changesBetween(inForce, read());
    const isSame = changes.applied.length === 0 && changes.needRestart.length === 0;
    return isSame ? { kind: 'in_force' } : { kind: 'edited', changes };
  } catch (error) {
    if (error instanceof ConfigError) return { kind: 'bad', mistakes: error.mistakes };
    throw error;
  }
}

/** Settings that are applied on SIGHUP; the certificate is read again even if its file names are the same. */
const RELOADABLE: readonly string[] = words(
  'log.level delivery.bounceRules delivery.limits delivery.routes delivery.shaping plans tls.certFile tls.keyFile',
);

export interface Changes {
  applied: string[];
  /** Paths of settings that differ and need a restart. */
  needRestart: string[];
}

export function changesBetween(before: Config, after: Config): Changes {
  const changed = listSettings()
    .map(({ path }) => path)
    .filter((path) => !isDeepStrictEqual(valueAt(before, path.split('.')), valueAt(after, path.split('.'))));
  return {
    applied: changed.filter((path) => RELOADABLE.includes(path)),
    needRestart: changed.filter((path) => !RELOADABLE.includes(path)),
  };
}
