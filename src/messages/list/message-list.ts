/**
 * Lists messages in the order of acceptance. Among a million messages a filter may fit all or one, and the database cannot know which.
 * So the indexes of all filters are counted up to a bound, the smallest is read from the page's edge on, and the other filters are
 * tested message by message. An index that reaches the bound is read in slices (storage/page.ts), so a page may be short.
 */
import type { Knex } from 'knex';
import { idFloor, MOST_AHEAD_MS } from '../../base/id.ts';
import { readBounded, rowPageOf, SLICES, type BoundedRowPage, type SlicedList } from '../../storage/page.ts';
import type { DeliveryStatus, MessageRow } from '../../storage/tables.ts';
import { dialectOf } from '../../storage/sql.ts';
import {
  allMessages,
  criteriaOf,
  LONGEST_REQUEST_MS,
  type Criterion,
  type MessageFilter,
  type MessageIndex,
  type Sql,
  type SqlOfEngine,
} from './message-filter.ts';

/** The part of the list to return: newest or oldest first, from a message on (exclusive), forwards or backwards. */
export interface PageRequest {
  newestFirst: boolean;
  limit: number;
  after?: string;
  before?: string;
}

/** Reads one page in the order asked for. Ids ascend with time, so they are both order and cursor. `slices` is smaller in tests. */
export async function listMessages(
  read: Knex,
  filter: MessageFilter,
  page: PageRequest,
  slices: readonly number[] = SLICES,
): Promise<BoundedRowPage<MessageRow>> {
  const backwards = page.before !== undefined;
  const most = slices.reduce((sum, count) => sum + count, 0);
  const { index, criteria } = await bestIndex(read, filter, most);
  const list = messagesOf(read, filter, { index, criteria, descending: page.newestFirst !== backwards });
  return rowPageOf(await readBounded(list, page.after ?? page.before ?? null, page.limit, slices), { backwards });
}

export interface StatusCount {
  status: DeliveryStatus;
  count: number;
}

/** Messages that a count looks at. */
const MOST_COUNTED = 10_000;

/**
 * Counts the messages that fit, by status. `isMore` is true if the smallest index is longer than what was looked at: then there are
 * at least as many. It costs what the pages of a list cost.
 */
export async function countMessages(
  read: Knex,
  filter: MessageFilter,
  most = MOST_COUNTED,
): Promise<{ byStatus: StatusCount[]; isMore: boolean }> {
  const { index, criteria } = await bestIndex(read, filter, most);
  const list = messagesOf(read, filter, { index, criteria, descending: true });
  const end = await list.endOfSlice(null, most);
  const [byStatus, next] = await Promise.all([list.countFitting(end), end === null ? null : list.endOfSlice(end, 1)]);
  return { byStatus, isMore: next !== null };
}

interface Chosen {
  index: MessageIndex;
  criteria: readonly Criterion[];
}

async function bestIndex(read: Knex, filter: MessageFilter, most: number): Promise<Chosen> {
  const all = criteriaOf(filter);
  const counted = await Promise.all(
    all.map(async ({ index }) => (index === undefined ? most : countIn(read, filter, index, most))),
  );
  const fewest = Math.min(most, ...counted);
  const best = all.find(({ index }, at) => counted[at] === fewest && (fewest < most || index?.isOrdered === true));
  return {
    index: best?.index ?? allMessages(filter.accountId),
    criteria: all.filter((one) => one !== best),
  };
}

