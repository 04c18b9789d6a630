/**
 * The waiting mail that an operation on the queue is about. A part of the queue is any of recipient domain, account, stream, key, bulk send and message
 * together, or a lane, or a source, or all; a selector is a part, narrowed further by a lane and a tag.
 */
import { z } from 'zod';
import { Problem, invalid, notFound } from '../base/problem.ts';
import { parseMailbox, soughtDomain } from '../mail/address.ts';
import { type DeliveryChange, SIMULATOR_DOMAIN } from '../messages/delivery/delivery.ts';
import { hintsOfChanged } from '../messages/delivery/due-hint.ts';
import { ANY_SOURCE, EVERYWHERE, ofAnyMail, placeOfLane, type About, type OfMail } from '../messages/limits/limit.ts';
import type { Act } from '../operations/act.ts';
import type { OperatorDeps, StoreDeps } from './server-route.ts';
import { isLaneKnown, isSetByOperator, laneNamed, waitingDomainsOf } from './lanes.ts';
import { accountOfMessage } from './messages.ts';
import { accountNamed } from './team/accounts.ts';
import type { Value } from '../storage/connection.ts';
import { dialectOf } from '../storage/sql.ts';
import { DEFAULT_POOL, type DeliveryRow } from '../storage/tables.ts';

/** A domain in any spelling, such as `bücher.example` or `Example.NET.`; the result is the one that deliveries have. */
export const recipientDomain = z
  .string()
  .min(1)
  .max(253)
  .transform((text) => soughtDomain(text.trim().replace(/\.$/, '')));

const id = z.string().min(1).max(100).optional();

