/** The dependencies of the dashboard. */
import type { Inside } from '../api/inside.ts';
import type { Route } from '../api/route.ts';
import type { BodyMemory } from '../api/body-memory.ts';
import type { IdempotencyStore } from '../storage/idempotency-store.ts';
import type { Newcomers } from '../api/newcomers.ts';
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/schema.ts';
import type { KnownDevices } from '../members/known-device.ts';
import type { Passwords } from '../members/password.ts';
import type { History } from '../operator/metrics/history.ts';
import type { Database } from '../storage/database.ts';

export interface DashboardDeps {
  db: Database;
  clock: Clock;
  log: Pick<Log, 'error' | 'debug'>;
  keyring: Keyring;
  passwords: Passwords;
  devices: KnownDevices;
  /** The memory for bodies, shared with the API. */
  bodyMemory: BodyMemory;
  /** Budgets for connections without a key or a session. */
  newcomers: Newcomers;
  usedUp: UsedUp;
  /** The answers to forms, so that a form that is sent twice is done once. */
  idempotency: IdempotencyStore;
  /** The operations: their paths are not the dashboard's, and forms are made from their inputs. */
  routes: readonly Route[];
  /** Calls operations for pages. */
  inside: Inside;
  /** Queue depth and acceptance times of the last day; stopped with the dashboard. */
  history: History;
  config: Config;
  version: string;
}
