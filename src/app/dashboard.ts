/** Builds the dashboard, with the history of the queue's depth that it draws. */
import { createDashboard, type Dashboard } from '../dashboard/dashboard.ts';
import { createKnownDevices } from '../members/sign-in.ts';
import { createPasswords } from '../members/password.ts';
import type { Mta } from '../mta/mta.ts';
import { createHistory } from '../operator/metrics/history.ts';
import { version } from '../version.ts';
import type { AppContext } from './context.ts';

export function buildDashboard(
  { db, clock, log, keyring, live, usedUp, meters }: AppContext,
  {
    mta,
    ...parts
  }: Pick<Parameters<typeof createDashboard>[0], 'inside' | 'routes' | 'bodyMemory' | 'newcomers'> & { mta: Mta },
): Dashboard {
  const history = createHistory({
    db,
    clock,
    mta,
    families: meters === null ? null : () => meters.families(),
    failed: (err) => log.warn({ event: 'history_failed', err }, 'the depth of the queue could not be noted'),
  });
  return createDashboard({
    ...parts,
    db,
    clock,
    log,
    keyring,
    // Those in force: a reload replaces some of them.
    get config() {
      return live.config;
    },
    version,
    history,
    passwords: createPasswords(usedUp),
    usedUp,
    devices: createKnownDevices(keyring.derive('known devices')),
  });
}
