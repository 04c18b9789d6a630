/** The parts of the program that tests replace. */
import type { Clock } from '../base/clock.ts';
import type { Log, RootLog } from '../base/log.ts';
import type { Resolver } from '../net/resolver.ts';

/** A part that is left out is the real one. */
export interface Overrides {
  clock?: Clock;
  log?: Log | RootLog;
  resolver?: Resolver;
  random?: () => number;
  /** PEM certificates that mail hosts may chain to. */
  ca?: string;
  /** Port of the web servers that MTA-STS policies are fetched from. */
  stsPort?: number;
}
