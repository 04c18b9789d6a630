/** The suppression list: addresses that get no mail from an account, or on one of its streams. */
import { idFloor, MOST_AHEAD_MS, newId } from '../base/id.ts';
import { createLookUpCache } from '../base/look-up-cache.ts';
import { Problem } from '../base/problem.ts';
import { addressKey, parseMailbox, soughtAddress } from '../mail/address.ts';
import { readTestedPage, SLICES, type BoundedRowPage, type PagePart } from '../storage/page.ts';
import type { Connection } from '../storage/connection.ts';
import type { StoreDeps } from '../storage/database.ts';
import { insertRows, noRows, type RowsFor } from '../storage/rows.ts';
import { rowsParameter } from '../storage/rows-parameter.ts';
import { suppressions, type SuppressionReason, type SuppressionRow } from '../storage/tables.ts';
import { statement } from '../storage/sql.ts';
import { recordOf } from '../storage/record.ts';

export interface NewSuppression {
  accountId: string;
  email: string;
  /** A stream's slug, or null for the whole account. */
  stream: string | null;
  reason: SuppressionReason;
  sourceMessageId?: string | null;
  note?: string | null;
  createdBy: string;
  /** Milliseconds since the epoch, or null for an entry without an end. */
  expiresAt?: number | null;
}

export const LONGEST_NOTE = 500;
/** Entries of one account up to which a key adds more: that many take a few gigabytes. */
const MOST_ENTRIES = 10_000_000;
/** The time for which the answer to whether a list is full is good, in ms: counting ten million entries takes a second of a reader's thread. */
const COUNT_FRESH_MS = 60_000;
const MOST_ACCOUNTS_COUNTED = 10_000;

/** Returns nothing if the list of the account has room, as it had within the last minute. Throws `invalid_state` if it is full. */
export type RefuseFullList = (accountId: string) => Promise<void>;

/** Makes the check. What recipients, mail hosts and imports of the operator put on the list is never refused. `most` is given by tests. */
export function createFullListCheck({ db, clock }: StoreDeps, most = MOST_ENTRIES): RefuseFullList {
  const full = createLookUpCache<boolean>(
    { clock },
    { max: MOST_ACCOUNTS_COUNTED, freshMs: COUNT_FRESH_MS },
    async (accountId) => {
      const entries = db.reader<SuppressionRow>('suppressions').where({ account_id: accountId }).orderBy('id');
      // It is enough to look for the last of these entries.
      return (
        (
          await entries
            .offset(most - 1)
            .limit(1)
            .select('id')
        ).length > 0
      );
    },
  );
  return async (accountId) => {
    if (await full.get(accountId))
      throw new Problem(
        'invalid_state',
        `The suppression list of an account has at most ${String(most)} entries. Remove some, and try again a minute later.`,
      );
  };
}

interface SuppressionHit {
  id: string;
  reason: SuppressionReason;
}

/** Recipients of mail on a stream. */
export interface SuppressionQuestion {
  accountId: string;
  stream: string;
  addressKeys: readonly string[];
}

/** The recipients that must not get the mail, and why, by their address key. */
export type Suppressed = ReadonlyMap<string, SuppressionHit>;

const QUESTIONS_AT_ONCE = 500;

interface QuestionColumns {
  account: string;
  address: string;
  asked: string;
}

const findEntries = statement(
  ({ unfold }) => `SELECT q.account, q.address, q.asked, s.id, s.reason
     FROM ${unfold('q', { account: 'text', address: 'text', asked: 'text' })}
     JOIN suppressions s ON s.account_id = q.account AND s.address_key = q.address AND s.scope IN ('account', q.asked)
     WHERE s.expires_at IS NULL OR s.expires_at > ? ORDER BY s.scope DESC`,
);

/** Answers the questions of many requests with one statement. An entry for the account wins over one for a stream. */
export async function findSuppressed(
  db: Pick<Connection, 'all'>,
  now: number,
  questions: readonly SuppressionQuestion[],
): Promise<Suppressed[]> {
  const texts = questions.map(({ accountId, stream, addressKeys }) =>
    addressKeys.map((key) => [key, JSON.stringify([accountId, key, scopeOf(stream)])] as const),
  );
  const different = [...new Set(texts.flat().map(([, text]) => text))];
  const found = new Map<string, SuppressionHit>();
  for (let at = 0; at < different.length; at += QUESTIONS_AT_ONCE) {
    const values = [`[${different.slice(at, at + QUESTIONS_AT_ONCE).join(',')}]`, now];
    // `account` sorts before `stream:…`, so it comes last here and wins.
    for (const { account, address, asked, id, reason } of await db.all<SuppressionHit & QuestionColumns>(
      findEntries,
      values,
    ))
      found.set(JSON.stringify([account, address, asked]), { id, reason });
  }
  const hitOf = ([key, text]: readonly [string, string]): [string, SuppressionHit][] => {
    const hit = found.get(text);
    return hit === undefined ? [] : [[key, hit]];
  };
  return texts.map((one) => new Map(one.flatMap(hitOf)));
}

