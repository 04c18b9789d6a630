/**
 * Where messages can be read from in the order of the list: indexes that have just those with a tag, a stream, a recipient, a word of
 * the subject. Which of them is read is chosen in message-list.ts, reading itself is in message-reading.ts.
 */
import type { Knex } from 'knex';
import { idFloor, MOST_AHEAD_MS } from '../../base/id.ts';
import { addressKey } from '../../mail/address.ts';
import type { DeliveryStatus } from '../../storage/tables.ts';
import {
  domainName,
  metadataName,
  recipientName,
  senderName,
  streamName,
  tagName,
  templateName,
  testName,
  wordNames,
} from './message-facts.ts';
import { isNamed, ownIdIn, wordsOf, type MessageFilter } from './message-filter.ts';
import { LONGEST_WORD } from './subject-words.ts';

/** Rows in the order of the list that may be in it. */
export interface Branch {
  /** What is read: a table or an index, and how messages come to it. */
  from: string;
  /** Values of `from`. */
  with?: readonly string[];
  /** The column with the message's id that is read in order. */
  id: string;
  /** What limits it, without the range of ids. */
  where: readonly (readonly [sql: string, ...values: string[]])[];
}

/** Each alone fits as many messages as all together; one message may come from several. */
export type Source = readonly Branch[];

/** All messages of the account. */
export const inOrder: Branch = { from: 'messages as m indexed by messages_by_account', id: 'm.id', where: [] };

/** Words that begin alike, as the values of IN_RANGE. */
export type WordRange = readonly [accountId: string, from: string, to: string];
export const IN_RANGE = 'account_id = ? AND word >= ? AND word < ?';

/** Only the index, not the messages behind it. */
export const alone = (branch: Branch): Branch => ({
  ...branch,
  from: branch.from.replace(' cross join messages as m', ''),
  where: branch.where.filter(([sql]) => sql !== JOINED),
});

/** What `messages_apart` holds: it serves only who repeats its condition word for word. */
const apart: ReadonlySet<DeliveryStatus> = new Set([
  'scheduled',
  'deferred',
  'bounced',
  'complained',
  'suppressed',
  'failed',
  'canceled',
]);
const APART = `m.status in (${[...apart].map((status) => `'${status}'`).join(', ')})`;

/** `with` is the message in a table beside: SQLite keeps the order of a cross join. */
const JOINED = 'm.id = w.message_id';

export const beside = (table: string, where: Branch['where']): Branch => ({
  from: `${table} as w cross join messages as m`,
  id: 'w.message_id',
  where: [...where, [JOINED]],
});
const indexed = (index: string, where: Branch['where']): Branch => ({
  from: `messages as m indexed by ${index}`,
  id: 'm.id',
  where,
});

/** Something of a message that never changes: its names in the sets of blocks, and where it has one, its source. */
export interface Fact {
  names: readonly string[];
  source: Source | null;
}

/** All that is asked for of what never changes; not of messages that are named. */
export function factsOf(filter: MessageFilter): Fact[] {
  const { subject, test } = filter;
  const words = subject === undefined ? [] : wordsOf(subject).map((word) => wordNames(beginningOf(word)));
  return [
    ...indexedFacts(filter),
    ...(test === undefined ? [] : [{ names: [testName(test)], source: null }]),
    ...words.map((names) => ({ names, source: null })),
  ];
}

function indexedFacts(filter: MessageFilter): (Fact & { source: Source })[] {
  const { accountId, to, from, tags = [], metadata = {}, templateId, stream, domain } = filter;
  const account = ['m.account_id = ?', accountId] as const;
  const facts: (Fact & { source: Source })[] = [];
  const add = (name: string, branch: Branch): void => void facts.push({ names: [name], source: [branch] });
  if (to !== undefined) add(recipientName(addressKey(to)), recipientBranch(addressKey(to)));
  for (const tag of tags)
    add(
      tagName(tag),
      beside('message_tags', [
        ['w.account_id = ?', accountId],
        ['w.tag = ?', tag],
      ]),
    );
  for (const [name, value] of Object.entries(metadata))
    add(
      metadataName(name, value),
      beside('message_metadata', [
        ['w.account_id = ?', accountId],
        ['w.name = ?', name],
        ['w.value = ?', value],
      ]),
    );
  if (templateId !== undefined)
    add(templateName(templateId), indexed('messages_by_template', [account, ['m.template_id = ?', templateId]]));
  if (stream !== undefined) add(streamName(stream), indexed('messages_by_stream', [account, ['m.stream = ?', stream]]));
  if (domain !== undefined)
    add(domainName(domain), indexed('messages_by_domain', [account, ['m.from_domain = ?', domain]]));
  if (from !== undefined)
    add(
      senderName(addressKey(from)),
      indexed('messages_by_sender', [account, ['lower(m.from_address) = ?', addressKey(from)]]),
    );
  return facts;
}

