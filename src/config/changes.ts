/** Compares two readings of the settings: which differ, and which of these a running program can apply. */
import { isDeepStrictEqual } from 'node:util';
import { valueAt } from '../base/schema-path.ts';
import { listSettings, type Config } from './schema.ts';

/** Settings that are applied on SIGHUP; the certificate is read again even if its file names are the same. */
const RELOADABLE: ReadonlySet<string> = new Set([
  'log.level',
  'delivery.bounceRules',
  'delivery.routes',
  'delivery.shaping',
  'plans',
  'tls.certFile',
  'tls.keyFile',
]);

export interface Changes {
  /** Paths of settings that differ and are applied. */
  applied: string[];
  /** Paths of settings that differ and need a restart. */
  needRestart: string[];
}

export function changesBetween(before: Config, after: Config): Changes {
  const changed = listSettings()
    .map(({ path }) => path)
    .filter((path) => !isDeepStrictEqual(valueAt(before, path.split('.')), valueAt(after, path.split('.'))));
  return {
    applied: changed.filter((path) => RELOADABLE.has(path)),
    needRestart: changed.filter((path) => !RELOADABLE.has(path)),
  };
}
