/** All endpoints of the API, in the order of its description. */
import type { Bell } from '../base/bell.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { AcceptDeps } from '../messages/accept.ts';
import type { SendLimits } from '../messages/send-limits.ts';
import type { Database } from '../storage/database.ts';
import { createCursors } from './cursor.ts';
import { domainRoutes } from './domains.ts';
import { eventRoutes } from './events.ts';
import { messageRoutes } from './messages.ts';
import type { Route } from './route.ts';
import { suppressionRoutes } from './suppressions.ts';

export interface RoutesDeps {
  db: Database;
  clock: Clock;
  bells: { events: Bell };
  keyring: Keyring;
  accept: AcceptDeps;
  limits: SendLimits;
  smtputf8: boolean;
  /** Our name in the mail world. */
  hostname: string;
}

export function apiRoutes(deps: RoutesDeps): Route[] {
  const { db, clock, bells, keyring, accept, limits, smtputf8, hostname } = deps;
  const cursors = createCursors(keyring.derive('cursors'));
  return [
    ...messageRoutes({ db, accept, cursors, limits, smtputf8 }),
    ...eventRoutes({ db, clock, bells, cursors }),
    ...suppressionRoutes({ db, clock, cursors, findStream: accept.findStream }),
    ...domainRoutes({ db, cursors, hostname }),
  ];
}
