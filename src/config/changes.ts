/** Which settings differ between two readings, and which of them a running program can take over. */
import { isDeepStrictEqual } from 'node:util';
import { valueAt } from '../base/schema-path.ts';
import { listSettings } from './schema.ts';
import type { Config } from './schema.ts';

/** Settings that are looked at again on SIGHUP; the certificate is read again even where its files have the same names. */
const RELOADABLE: ReadonlySet<string> = new Set([
  'log.level',
  'delivery.bounceRules',
  'delivery.routes',
  'plans',
  'tls.certFile',
  'tls.keyFile',
]);

export interface Changes {
  /** Paths of settings that differ and are taken over. */
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
