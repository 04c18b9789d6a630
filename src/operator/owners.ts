/** The rule about things that members make for their account: their maker, administrators and the command line change them. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { Act } from '../operations/act.ts';

/** True where things that others have made may be changed; `ownOnly` takes the choice from members who are not administrators. */
export const ofOthersArgument = z.boolean().optional();
export const ownOnly = { of_others: false } as const;

/** Throws a Problem where another member has made it. `what`: such as `the view “Bounces”`. */
export function refuseOthers(
  what: string,
  { created_by: maker }: { created_by: string },
  { actor }: Pick<Act, 'actor'>,
  ofOthers = true,
): void {
  if (ofOthers || maker === actor) return;
  throw new Problem(
    'insufficient_scope',
    `${maker.replace(/^member:/, '')} has made ${what}. Only they and administrators may change or remove it.`,
  );
}
