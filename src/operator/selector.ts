/** The waiting mail that an operation on the queue is about: a part of the queue (parts.ts), narrowed further by a lane and a tag. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import type { Act } from '../operations/act.ts';
import { dialectOf } from '../storage/sql.ts';
import type { OperatorDeps, StoreDeps } from './deps.ts';
import { laneNamed, waitingDomainsOf } from './domain-lanes.ts';
import { isLaneKnown, isSetByOperator } from './lane-records.ts';
import { anyPart, mailArguments, partArguments, partFor } from './parts.ts';
import { always, ofPool, type Condition, type WaitingMail } from './waiting-pages.ts';

export const selectorMembers = {
  ...mailArguments,
  lane: partArguments.lane,
  tag: z.string().min(1).max(200).optional(),
  all: partArguments.all,
};
export type Selector = z.output<z.ZodObject<typeof selectorMembers>>;

/** The longest that an act looks up domains whose lane is not known, in ms: a page waits for it. */
export const LOOK_UPS_MS = 10_000;

/**
 * Finds the mail of an act, or of a list, which names all if it names nothing. The mail of a lane is found by the domains that go by it now; lanes
 * that differ by their sources share the mail of their pool, as the source of a mail is chosen when it is sent. Throws `not_found` for what does
 * not exist.
 */
export async function mailOf(
  deps: OperatorDeps,
  selector: Selector,
  lookUpsMs: number,
  act?: Act,
): Promise<WaitingMail & { unknown?: number }> {
  const { domain, lane, message_id: message } = selector;
  const asked = await conditionOf(deps, selector, act);
  if (lane === undefined)
    return { domains: domain === undefined ? null : [domain], condition: asked, isOfMessage: message !== undefined };
  const named = laneNamed(deps, lane);
  const { domains, unknown } = await waitingDomainsOf(deps, named, lookUpsMs);
  if (domains.length === 0 && !isSetByOperator(deps, lane) && !(await isLaneKnown(deps, lane)))
    throw new Problem('not_found', `there is no lane ${JSON.stringify(lane)}: see \`posthorn queue lanes\``, {
      field: 'lane',
    });
  return {
    domains: domains.filter((one) => domain === undefined || one === domain),
    condition: both(ofPool(deps, named.pool), asked),
    isOfMessage: false,
    unknown,
  };
}

/** Returns the condition for all but the domain and the lane. */
export async function conditionOf(
  deps: Pick<OperatorDeps, 'db' | 'config'>,
  { lane: _, tag, all: __, ...mail }: Selector,
  act: Pick<Act, 'concerns'> = { concerns: () => undefined },
): Promise<Condition> {
  const isNamed = Object.values(mail).some((one) => one !== undefined);
  const part = isNamed ? await partFor(deps, mail, act) : anyPart;
  const ofMessage = (column: string): string =>
    `AND EXISTS (SELECT 1 FROM messages x WHERE x.id = d.message_id AND x.${column} = ?)`;
  const parts: [string, string | null | undefined][] = [
    ['AND d.account_id = ?', part.account],
    ['AND d.message_id = ?', part.message],
    [ofMessage('stream'), part.stream],
    [ofMessage('key_id'), part.key],
    [ofMessage('batch_id'), part.batch],
    [
      'AND EXISTS (SELECT 1 FROM message_tags t WHERE t.account_id = d.account_id AND t.tag = ? AND t.message_id = d.message_id)',
      tag,
    ],
  ];
  return parts.reduce<Condition>(
    (found, [sql, value]) => (value == null ? found : both(found, { sql, values: [value] })),
    always,
  );
}

export const both = (one: Condition, other: Condition): Condition => ({
  sql: `${one.sql} ${other.sql}`.trim(),
  values: [...one.values, ...other.values],
});

/** Returns the condition that a delivery is for one of these domains, and the further condition. */
export const ofMail = (
  { reader }: Pick<StoreDeps['db'], 'reader'>,
  { domains, condition }: Pick<WaitingMail, 'domains' | 'condition'>,
): Condition =>
  domains === null
    ? condition
    : both({ sql: `AND d.domain ${dialectOf(reader).among('text')}`, values: [JSON.stringify(domains)] }, condition);