/** Members that narrow the part down, each further. */
export const mailArguments = {
  domain: recipientDomain.optional(),
  account: z.string().min(1).max(200).optional(),
  stream: z.string().min(1).max(100).optional(),
  key_id: id,
  batch_id: id,
  message_id: id,
};
export const partArguments = {
  ...mailArguments,
  lane: z.string().min(1).max(300).optional(),
  source: id,
  /** Everything. */
  all: z.literal(true).optional(),
};
export type NamedPart = z.output<z.ZodObject<typeof partArguments>>;

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
  const { site, pool } = laneNamed(deps, lane);
  const { domains, unknown } = await waitingDomainsOf(deps, site, lookUpsMs);
  if (domains.length === 0 && !isSetByOperator(deps, lane) && !(await isLaneKnown(deps, lane)))
    throw notFound('lane', `there is no lane ${JSON.stringify(lane)}: see \`posthorn queue lanes\``);
  return {
    domains: domains.filter((one) => domain === undefined || one === domain),
    condition: both(ofPool(deps, pool), asked),
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

type Waiting = Pick<DeliveryRow, 'id' | 'domain' | 'class' | 'account_id' | 'due_at'>;

/** A condition on rows of `deliveries d`, with its values; `sql` is empty or begins with AND. */
export interface Condition {
  sql: string;
  values: readonly Value[];
}

export const always: Condition = { sql: '', values: [] };

export interface WaitingMail {
  /** Recipient domains; null is all of them. */
  domains: readonly string[] | null;
  condition: Condition;
  /** The condition names one message, which has an index of its own. */
  isOfMessage: boolean;
}

/** A page is one commit, so that other writers get their turn between pages. */
const PAGE = 500;

/** Returns how many deliveries took the change. The first page's commit writes the audit line. */
export async function changeWaiting(
  deps: Pick<OperatorDeps, 'db' | 'recorder' | 'notifiers'>,
  mail: WaitingMail,
  change: DeliveryChange,
  act: Act,
): Promise<number> {
  let changed = 0;
  let isFirst = true;
  for await (const page of waitingPages(deps, mail)) {
    const rows = isFirst ? act.rows() : {};
    isFirst = false;
    const recorded = await deps.recorder.record(
      page.map(({ id }) => ({ deliveryId: id, change })),
      rows,
    );
    changed += recorded.filter(({ applied }) => applied).length;
    deps.notifiers.deliveries.notify(hintsOfChanged(page, recorded));
  }
  return changed;
}

/** Counts the mail, by the reader that no mail waits for: it may read much of the index. */
export async function countWaiting(
  { db }: Pick<OperatorDeps, 'db'>,
  mail: Pick<WaitingMail, 'domains' | 'condition'>,
): Promise<number> {
  const { sql, values } = ofMail(db, mail);
  const [row] = await db.maintenance.all<{ n: number }>(
    `SELECT COUNT(*) AS n FROM deliveries d WHERE d.due_at IS NOT NULL AND d.claim_epoch IS NULL ${sql}`,
    [...values],
  );
  return row?.n ?? 0;
}

/** Small domains share a page. The position only moves forward, so that a delivery that is moved back in the index is not read again. */
async function* waitingPages(deps: Pick<OperatorDeps, 'db'>, mail: WaitingMail): AsyncGenerator<Waiting[], void> {
  let page: Waiting[] = [];
  for (const domain of mail.domains ?? [null]) {
    let last: Waiting | undefined;
    for (;;) {
      const wanted = PAGE - page.length;
      const rows = await rowsAfter(deps.db, mail, { domain, last, most: wanted });
      last = rows.at(-1);
      page.push(...rows);
      if (page.length >= PAGE) {
        yield page;
        page = [];
      }
      if (rows.length < wanted) break;
    }
  }
  if (page.length > 0) yield page;
}

/** In one domain the position has none: then SQLite finds it in the index, after the equal domain. */
async function rowsAfter(
  { reader }: Pick<OperatorDeps['db'], 'reader'>,
  { condition, isOfMessage }: WaitingMail,
  { domain, last, most }: { domain: string | null; last: Waiting | undefined; most: number },
): Promise<Waiting[]> {
  const columns = [...(domain === null ? ['domain'] : []), 'class', 'account_id', 'due_at', 'id'] as const;
  const order = columns.map((column) => `d.${column}`).join(', ');
  const index = isOfMessage ? '' : dialectOf(reader).using('deliveries_due');
  return await reader.raw<Waiting[]>(
    `SELECT d.id, d.domain, d.class, d.account_id, d.due_at FROM deliveries d ${index}
     WHERE d.due_at IS NOT NULL ${domain === null ? '' : 'AND d.domain = ?'}
     ${last === undefined ? '' : `AND (${order}) > (${columns.map(() => '?').join(', ')})`}
     AND d.claim_epoch IS NULL ${condition.sql} ORDER BY ${order} LIMIT ?`,
    [
      ...(domain === null ? [] : [domain]),
      ...(last === undefined ? [] : columns.map((column) => last[column as keyof Waiting])),
      ...condition.values,
      most,
    ],
  );
}

/** Returns the condition for mail that may go by the sources of a pool. A pool without sources has no mail: its streams use the default pool. */
export function ofPool({ config }: Pick<OperatorDeps, 'config'>, pool: string | null): Condition {
  if (pool === null) return always;
  const pools = [...new Set(config.delivery.sources.map((source) => source.pool))];
  return {
    sql: `AND EXISTS (SELECT 1 FROM messages m LEFT JOIN streams s ON s.account_id = m.account_id AND s.slug = m.stream
       WHERE m.id = d.message_id AND CASE WHEN s.pool IN (${pools.map(() => '?').join(', ')}) THEN s.pool ELSE ? END = ?)`,
    values: [...pools, DEFAULT_POOL, pool],
  };
}

/** A part as limits are about it. */
export type Part = About & OfMail;

export const anyPart: Part = { site: EVERYWHERE, source: ANY_SOURCE, domain: null, account: null, ...ofAnyMail };

export function partOfLane(lane: string): Part {
  const { site, source } = placeOfLane(lane);
  return { ...anyPart, site, source: source ?? ANY_SOURCE };
}

export const isLane = ({ site }: Pick<Part, 'site'>): boolean => site !== EVERYWHERE;

/** Finds the part for an act, which is noted with its account; `check` says what can be named together. Throws `invalid_field` and `not_found`. */
export async function partFor(
  deps: Pick<OperatorDeps, 'db' | 'config'>,
  named: NamedPart,
  act: Pick<Act, 'concerns'>,
  check: (named: NamedPart) => unknown = pointedAt,
): Promise<Part> {
  check(named);
  const part = await findPart(deps, named);
  if (part.account !== null) act.concerns(part.account);
  return part;
}

/** The members by which mail is named, the narrowest first. */
const names = ['message_id', 'batch_id', 'key_id', 'lane', 'source', 'tag', 'stream', 'domain', 'account'] as const;
export type Named = Readonly<Partial<Record<(typeof names)[number], string | undefined>>> & { all?: true | undefined };

/** Returns what was named, the narrowest first, whether it exists or not. Throws `invalid_field` if nothing was, or all mail and a part of it. */
export function selected(named: Named): { scope: string; target: string } {
  const given = names.flatMap((name) =>
    named[name] === undefined ? [] : [[name.replace(/_id$/, ''), named[name]] as const],
  );
  const [first, ...others] = given;
  if (named.all === true ? first !== undefined : first === undefined)
    throw new Problem(
      'invalid_field',
      'name all mail, or any of a domain, an account, a stream, a key, a tag, a lane, a bulk send and a message',
    );
  if (first === undefined) return { scope: 'all', target: 'mail' };
  const further = others.map((one) => one.join(' ')).join(', ');
  return { scope: first[0], target: further === '' ? first[1] : `${first[1]} (${further})` };
}

/** Returns the words for what was named, such as `the domain example.net (account Acme)`. */
export function selectedText(named: Named): string {
  const { scope, target } = selected(named);
  return scope === 'all' ? 'the whole queue' : `the ${scope} ${target}`;
}

/** Returns the part as it was asked for, for the audit of an act that is refused. Throws `invalid_field` if it is none. */
export function pointedAt(named: NamedPart): { scope: string; target: string } {
  const { lane, source } = named;
  const given = Object.values(named).filter((value) => value !== undefined);
  if (given.length === 0 || (given.length > 1 && (lane ?? source) !== undefined))
    throw new Problem(
      'invalid_field',
      'name a lane, a source or all, or any of a domain, an account, a stream, a key, a bulk send and a message',
    );
  return selected(named);
}

async function findPart({ db, config }: Pick<OperatorDeps, 'db' | 'config'>, named: NamedPart): Promise<Part> {
  const { domain = null, account, stream = null, key_id: key = null, batch_id: batch = null } = named;
  const { message_id: message = null, lane, source } = named;
  if (source !== undefined && !config.delivery.sources.some(({ name }) => name === source))
    throw none('source', source);
  const place = { ...(lane === undefined ? anyPart : partOfLane(lane)), ...(source === undefined ? {} : { source }) };
  const owners = await Promise.all([
    account === undefined ? null : accountNamed({ db }, account).then((found) => found.id),
    key === null ? null : ownerOf(db, 'api_keys', 'key', key),
    batch === null ? null : ownerOf(db, 'batches', 'batch', batch),
    message === null ? null : accountOfMessage({ db }, message),
  ]);
  const [owner = null, ...others] = new Set(owners.filter((one) => one !== null));
  if (others.length > 0) throw new Problem('invalid_field', 'what is named belongs to different accounts');
  const known =
    stream === null
      ? {}
      : ((await db
          .reader('streams')
          .where({ slug: stream, ...(owner === null ? {} : { account_id: owner }) })
          .first()) as object | undefined);
  if (known === undefined) throw none('stream', stream ?? '');
  return { ...place, domain, account: owner, stream, key, batch, message };
}

async function ownerOf(
  db: OperatorDeps['db'],
  table: 'api_keys' | 'batches',
  what: 'key' | 'batch',
  wanted: string,
): Promise<string> {
  const row = (await db.reader(table).select('account_id').where({ id: wanted }).first()) as
    { account_id: string } | undefined;
  if (row === undefined) throw none(what, wanted);
  return row.account_id;
}

const seeing: Readonly<Record<string, string>> = { source: ': see `posthorn queue sources`' };

const none = (what: 'source' | 'stream' | 'key' | 'batch', name: string): Problem =>
  notFound(
    what === 'key' || what === 'batch' ? `${what}_id` : what,
    `there is no ${what} ${JSON.stringify(name)}${seeing[what] ?? ''}`,
  );

/** Throws a Problem for a text that no delivery can have as its domain, such as `@example.net`. */
export function refuseNoDomain(domain: string): void {
  if (domain === SIMULATOR_DOMAIN) return;
  const parsed = parseMailbox(`x@${domain}`);
  if (parsed.kind === 'bad') throw invalid('domain', `not a domain: ${parsed.why}`);
}