const scopeKeys = rowsParameter(suppressions.columns, ['account_id', 'address_key', 'scope']);
const findSame = statement(
  (sql) => `SELECT s.* FROM ${scopeKeys.table(sql, 'w')}
     JOIN suppressions s ON s.account_id = w.account_id AND s.address_key = w.address_key AND s.scope = w.scope`,
);

/** Returns why a caller may not put this text on the list, or null. `*@example.net` is an address, but means a domain, and would suppress nothing. */
export function addressFault(email: string): string | null {
  const parsed = parseMailbox(email, { smtputf8: true });
  if (parsed.kind === 'bad') return parsed.why;
  return parsed.mailbox.local === '*' ? '`*` is no mailbox, and an entry is for one address, not for a domain' : null;
}

/**
 * The result for one entry. `created` is false if the address was already on the list; then the old row stays. But what recipients
 * have asked for themselves lasts: it takes the place of an entry that will end.
 */
export interface Added {
  row: SuppressionRow;
  created: boolean;
}

/** Adds entries in one transaction. Of several for the same address and scope the first counts. Throws `invalid_address` and `field_too_long`. */
export async function addSuppressions(
  deps: StoreDeps,
  entries: readonly NewSuppression[],
  alsoInTransaction: RowsFor<readonly Added[]> = noRows,
): Promise<readonly Added[]> {
  const now = deps.clock.now();
  const wanted = entries.map((entry) => suppressionRow(entry, now));
  return deps.db.commit.transact(async (tx) => {
    const found = await tx.all<SuppressionRow>(findSame, [scopeKeys.json(wanted)]);
    const inForce = new Map<string, SuppressionRow>();
    for (const row of found) if (row.expires_at === null || row.expires_at > now) inForce.set(scopeKey(row), row);
    const fresh: SuppressionRow[] = [];
    const added = wanted.map((row): Added => {
      const old = inForce.get(scopeKey(row));
      const isOutlasted = old?.expires_at != null && row.created_by === 'recipient';
      if (old !== undefined && !isOutlasted) return { row: old, created: false };
      inForce.set(scopeKey(row), row);
      fresh.push(row);
      return { row, created: true };
    });
    // The entry that was there is replaced by the table's conflict rule.
    await insertRows(tx, [{ suppressions: fresh }, alsoInTransaction(added)]);
    return added;
  });
}

const scopeKey = ({ account_id, address_key, scope }: SuppressionRow): string =>
  JSON.stringify([account_id, address_key, scope]);

/** Adds one entry, or returns the one that exists. */
export async function addSuppression(deps: StoreDeps, entry: NewSuppression): Promise<Added> {
  const [added] = await addSuppressions(deps, [entry]);
  if (added === undefined) throw new Error('one entry was added and none came back');
  return added;
}

/**
 * Removes the entries of an address, in one scope if `stream` is given (null is the account), else in all; returns them. Throws
 * `invalid_state` for a complaint without `force`: the recipient should ask for mail again first.
 */
export async function removeSuppressions(
  { db }: Pick<StoreDeps, 'db'>,
  entry: { accountId: string; email: string; stream?: string | null; force?: boolean },
  alsoInTransaction: RowsFor<readonly SuppressionRow[]> = noRows,
): Promise<SuppressionRow[]> {
  const key = soughtAddress(entry.email);
  return db.commit.transact(async (tx) => {
    const rows = (await ofAddress(tx, entry.accountId, key)).filter(
      ({ scope }) => entry.stream === undefined || scope === scopeOf(entry.stream),
    );
    if (entry.force !== true && rows.some(({ reason }) => reason === 'complaint')) {
      throw new Problem(
        'invalid_state',
        'The recipient complained about mail of this account. Set `force` to remove the entry all the same.',
      );
    }
    for (const { id } of rows) await tx.run('DELETE FROM suppressions WHERE id = ?', [id]);
    await insertRows(tx, [alsoInTransaction(rows)]);
    return rows;
  });
}

/**
 * Removes the entry of an unsubscription from a stream; an entry with another reason stays. The delivery of the link must have been tried, and must
 * not be simulated: a key that may send can read the link of mail that never leaves. If retention has deleted the delivery, only an entry
 * without a source message is removed.
 */
export async function removeUnsubscription(
  { db }: Pick<StoreDeps, 'db'>,
  { accountId, email, stream, deliveryId }: { accountId: string; email: string; stream: string; deliveryId: string },
): Promise<void> {
  await db.commit.transact((tx) =>
    tx.run(
      `DELETE FROM suppressions WHERE account_id = ? AND address_key = ? AND scope = ? AND reason = 'unsubscribe'
         AND (EXISTS (SELECT 1 FROM deliveries WHERE id = ? AND test = 0 AND attempt_count > 0)
           OR source_message_id IS NULL AND NOT EXISTS (SELECT 1 FROM deliveries WHERE id = ?))`,
      [accountId, soughtAddress(email), scopeOf(stream), deliveryId, deliveryId],
    ),
  );
}

