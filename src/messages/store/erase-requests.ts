/** Forgets what the request log keeps of requests that name a person. Their lines stay: who asked, when, and how it ended. */
import { idFloor, idTime, MOST_AHEAD_MS } from '../../base/id.ts';
import { mapInSlices } from '../../base/slices.ts';
import type { Connection } from '../../storage/connection.ts';
import type { Committer } from '../../storage/commit.ts';
import { statement } from '../../storage/sql.ts';
import type { RequestDetailsRow } from '../../storage/tables.ts';
import type { MailReach } from './message-store.ts';

export interface EraseRequestsDeps {
  db: { commit: Committer; maintenance: Connection };
}

/** Rows of one reading, at most 6 KB each. */
const AT_A_TIME = 500;
const columns = ['query', 'error_message', 'body'] as const;

type Slice = Pick<RequestDetailsRow, 'request_id' | 'query' | 'error_message' | 'body'>;

/**
 * Removes the details of requests that name one of these addresses, in whatever case and encoding. The table may be large, so it is read in
 * slices, by the reader that mail does not wait for; texts of other accounts stay where they are.
 */
export async function eraseRequestDetails(
  { db }: EraseRequestsDeps,
  reach: MailReach,
  addresses: readonly string[],
): Promise<void> {
  const isNamed = namesOneOf(addresses);
  const own = columns.map((column) => `CASE WHEN account_id = ? THEN ${column} END AS ${column}`);
  let after = '';
  for (;;) {
    const slice = await db.maintenance.all<Slice>(
      `SELECT request_id, ${own.join(', ')} FROM request_details WHERE request_id > ? ORDER BY request_id LIMIT ?`,
      [...columns.map(() => reach.accountId), after, AT_A_TIME],
    );
    const found = await mapInSlices(slice, (row) => columns.some((column) => isNamed(row[column])));
    const named = slice.filter((_, at) => found[at] === true).map((row) => row.request_id);
    const within = reach.onlyTest ? await ofTestKeys(db.maintenance, reach.accountId, named) : named;
    if (within.length > 0)
      await db.commit.transact((tx) =>
        tx.run(
          statement(({ among }) => `DELETE FROM request_details WHERE request_id ${among('text')}`),
          [JSON.stringify(within)],
        ),
      );
    if (slice.length < AT_A_TIME) return;
    after = slice.at(-1)?.request_id ?? '';
  }
}

/** Returns which of these requests, in their order, came with a test key. */
async function ofTestKeys(db: Connection, accountId: string, requests: readonly string[]): Promise<string[]> {
  const [first, last] = [idTime(requests[0] ?? ''), idTime(requests.at(-1) ?? '')];
  if (first === null || last === null) return [];
  // The entry of a key bears the time of its request, so an index has it.
  const rows = await db.all<{ request_id: string }>(
    statement(
      ({ among }) => `SELECT request_id FROM audit WHERE account_id = ? AND id >= ? AND id < ?
       AND key_id IN (SELECT id FROM api_keys WHERE account_id = ? AND mode = 'test') AND request_id ${among('text')}`,
    ),
    [
      accountId,
      idFloor('aud', first - MOST_AHEAD_MS),
      idFloor('aud', last + 2 * MOST_AHEAD_MS),
      accountId,
      JSON.stringify(requests),
    ],
  );
  return rows.map(({ request_id: id }) => id);
}

/**
 * Returns whether a text has one of the addresses, and not only as a part of a longer one: neither `joan@acme.test` nor `ann@acme.test.example`
 * has `ann@acme.test`.
 */
function namesOneOf(addresses: readonly string[]): (text: string | null) => boolean {
  const sought = [...new Set(addresses.map((one) => one.toLowerCase()))];
  const escaped = sought.map((one) => one.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&'));
  const whole = new RegExp(
    `(?<![\\p{L}\\p{N}._+-])(?:${escaped.join('|')})(?![\\p{L}\\p{N}_-]|\\.[\\p{L}\\p{N}])`,
    'u',
  );
  // The expression costs ten times as much as the plain search, which nearly always finds nothing.
  const has = (text: string): boolean => sought.some((one) => text.includes(one)) && whole.test(text);
  return (text) => text !== null && spellingsOf(text).some((one) => has(one.toLowerCase()));
}

/** Returns a text as it was written, and what is meant if it is JSON or percent-encoded. */
function spellingsOf(text: string): string[] {
  const plain = text.replace(/\\(?:u([0-9a-f]{4})|(.))/gi, (_, code: string | undefined, sign: string | undefined) =>
    code === undefined ? ('nrtbf'.includes(sign ?? '') ? ' ' : (sign ?? '')) : String.fromCharCode(parseInt(code, 16)),
  );
  return [...new Set([text, plain, decoded(text), decoded(plain)])];
}

/** Decodes each run of encoded bytes that is UTF-8; others stay. */
function decoded(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => {
    try {
      return decodeURIComponent(run);
    } catch {
      return run;
    }
  });
}
