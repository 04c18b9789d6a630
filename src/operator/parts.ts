/** The parts of the queue that operations name: any of recipient domain, account, stream, key, bulk send and message together, or a lane, or a source, or all. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { parseMailbox, soughtDomain } from '../mail/address.ts';
import { SIMULATOR_DOMAIN } from '../messages/delivery/delivery.ts';
import { ANY_SOURCE, EVERYWHERE, ofAnyMail, placeOfLane, type About, type OfMail } from '../messages/limits/limit.ts';
import type { Act } from '../operations/act.ts';
import type { OperatorDeps } from './server-route.ts';
import { accountOfMessage } from './messages.ts';
import { accountNamed } from './team/accounts.ts';

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

/** A part as limits are about it. */
export type Part = About & OfMail;

export const anyPart: Part = { site: EVERYWHERE, source: ANY_SOURCE, domain: null, account: null, ...ofAnyMail };

/** Returns the part of a lane. */
export function partOfLane(lane: string): Part {
  const { site, source } = placeOfLane(lane);
  return { ...anyPart, site, source: source ?? ANY_SOURCE };
}

/** Returns whether the part is a lane's. */
export const isLane = ({ site }: Pick<Part, 'site'>): boolean => site !== EVERYWHERE;

/** Finds the part for an act, which is noted with its account. Throws `invalid_field` if it is none, `not_found` if it does not exist. */
export async function partFor(
  deps: Pick<OperatorDeps, 'db' | 'config'>,
  named: NamedPart,
  act: Pick<Act, 'concerns'>,
): Promise<Part> {
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
  pointedAt(named);
  const { domain = null, account, stream = null, key_id: key = null, batch_id: batch = null } = named;
  const { message_id: message = null, lane, source } = named;
  if (lane !== undefined) return partOfLane(lane);
  if (source !== undefined) {
    if (!config.delivery.sources.some(({ name }) => name === source)) throw none('source', source);
    return { ...anyPart, source };
  }
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
  return { ...anyPart, domain, account: owner, stream, key, batch, message };
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
  new Problem('not_found', `there is no ${what} ${JSON.stringify(name)}${seeing[what] ?? ''}`, {
    field: what === 'key' || what === 'batch' ? `${what}_id` : what,
  });

/** Throws a Problem for a text that no delivery can have as its domain, such as `@example.net`. */
export function refuseNoDomain(domain: string): void {
  if (domain === SIMULATOR_DOMAIN) return;
  const parsed = parseMailbox(`x@${domain}`);
  if (parsed.kind === 'bad') throw new Problem('invalid_field', `not a domain: ${parsed.why}`, { field: 'domain' });
}