/** Returns the entries of an address in force, that of the account first. */
export async function suppressionsOf(
  { db, clock }: StoreDeps,
  { accountId, email }: { accountId: string; email: string },
): Promise<SuppressionRow[]> {
  const rows = await ofAddress(db.prepared, accountId, soughtAddress(email));
  return rows.filter(({ expires_at }) => expires_at === null || expires_at > clock.now());
}

export interface SuppressionFilter {
  accountId: string;
  /** Only the entries of this address, whatever their scopes. */
  email?: string | undefined;
  reason?: SuppressionReason | undefined;
  /** A stream's slug, or null for entries of the whole account. */
  stream?: string | null | undefined;
  createdAfter?: number | undefined;
  createdBefore?: number | undefined;
}

/**
 * Returns one page, newest first, without ended entries; from an entry on (its id, exclusive), forwards or backwards. A bounded number of
 * entries is tested, and the page may be short: imported lists have millions, and a filter may fit one of them.
 */
export async function pageOfSuppressions(
  { db, clock }: StoreDeps,
  filter: SuppressionFilter,
  page: PagePart,
  slices: readonly number[] = SLICES,
): Promise<BoundedRowPage<SuppressionRow>> {
  const { accountId, email, reason, stream, createdAfter, createdBefore } = filter;
  const now = clock.now();
  return readTestedPage<SuppressionRow>(
    {
      inOrder() {
        const query = db.reader<SuppressionRow>('suppressions').where({ account_id: accountId });
        if (email !== undefined) query.andWhere({ address_key: soughtAddress(email) });
        // Ids sort by time, so a span of time is a range of the index.
        if (createdAfter !== undefined) query.andWhere('id', '>=', idFloor('sup', createdAfter));
        if (createdBefore !== undefined) query.andWhere('id', '<', idFloor('sup', createdBefore + MOST_AHEAD_MS));
        return query;
      },
      tested(query) {
        query.whereRaw('(expires_at IS NULL OR expires_at > ?)', [now]);
        if (reason !== undefined) query.andWhere({ reason });
        if (stream !== undefined) query.andWhere({ scope: scopeOf(stream) });
        if (createdAfter !== undefined) query.andWhere('created_at', '>=', createdAfter);
        if (createdBefore !== undefined) query.andWhere('created_at', '<', createdBefore);
        return query;
      },
    },
    page,
    slices,
  );
}

function ofAddress(tx: Connection, accountId: string, key: string): Promise<SuppressionRow[]> {
  return tx.all<SuppressionRow>('SELECT * FROM suppressions WHERE account_id = ? AND address_key = ?', [
    accountId,
    key,
  ]);
}

function scopeOf(stream: string | null): string {
  return stream === null ? 'account' : `stream:${stream}`;
}

function suppressionRow(entry: NewSuppression, now: number): SuppressionRow {
  const parsed = parseMailbox(entry.email, { smtputf8: true });
  if (parsed.kind === 'bad')
    throw new Problem('invalid_address', `This is not a mail address: ${parsed.why}.`, { field: 'email' });
  const note = entry.note ?? null;
  if (note !== null && note.length > LONGEST_NOTE) {
    throw new Problem('field_too_long', `The note may have at most ${String(LONGEST_NOTE)} characters.`, {
      field: 'note',
    });
  }
  const { address } = parsed.mailbox;
  return {
    id: newId('sup', now),
    account_id: entry.accountId,
    email: address,
    address_key: addressKey(address),
    scope: scopeOf(entry.stream),
    reason: entry.reason,
    source_message_id: entry.sourceMessageId ?? null,
    note,
    created_at: now,
    created_by: entry.createdBy,
    expires_at: entry.expiresAt ?? null,
  };
}

export const suppressionRecord = recordOf('suppression', suppressions);
export type SuppressionRecord = ReturnType<typeof suppressionRecord>;

const MOST_NAMED = 5;
const LONGEST_NAMED = 320;

/** Returns what the audit says of an act that adds many: their number, the first addresses, and how many of them are new. */
export function manyAdded(emails: readonly string[], results: readonly { created: boolean }[]) {
  const created = results.filter((one) => one.created).length;
  const [existing, rejected] = [results.length - created, emails.length - results.length];
  const [only, ...more] = emails;
  return {
    object: more.length === 0 ? (only ?? null) : `${String(emails.length)} addresses`,
    after: {
      emails: emails.slice(0, MOST_NAMED).map((one) => one.slice(0, LONGEST_NAMED)),
      ...{ created, existing, rejected },
    },
  };
}
