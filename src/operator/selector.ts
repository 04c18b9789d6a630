/** How an operation on the queue says which mail it is about: by one property, by several that the mail must all have, or all of it. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { partText, type HoldPart } from '../messages/delivery/hold-index.ts';
import type { Act } from '../operations/act.ts';
import type { Value } from '../storage/connection.ts';
import { dialectOf } from '../storage/sql.ts';
import type { OperatorDeps, StoreDeps } from './deps.ts';
import { laneNamed, waitingDomainsOf } from './domain-lanes.ts';
import { isLaneKnown, isSetByOperator } from './lane-records.ts';
import { accountOfMessage } from './messages.ts';
import { recipientDomain } from './recipient-domain.ts';
import { accountNamed } from './team/accounts.ts';
import { always, ofPool, type Condition, type WaitingMail } from './waiting-pages.ts';

const member = (most: number) => z.string().min(1).max(most).optional();

export const selectorMembers = {
  domain: recipientDomain.optional(),
  lane: member(300),
  account: member(200),
  stream: member(100),
  /** A key's id. */
  key: member(100),
  tag: member(200),
  message_id: member(100),
  all: z.literal(true).optional(),
};
/** A hold can be about a source too, by which the mail is sent that comes next. */
export const holdMembers = { ...selectorMembers, source: member(100) };
export type Selector = Partial<z.output<z.ZodObject<typeof holdMembers>>>;

/** The scopes, the ones that fewest mails have first, with the member that names each. */
const scopes = [
  ['message', 'message_id'],
  ['lane', 'lane'],
  ['source', 'source'],
  ['stream', 'stream'],
  ['key', 'key'],
  ['tag', 'tag'],
  ['domain', 'domain'],
  ['account', 'account'],
] as const;

/** Returns what was named, whether it exists or not. Throws `invalid_field` if nothing was, or all mail and a part of it. */
function pointedAt(selector: Selector): Pick<HoldPart, 'scope' | 'target'> {
  const named = scopes.flatMap(([scope, name]) => {
    const target = selector[name];
    return target === undefined ? [] : [{ scope, target }];
  });
  const [first] = named;
  if (selector.all === true ? first !== undefined : first === undefined)
    throw new Problem(
      'invalid_field',
      'name the mail: a domain, lane, account, stream, key, tag or message, several of them, or all mail',
    );
  return first ?? { scope: 'all', target: '' };
}

/** Finds the part for an act, which names it in the audit even if it does not exist. Throws as `partOf` does. */
export async function partFor(
  deps: Pick<OperatorDeps, 'db' | 'config'>,
  selector: Selector,
  act: Act,
  as: 'before' | 'after' = 'after',
): Promise<HoldPart> {
  const { scope, target } = pointedAt(selector);
  act.on({ [as]: { target, part: `${scope} ${target}` } });
  const part = await partOf(deps, selector);
  if (part.account_id !== null) act.concerns(part.account_id);
  act.on({ [as]: { ...part, part: partText(part) } });
  return part;
}

/** Throws `invalid_field` if it names no mail, `not_found` if what it names does not exist. */
export async function partOf(deps: Pick<OperatorDeps, 'db' | 'config'>, selector: Selector): Promise<HoldPart> {
  const pointed = pointedAt(selector);
  const { domain, stream, key, tag, message_id: message, source } = selector;
  const account = await accountOf(deps, selector);
  if (source !== undefined && !deps.config.delivery.sources.some(({ name }) => name === source))
    throw missing('source', `${JSON.stringify(source)}: see \`posthorn queue sources\``);
  if (stream !== undefined) await mustExist(deps, 'stream', 'streams', { slug: stream, ...ofAccount(account) });
  if (key !== undefined) await mustExist(deps, 'key', 'api_keys', { id: key, ...ofAccount(account) });
  const further = { domain, stream, key_id: key, tag };
  const { scope } = pointed;
  const own = scope === 'key' ? 'key_id' : scope;
  return {
    ...{ domain: null, stream: null, key_id: null, tag: null },
    ...Object.fromEntries(Object.entries(further).filter(([name, value]) => value !== undefined && name !== own)),
    scope,
    target: scope === 'account' ? (account ?? '') : pointed.target,
    account_id: message === undefined ? account : await accountOfMessage(deps, message),
  };
}