async function countIn(read: Knex, filter: MessageFilter, index: MessageIndex, most: number): Promise<number> {
  if (index.parts !== undefined) {
    const times = joined(between('message_id', timesOf(filter)));
    const counts = await Promise.all(
      index.parts.map(([part, ...given]) =>
        countRows(read, [(sql) => `${part(sql)} AND ${times.text}`, ...given, ...times.values], most),
      ),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }
  const { text, values } = joined([...index.where, ...between(index.id, timesOf(filter))]);
  const [table, ...given] = index.table;
  return countRows(read, [(sql) => `SELECT 1 FROM ${table(sql)} WHERE ${text}`, ...given, ...values], most);
}

async function countRows(read: Knex, [text, ...values]: SqlOfEngine, most: number): Promise<number> {
  const [row] = await read.raw<{ n: number }[]>(`SELECT COUNT(*) AS n FROM (${text(dialectOf(read))} LIMIT ?) AS s`, [
    ...values,
    most,
  ]);
  return row?.n ?? 0;
}

type Bound = readonly [operator: '>' | '>=' | '<' | '<=', id: string];

/** Returns the range of ids of these times; exact times are tested message by message. A mail submitted by SMTP has its id before it is accepted. */
const timesOf = ({ created_after, created_before }: MessageFilter): Bound[] => [
  ...(created_after === undefined ? [] : [['>=', idFloor('msg', created_after - LONGEST_REQUEST_MS)] as const]),
  ...(created_before === undefined ? [] : [['<', idFloor('msg', created_before + MOST_AHEAD_MS)] as const]),
];

/** The narrowest of the bounds on each side: of two on one side SQLite would search the index by the first, and test the other. */
function between(id: string, bounds: readonly Bound[]): Sql[] {
  const ascending = bounds.toSorted(([, one], [, other]) => (one < other ? -1 : 1));
  const lower = ascending.findLast(([operator]) => operator.startsWith('>'));
  const upper = ascending.find(([operator]) => operator.startsWith('<'));
  return [lower, upper].flatMap((bound) => (bound === undefined ? [] : [[`${id} ${bound[0]} ?`, bound[1]] as const]));
}

const joined = (parts: readonly Sql[]): { text: string; values: (string | number)[] } => ({
  text: parts.length === 0 ? 'TRUE' : parts.map(([text]) => text).join(' AND '),
  values: parts.flatMap(([, ...values]) => values),
});

function messagesOf(
  read: Knex,
  filter: MessageFilter,
  { index, criteria, descending }: Pick<Chosen, 'index' | 'criteria'> & { descending: boolean },
): SlicedList<string, MessageRow> & { countFitting(to: string | null): Promise<StatusCount[]> } {
  const {
    table: [tableOf, ...given],
    id,
    isOrdered,
  } = index;
  // By the column alone PostgreSQL would read all messages in their order; the index has few, which have to be sorted.
  const sorted = isOrdered ? id : `${id} || ''`;
  const dialect = dialectOf(read);
  const table = tableOf(dialect);
  const [order, behind, upTo] = descending ? (['DESC', '<', '>='] as const) : (['ASC', '>', '<='] as const);
  const range = (from: string | null, to: string | null): Sql[] => [
    ...index.where,
    ...between(id, [
      ...timesOf(filter),
      ...(from === null ? [] : [[behind, from] as const]),
      ...(to === null ? [] : [[upTo, to] as const]),
    ]),
  ];
  const fitting = (from: string | null, to: string | null): { text: string; values: (string | number)[] } => {
    const tested = criteria.map(({ condition }) => condition(id));
    const { text, values } = joined([...range(from, to), ['m.account_id = ?', filter.accountId], ...tested]);
    const messages = id === 'm.id' ? '' : ` ${dialect.thenJoin} messages AS m ON m.id = ${id}`;
    return { text: `${table}${messages} WHERE ${text}`, values: [...given, ...values] };
  };
  return {
    async endOfSlice(from, count) {
      const { text, values } = joined(range(from, null));
      const [row] = await read.raw<{ id: string }[]>(
        `SELECT ${id} AS id FROM ${table} WHERE ${text} ORDER BY ${sorted} ${order} LIMIT 1 OFFSET ?`,
        [...given, ...values, count - 1],
      );
      return row?.id ?? null;
    },
    async readFitting(from, to, limit) {
      const { text, values } = fitting(from, to);
      return read.raw<MessageRow[]>(`SELECT m.* FROM ${text} ORDER BY ${sorted} ${order} LIMIT ?`, [...values, limit]);
    },
    async countFitting(to) {
      const { text, values } = fitting(null, to);
      return await read.raw<StatusCount[]>(
        `SELECT m.status, COUNT(*) AS count FROM ${text} GROUP BY m.status ORDER BY m.status`,
        values,
      );
    },
  };
}
