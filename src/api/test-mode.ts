/** Test keys are a sandbox: `touches` (route.ts, middleware/admit.ts) bounds writes, and a `MailReach` has simulated mail alone. */
import { Problem, notFound } from '../base/problem.ts';
import type { Caller } from '../keys/caller.ts';
import { findMessage, type MailReach } from '../messages/store/message-store.ts';
import type { Database } from '../storage/database.ts';
import type { MessageRow } from '../storage/tables.ts';
import type { Route } from './route.ts';

/** The mail that a caller may see and change. */
export const reachOf = ({ accountId, mode }: Pick<Caller, 'accountId' | 'mode'>): MailReach => ({
  accountId,
  onlyTest: mode === 'test',
});

/** Returns a message that the caller may see. Throws `not_found`. */
export async function requireMessage(
  { reader }: Pick<Database, 'reader'>,
  caller: Caller,
  id: string,
): Promise<MessageRow> {
  const row = await findMessage(reader, reachOf(caller), id);
  if (row === undefined) throw noMessage();
  return row;
}

export const noMessage = (): Problem => notFound('id', 'There is no such message.');

/** The filter `test` of a list: a test key reads simulated mail only. Throws `forbidden_in_test_mode` if it asks for live mail. */
export function testFilter(caller: Pick<Caller, 'mode'>, asked: boolean | undefined): boolean | undefined {
  if (caller.mode === 'live') return asked;
  if (asked !== false) return true;
  throw new Problem(
    'forbidden_in_test_mode',
    'A test key reads simulated mail only. Leave `test` out, or use a live key.',
    {
      field: 'test',
    },
  );
}

/** Throws `forbidden_in_test_mode` if a test key asks for a change of something that live mail uses too. */
export function refuseInTestMode(route: Pick<Route, 'method' | 'touches'>, caller: Pick<Caller, 'mode'>): void {
  if (caller.mode === 'live' || !writesShared(route)) return;
  throw new Problem(
    'forbidden_in_test_mode',
    'A test key changes only simulated mail, and this is shared with live mail. Use a live key.',
  );
}

/** Returns whether a route writes what live and test mail share, or returns a secret of it. */
export const writesShared = ({ method, touches }: Pick<Route, 'method' | 'touches'>): boolean =>
  touches === 'secret' || (method !== 'GET' && touches !== 'mail' && touches !== 'nothing');