const ofAccount = (account: string | null) => (account === null ? {} : { account_id: account });

async function accountOf(deps: Pick<StoreDeps, 'db'>, { account }: Selector): Promise<string | null> {
  return account === undefined ? null : (await accountNamed(deps, account)).id;
}

const missing = (kind: string, what: string): Problem =>
  new Problem('not_found', `there is no ${kind} ${what}`, { field: kind });

async function mustExist(
  { db }: Pick<StoreDeps, 'db'>,
  kind: 'stream' | 'key',
  table: string,
  where: Readonly<Record<string, string>>,
): Promise<void> {
  const row = (await db.reader(table).where(where).first()) as object | undefined;
  if (row === undefined) throw missing(kind, JSON.stringify(where['slug'] ?? where['id']));
}

/** The longest that an act looks up domains whose lane is not known, in ms: a page waits for it. */
export const LOOK_UPS_MS = 10_000;

/**
 * Finds the waiting mail that a selector names; of a lane by the domains that go by it now. Lanes that differ by their sources share the mail of
 * their pool: the source of a mail is chosen when it is sent. Throws as `partOf` does, and `service_unavailable` if a node does not answer.
 */
export async function mailOf(
  deps: OperatorDeps,
  selector: Selector,
  lookUpsMs: number,
): Promise<WaitingMail & { unknown?: number }> {
  const { domain, lane, message_id: message } = selector;
  const asked = await conditionOf(deps, selector);
  if (lane === undefined)
    return { domains: domain === undefined ? null : [domain], condition: asked, isOfMessage: message !== undefined };
  const named = laneNamed(deps, lane);
  const { domains, unknown } = await waitingDomainsOf(deps, named, lookUpsMs);
  if (domains.length === 0 && !isSetByOperator(deps, lane) && (await isLaneKnown(deps, lane)) === false)
    throw missing('lane', `${JSON.stringify(lane)}: see \`posthorn queue lanes\``);
  return {
    domains: domains.filter((one) => domain === undefined || one === domain),
    condition: both(ofPool(deps, named.pool), asked),
    isOfMessage: false,
    unknown,
  };
}

/** Returns the condition for all but the domain and the lane. */
export async function conditionOf(
  deps: Pick<StoreDeps, 'db'>,
  selector: Omit<Selector, 'domain' | 'lane'>,
): Promise<Condition> {
  const { stream, key, tag, message_id: message } = selector;
  const account = await accountOf(deps, selector);
  const ofMessage = (column: string): string =>
    `AND EXISTS (SELECT 1 FROM messages x WHERE x.id = d.message_id AND x.${column} = ?)`;
  const parts: [string, string | null | undefined][] = [
    ['AND d.account_id = ?', account],
    ['AND d.message_id = ?', message],
    [ofMessage('stream'), stream],
    [ofMessage('key_id'), key],
    [
      'AND EXISTS (SELECT 1 FROM message_tags t WHERE t.account_id = d.account_id AND t.tag = ? AND t.message_id = d.message_id)',
      tag,
    ],
  ];
  const given = parts.filter((one): one is [string, string] => one[1] != null);
  return given.reduce<Condition>((all, [sql, value]) => both(all, { sql, values: [value] }), always);
}

export const both = (one: Condition, other: Condition): Condition => ({
  sql: `${one.sql} ${other.sql}`,
  values: [...one.values, ...other.values],
});

/** Returns the condition that a delivery is for one of these domains, and the further condition. */
export const ofMail = (
  { reader }: Pick<StoreDeps['db'], 'reader'>,
  { domains, condition }: Pick<WaitingMail, 'domains' | 'condition'>,
): Condition =>
  domains === null
    ? condition
    : both(
        { sql: `AND d.domain ${dialectOf(reader).among('text')}`, values: [JSON.stringify(domains) as Value] },
        condition,
      );