/** The sources that follow from the filter alone. */
export function plainSources(filter: MessageFilter): Source[] {
  const { accountId, status } = filter;
  const account = ['m.account_id = ?', accountId] as const;
  if (filter.batchId !== undefined) return [[indexed('messages_by_batch', [['m.batch_id = ?', filter.batchId]])]];
  if (filter.rfcMessageId !== undefined) return [[ofRfcId(filter.rfcMessageId)]];
  const sources = indexedFacts(filter).map(({ source }) => source);
  if (filter.test === true) sources.push([indexed('messages_test', [account, ['m.test = 1']])]);
  if (filter.opened === true) sources.push([indexed('messages_opened', [account, ['m.opens > 0']])]);
  if (filter.clicked === true) sources.push([indexed('messages_clicked', [account, ['m.clicks > 0']])]);
  if (status?.every((one) => apart.has(one)) === true)
    sources.push(status.map((one) => indexed('messages_apart', [account, ['m.status = ?', one], [APART]])));
  return sources;
}

/** Without figures of its tables the database would rather read all of the account. */
const ofRfcId = (rfcMessageId: string): Branch =>
  ownIdIn(rfcMessageId) === undefined
    ? indexed('messages_by_rfc_id', [])
    : { from: 'messages as m', id: 'm.id', where: [] };

/** An address may be in one message twice: the first of its deliveries stands for the message. */
const recipientBranch = (key: string): Branch =>
  beside('deliveries', [
    ['w.address_key = ?', key],
    [
      'NOT EXISTS (SELECT 1 FROM deliveries o WHERE o.address_key = w.address_key AND o.message_id = w.message_id AND o.id < w.id)',
    ],
  ]);

/** Words with one beginning that are read one by one; where there are more, no index has them in the order of the list. */
const MOST_WORDS = 20;

/** A word's source, or words that very many messages have. */
type WordChosen = { kind: 'source'; source: Source } | { kind: 'words'; range: WordRange };

/** A source for each word looked for. */
export async function wordSources(read: Knex, filter: MessageFilter): Promise<WordChosen[]> {
  const { accountId, subject } = filter;
  if (subject === undefined || isNamed(filter)) return [];
  return Promise.all(wordsOf(subject).map((word) => wordSource(read, accountId, beginningOf(word))));
}

const beginningOf = (word: string): string => word.toLowerCase().slice(0, LONGEST_WORD);

async function wordSource(read: Knex, accountId: string, beginning: string): Promise<WordChosen> {
  const words = await wordsWith(read, accountId, beginning);
  if (words.length <= MOST_WORDS)
    return {
      kind: 'source',
      source: words.map((word) =>
        beside('message_words', [
          ['w.account_id = ?', accountId],
          ['w.word = ?', word],
        ]),
      ),
    };
  const range: WordRange = [accountId, beginning, endOf(beginning)];
  const some = read('message_words')
    .select(read.raw('1'))
    .whereRaw(IN_RANGE, [...range])
    .limit(MOST_COUNTED);
  const row = (await read.count({ n: '*' }).from(some.as('s')).first()) as { n: number } | undefined;
  if ((row?.n ?? 0) >= MOST_COUNTED) return { kind: 'words', range };
  const gathered = beside(`(SELECT DISTINCT message_id FROM message_words WHERE ${IN_RANGE})`, []);
  return { kind: 'source', source: [{ ...gathered, with: range }] };
}

/** The words that begin so, up to one more than are of use: from each to the next in the index. */
async function wordsWith(read: Knex, accountId: string, beginning: string): Promise<string[]> {
  const rows = (await read.raw(
    `WITH RECURSIVE found(word, n) AS (
       SELECT (SELECT MIN(word) FROM message_words WHERE account_id = ? AND word >= ?), 1
       UNION ALL
       SELECT (SELECT MIN(w.word) FROM message_words w WHERE w.account_id = ? AND w.word > found.word), n + 1
       FROM found WHERE found.word < ? AND n <= ?)
     SELECT word FROM found WHERE word < ?`,
    [accountId, beginning, accountId, endOf(beginning), MOST_WORDS, endOf(beginning)],
  )) as unknown as { word: string }[];
  return rows.map(({ word }) => word);
}

/** Behind every word that begins so. */
const endOf = (beginning: string): string => `${beginning}\u{10ffff}`;

/** What is counted of a source at most: whatever fits more is read in order and fills a page soon. */
export const MOST_COUNTED = 20_000;

export async function sizeOf(read: Knex, filter: MessageFilter, source: Source, most: number): Promise<number> {
  const counts = await Promise.all(
    source.map(async (branch) => {
      const some = inBranch(read.select(read.raw('1')), read, filter, alone(branch)).limit(most);
      const row = (await read.count({ n: '*' }).from(some.as('s')).first()) as { n: number } | undefined;
      return row?.n ?? 0;
    }),
  );
  return counts.reduce((sum, n) => sum + n, 0);
}

export function inBranch(
  query: Knex.QueryBuilder,
  read: Knex,
  filter: MessageFilter,
  branch: Branch,
): Knex.QueryBuilder {
  const { createdAfter, createdBefore } = filter;
  query.from(read.raw(branch.from, [...(branch.with ?? [])]) as unknown as string);
  for (const [sql, ...values] of branch.where) query.whereRaw(sql, values);
  if (createdAfter !== undefined) query.where(branch.id, '>=', idFloor('msg', createdAfter));
  if (createdBefore !== undefined) query.where(branch.id, '<', idFloor('msg', createdBefore + MOST_AHEAD_MS));
  return query;
}
