/**
 * Lists of messages, in the order of acceptance. Among a million messages a filter may fit all or one, and the database cannot
 * know which; so what is read first is chosen here: of all filters that have an index in the order of the list, the one
 * that fits least. Its index is read from the page's edge on, the other filters are looked at message by message, and reading
 * ends when the page is full.
 */
import type { Knex } from 'knex';
import { idFloor, MOST_AHEAD_MS } from '../base/id.ts';
import { addressKey } from '../mail/address.ts';
import type { DeliveryStatus, MessageRow } from '../storage/tables.ts';
import { candidates, newestBlock, type Wanted } from './block-search.ts';
import { domainName, metadataName, recipientName, senderName, streamName, tagName, templateName, testName, wordNames } from './message-facts.ts'; // prettier-ignore
import { LONGEST_WORD } from './subject-words.ts';

export interface MessageFilter {
  accountId: string;
  status?: readonly DeliveryStatus[];
  /** An address among the recipients of any kind. */
  to?: string;
  from?: string;
  /** Words the subject must have, each as a beginning of one of its words. */
  subject?: string;
  /** All of these. */
  tags?: readonly string[];
  metadata?: Readonly<Record<string, string>>;
  templateId?: string;
  batchId?: string;
  stream?: string;
  /** The sending domain. */
  domain?: string;
  rfcMessageId?: string;
  /** No index has it: give a narrow range of times with it. */
  requestId?: string;
  /** Half-open range of acceptance times in ms. */
  createdAfter?: number;
  createdBefore?: number;
  opened?: boolean;
  clicked?: boolean;
  test?: boolean;
}

export interface MessagePage {
  messages: MessageRow[];
  hasMore: boolean;
}

/** Which part of the list: newest or oldest first, and from which message on (exclusive), forwards or backwards. */
export interface PageRequest {
  newestFirst: boolean;
  limit: number;
  after?: string;
  before?: string;
}

/** One page in the order asked for. Ids ascend with time, so they are both order and cursor. `many` is another in tests. */
export async function listMessages(
  read: Knex,
  filter: MessageFilter,
  page: PageRequest,
  many: number = MANY,
): Promise<MessagePage> {
  const backwards = page.before !== undefined;
  const part: Part = {
    descending: page.newestFirst !== backwards,
    edge: page.after ?? page.before ?? null,
    limit: page.limit + 1,
  };
  const chosen = await bestSource(read, filter, many);
  const messages = await readChosen(read, filter, chosen, part);
  const hasMore = messages.length > page.limit;
  if (hasMore) messages.length = page.limit;
  if (backwards) messages.reverse();
  return { messages, hasMore };
}

interface Part {
  descending: boolean;
  edge: string | null;
  limit: number;
}

/** Rows in the order of the list that may be in it. */
interface Branch {
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
type Source = readonly Branch[];

/** All messages of the account. */
const inOrder: Branch = { from: 'messages as m indexed by messages_by_account', id: 'm.id', where: [] };

/** Words that begin alike, as the values of IN_RANGE. */
type WordRange = readonly [accountId: string, from: string, to: string];
const IN_RANGE = 'account_id = ? AND word >= ? AND word < ?';

/**
 * What is read: a source; where there is none, words that very many messages have; or where several things fit very many messages
 * each, the blocks of messages, and the source for what is in no block yet.
 */
type Chosen =
  | { kind: 'source'; source: Source }
  | { kind: 'words'; range: WordRange }
  | { kind: 'blocks'; facts: readonly Fact[]; source: Source };

async function readChosen(read: Knex, filter: MessageFilter, chosen: Chosen, part: Part): Promise<MessageRow[]> {
  if (chosen.kind === 'words') return readNearFirst(read, filter, chosen.range, part);
  if (chosen.kind === 'blocks') {
    const found = await readByBlocks(read, filter, chosen, part);
    if (found !== null) return found;
  }
  return readSource(read, filter, chosen.source, part);
}

async function readSource(read: Knex, filter: MessageFilter, source: Source, part: Part): Promise<MessageRow[]> {
  const found = await Promise.all(source.map((branch) => readBranch(read, filter, branch, part)));
  return found.length === 1 ? (found[0] ?? []) : merged(found.flat(), part);
}

/** Null where there are no blocks, or where they were made anew meanwhile. */
async function readByBlocks(
  read: Knex,
  filter: MessageFilter,
  { facts, source }: Extract<Chosen, { kind: 'blocks' }>,
  part: Part,
): Promise<MessageRow[] | null> {
  const { accountId } = filter;
  const newest = await newestBlock(read, accountId);
  if (newest === undefined) return null;
  const inNone = (limit: number): Promise<MessageRow[]> =>
    readSource(read, filter, source.map((branch) => ({ ...branch, where: [...branch.where, [`${branch.id} > ?`, newest.last_id] as const] })), { ...part, limit }); // prettier-ignore
  const inSome = (limit: number): Promise<MessageRow[]> =>
    readCandidates(read, filter, facts, newest.last_id, { ...part, limit });
  const [first, second] = part.descending ? [inNone, inSome] : [inSome, inNone];
  const found = await first(part.limit);
  if (found.length < part.limit) found.push(...(await second(part.limit - found.length)));
  const isSame = (await read('message_blocks').select('block').where({ account_id: accountId, block: newest.block, last_id: newest.last_id }).first()) !== undefined; // prettier-ignore
  return isSame ? found : null;
}

/** Candidates that are read at once: so many for each that is wanted, and so many times more each time that they were not enough. */
const [CANDIDATES_FIRST, MORE_CANDIDATES, MOST_CANDIDATES] = [2, 4, 4000];

async function readCandidates(
  read: Knex,
  filter: MessageFilter,
  facts: readonly Fact[],
  lastId: string,
  part: Part,
): Promise<MessageRow[]> {
  const { createdAfter, createdBefore } = filter;
  const [above, below] = part.descending ? [null, part.edge] : [part.edge, null];
  const floor = createdAfter === undefined ? null : idFloor('msg', createdAfter);
  const ceiling = createdBefore === undefined ? null : idFloor('msg', createdBefore + MOST_AHEAD_MS);
  const range = {
    above: later(above, floor),
    below: below === null || (ceiling !== null && ceiling < below) ? ceiling : below,
    descending: part.descending,
  };
  const wanted = facts.map(({ names, source }): Wanted => ({ names, few: source === null ? null : (from, to) => idsBetween(read, filter, source, from, to) })); // prettier-ignore
  const found: MessageRow[] = [];
  let waiting: string[] = [];
  let take = part.limit * CANDIDATES_FIRST;
  const readWaiting = async (fewest: number): Promise<void> => {
    while (waiting.length >= fewest && found.length < part.limit) {
      found.push(...(await readInOrder(read, filter, waiting.slice(0, take), part.limit - found.length)));
      waiting = waiting.slice(take);
      take = Math.min(take * MORE_CANDIDATES, MOST_CANDIDATES);
    }
  };
  for await (const ids of candidates(read, filter.accountId, wanted, range)) {
    waiting.push(...ids.filter((id) => id <= lastId));
    if (waiting.length >= take) await readWaiting(take);
    if (found.length >= part.limit) return found;
  }
  await readWaiting(1);
  return found;
}

/** Of these messages the first that fit, in the order given: an array is walked in its order, and reading ends with the last that is wanted. */
async function readInOrder(
  read: Knex,
  filter: MessageFilter,
  ids: readonly string[],
  limit: number,
): Promise<MessageRow[]> {
  const named = beside('(SELECT value AS message_id FROM json_each(?))', []);
  const query = inBranch(read.select('m.*'), read, filter, { ...named, with: [JSON.stringify(ids)] });
  narrow(query.where('m.account_id', filter.accountId), filter, named.id);
  return (await query.limit(limit)) as MessageRow[];
}

const later = (one: string | null, other: string | null): string | null =>
  one === null || (other !== null && other > one) ? other : one;

/** Ids of messages of a source, in a range with both ends. Only its index is read. */
async function idsBetween(read: Knex, filter: MessageFilter, source: Source, from: string, to: string): Promise<string[]> {
  const found = await Promise.all(
    source.map(async (branch) => {
      // Bounds of time would only be in the way: of two bounds the database takes the first.
      const query = inBranch(read.select({ id: branch.id }), read, { accountId: filter.accountId }, alone(branch));
      return (await query.where(branch.id, '>=', from).where(branch.id, '<=', to)) as { id: string }[];
    }),
  );
  return [...new Set(found.flat().map(({ id }) => id))];
} // prettier-ignore

/** Of these messages those that fit. */
function readNamed(read: Knex, filter: MessageFilter, ids: readonly string[], part: Part): Promise<MessageRow[]> {
  const own = beside('(SELECT DISTINCT value AS message_id FROM json_each(?))', []);
  return readBranch(read, filter, { ...own, with: [JSON.stringify(ids)] }, part);
}

/** Messages that are read in the order of the list before a range of words is gathered. */
const NEAR = 20_000;

/** For what fits very many: it fills a page soon where it is spread over the list, and is gathered where it stands at its other end. */
async function readNearFirst(read: Knex, filter: MessageFilter, range: WordRange, part: Part): Promise<MessageRow[]> {
  const order = part.descending ? 'desc' : 'asc';
  const all = inBranch(read.select('m.id'), read, filter, inOrder).where('m.account_id', filter.accountId);
  if (part.edge !== null) all.where('m.id', part.descending ? '<' : '>', part.edge);
  const last = (await all.orderBy('m.id', order).limit(1).offset(NEAR).first()) as { id: string } | undefined;
  if (last === undefined) return readBranch(read, filter, inOrder, part);
  const within = { ...inOrder, where: [[`m.id ${part.descending ? '>=' : '<='} ?`, last.id] as const] };
  const near = await readBranch(read, filter, within, part);
  if (near.length >= part.limit) return near;
  return [...near, ...(await readFar(read, filter, range, { ...part, edge: last.id, limit: part.limit - near.length }))]; // prettier-ignore
}

/** Ids of a range of words that are taken first, and by what more there are each time that they did not fill the page. */
const TAKEN_FIRST = 256;
const MORE_EACH_TIME = 8;

/** Gathers the ids of the range that come next in the order of the list, and reads the messages of these alone. */
async function readFar(read: Knex, filter: MessageFilter, range: WordRange, part: Part): Promise<MessageRow[]> {
  const { descending, limit } = part;
  const found: MessageRow[] = [];
  let { edge } = part;
  for (let take = TAKEN_FIRST; ; take *= MORE_EACH_TIME) {
    const wanted = read('message_words')
      .select('message_id')
      .whereRaw(IN_RANGE, [...range]);
    if (edge !== null) wanted.where('message_id', descending ? '<' : '>', edge);
    const ids = (await wanted.orderBy('message_id', descending ? 'desc' : 'asc').limit(take)) as { message_id: string }[]; // prettier-ignore
    // A message may have several words of the range.
    const some = ids.map(({ message_id }) => message_id);
    found.push(...(await readNamed(read, filter, some, { descending, edge, limit: limit - found.length })));
    edge = ids.at(-1)?.message_id ?? edge;
    if (found.length >= limit || ids.length < take) return found;
  }
}

async function readBranch(read: Knex, filter: MessageFilter, branch: Branch, part: Part): Promise<MessageRow[]> {
  const query = inBranch(read.select('m.*'), read, filter, branch).where('m.account_id', filter.accountId);
  narrow(query, filter, branch.id);
  if (part.edge !== null) query.where(branch.id, part.descending ? '<' : '>', part.edge);
  return (await query.orderBy(branch.id, part.descending ? 'desc' : 'asc').limit(part.limit)) as MessageRow[];
}

function inBranch(query: Knex.QueryBuilder, read: Knex, filter: MessageFilter, branch: Branch): Knex.QueryBuilder {
  const { createdAfter, createdBefore } = filter;
  query.from(read.raw(branch.from, [...(branch.with ?? [])]) as unknown as string);
  for (const [sql, ...values] of branch.where) query.whereRaw(sql, values);
  if (createdAfter !== undefined) query.where(branch.id, '>=', idFloor('msg', createdAfter));
  if (createdBefore !== undefined) query.where(branch.id, '<', idFloor('msg', createdBefore + MOST_AHEAD_MS));
  return query;
}

function merged(rows: readonly MessageRow[], { descending, limit }: Part): MessageRow[] {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const up = [...byId.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  return (descending ? up.reverse() : up).slice(0, limit);
}

/** What is counted of a source at most: whatever fits more is read in order and fills a page soon. */
const MOST_COUNTED = 20_000;

/** Where the rarest of several things fits this many messages, the blocks are quicker than looking at each of them. */
const MANY = 4000;

/** The source that fits the fewest messages. One alone is taken as it is. */
async function bestSource(read: Knex, filter: MessageFilter, many: number): Promise<Chosen> {
  const words = await wordSources(read, filter);
  const sources = [...plainSources(filter), ...words.flatMap((one) => (one.kind === 'source' ? [one.source] : []))];
  const facts = factsOf(filter);
  const [only, second] = sources;
  if (facts.length < 2) {
    if (only === undefined) return words[0] ?? { kind: 'source', source: [inOrder] };
    if (second === undefined) return { kind: 'source', source: only };
  }
  const most = facts.length < 2 ? MOST_COUNTED : Math.min(many, MOST_COUNTED);
  const sizes = await Promise.all(sources.map((source) => sizeOf(read, filter, source, most)));
  const fewest = Math.min(...sizes);
  const source = sources[sizes.indexOf(fewest)] ?? [inOrder];
  return facts.length < 2 || fewest < many ? { kind: 'source', source } : { kind: 'blocks', facts, source };
}

async function sizeOf(read: Knex, filter: MessageFilter, source: Source, most: number): Promise<number> {
  const counts = await Promise.all(
    source.map(async (branch) => {
      const some = inBranch(read.select(read.raw('1')), read, filter, alone(branch)).limit(most);
      const row = (await read.count({ n: '*' }).from(some.as('s')).first()) as { n: number } | undefined;
      return row?.n ?? 0;
    }),
  );
  return counts.reduce((sum, n) => sum + n, 0);
}

/** Only the index, not the messages behind it. */
const alone = (branch: Branch): Branch => ({
  ...branch,
  from: branch.from.replace(' cross join messages as m', ''),
  where: branch.where.filter(([sql]) => sql !== JOINED),
});

/** What `messages_apart` holds: it serves only who repeats its condition word for word. */
const apart: ReadonlySet<DeliveryStatus> = new Set(['scheduled', 'deferred', 'bounced', 'complained', 'suppressed', 'failed', 'canceled']); // prettier-ignore
const APART = `m.status in (${[...apart].map((status) => `'${status}'`).join(', ')})`;

/** `with` is the message in a table beside: SQLite keeps the order of a cross join. */
const JOINED = 'm.id = w.message_id';

const beside = (table: string, where: Branch['where']): Branch => ({
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
interface Fact {
  names: readonly string[];
  source: Source | null;
}

/** All that is asked for of what never changes. */
function factsOf(filter: MessageFilter): Fact[] {
  if (isNamed(filter)) return [];
  const { subject, test } = filter;
  const words = subject === undefined ? [] : wordsOf(subject).map((word) => wordNames(beginningOf(word)));
  return [
    ...indexedFacts(filter),
    ...(test === undefined ? [] : [{ names: [testName(test)], source: null }]),
    ...words.map((names) => ({ names, source: null })),
  ];
}

/** Named messages are few: the database finds them by itself. */
const isNamed = ({ batchId, rfcMessageId }: MessageFilter): boolean =>
  batchId !== undefined || rfcMessageId !== undefined;

function indexedFacts(filter: MessageFilter): (Fact & { source: Source })[] {
  const { accountId, to, from, tags = [], metadata = {}, templateId, stream, domain } = filter;
  const account = ['m.account_id = ?', accountId] as const;
  const facts: (Fact & { source: Source })[] = [];
  const add = (name: string, branch: Branch): void => void facts.push({ names: [name], source: [branch] });
  if (to !== undefined) add(recipientName(addressKey(to)), recipientBranch(addressKey(to)));
  for (const tag of tags) add(tagName(tag), beside('message_tags', [['w.account_id = ?', accountId], ['w.tag = ?', tag]])); // prettier-ignore
  for (const [name, value] of Object.entries(metadata))
    add(metadataName(name, value), beside('message_metadata', [['w.account_id = ?', accountId], ['w.name = ?', name], ['w.value = ?', value]])); // prettier-ignore
  if (templateId !== undefined) add(templateName(templateId), indexed('messages_by_template', [account, ['m.template_id = ?', templateId]])); // prettier-ignore
  if (stream !== undefined) add(streamName(stream), indexed('messages_by_stream', [account, ['m.stream = ?', stream]])); // prettier-ignore
  if (domain !== undefined) add(domainName(domain), indexed('messages_by_domain', [account, ['m.from_domain = ?', domain]])); // prettier-ignore
  if (from !== undefined) add(senderName(addressKey(from)), indexed('messages_by_sender', [account, ['lower(m.from_address) = ?', addressKey(from)]])); // prettier-ignore
  return facts;
}

/** The sources that follow from the filter alone. */
function plainSources(filter: MessageFilter): Source[] {
  const { accountId, status } = filter;
  const account = ['m.account_id = ?', accountId] as const;
  if (filter.batchId !== undefined) return [[indexed('messages_by_batch', [['m.batch_id = ?', filter.batchId]])]];
  if (filter.rfcMessageId !== undefined) return [[{ from: 'messages as m', id: 'm.id', where: [] }]];
  const sources = indexedFacts(filter).map(({ source }) => source);
  if (filter.test === true) sources.push([indexed('messages_test', [account, ['m.test = 1']])]);
  if (filter.opened === true) sources.push([indexed('messages_opened', [account, ['m.opens > 0']])]);
  if (filter.clicked === true) sources.push([indexed('messages_clicked', [account, ['m.clicks > 0']])]);
  if (status?.every((one) => apart.has(one)) === true)
    sources.push(status.map((one) => indexed('messages_apart', [account, ['m.status = ?', one], [APART]])));
  return sources;
}

/** An address may be in one message twice: the first of its deliveries stands for the message. */
const recipientBranch = (key: string): Branch =>
  beside('deliveries', [
    ['w.address_key = ?', key],
    ['NOT EXISTS (SELECT 1 FROM deliveries o WHERE o.address_key = w.address_key AND o.message_id = w.message_id AND o.id < w.id)'],
  ]); // prettier-ignore

/** Words with one beginning that are read one by one; where there are more, no index has them in the order of the list. */
const MOST_WORDS = 20;

type WordChosen = Exclude<Chosen, { kind: 'blocks' }>;

/** A source for each word looked for. */
async function wordSources(read: Knex, filter: MessageFilter): Promise<WordChosen[]> {
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
      source: words.map((word) => beside('message_words', [['w.account_id = ?', accountId], ['w.word = ?', word]])),
    }; // prettier-ignore
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

/** `id`: the message's id where the branch has it first, so that what an index tells is looked at before the message is read. */
function narrow(query: Knex.QueryBuilder, filter: MessageFilter, id: string): void {
  const { accountId, status, to, from, subject, tags = [], metadata = {}, createdAfter, createdBefore, opened, clicked, test } = filter; // prettier-ignore
  const equal = { 'm.template_id': filter.templateId, 'm.batch_id': filter.batchId, 'm.stream': filter.stream, 'm.from_domain': filter.domain, 'm.request_id': filter.requestId }; // prettier-ignore
  for (const [column, value] of Object.entries(equal)) if (value !== undefined) query.where(column, value);
  if (filter.rfcMessageId !== undefined) narrowToRfcId(query, filter.rfcMessageId);
  if (status !== undefined) query.whereIn('m.status', status);
  if (from !== undefined) query.whereRaw('lower(m.from_address) = ?', [addressKey(from)]);
  if (to !== undefined)
    query.whereRaw(`EXISTS (SELECT 1 FROM deliveries x WHERE x.address_key = ? AND x.message_id = ${id})`, [
      addressKey(to),
    ]);
  if (subject !== undefined) for (const word of wordsOf(subject)) narrowToWord(query, word);
  for (const tag of tags)
    query.whereRaw(`EXISTS (SELECT 1 FROM message_tags x WHERE x.account_id = ? AND x.tag = ? AND x.message_id = ${id})`, [accountId, tag]); // prettier-ignore
  for (const [name, value] of Object.entries(metadata))
    query.whereRaw(`EXISTS (SELECT 1 FROM message_metadata x WHERE x.account_id = ? AND x.name = ? AND x.value = ? AND x.message_id = ${id})`, [accountId, name, value]); // prettier-ignore
  if (createdAfter !== undefined) query.where('m.created_at', '>=', createdAfter);
  if (createdBefore !== undefined) query.where('m.created_at', '<', createdBefore);
  if (opened !== undefined) query.where('m.opens', opened ? '>' : '=', 0);
  if (clicked !== undefined) query.where('m.clicks', clicked ? '>' : '=', 0);
  if (test !== undefined) query.where('m.test', test ? 1 : 0);
}

/** Our own ids name the message; those of submitted mail have an index of their own. */
function narrowToRfcId(query: Knex.QueryBuilder, rfcMessageId: string): void {
  const [, own] = /^<(msg_[0-7][0-9a-hjkmnp-tv-z]{25})@/.exec(rfcMessageId) ?? [];
  if (own === undefined) query.whereRaw("substr(m.rfc_message_id, 1, 5) <> '<msg_'");
  else query.where('m.id', own);
  query.where('m.rfc_message_id', rfcMessageId);
}

/** SQLite folds the case of ASCII only; beyond that the usual spellings of a word are asked for one by one. */
function narrowToWord(query: Knex.QueryBuilder, word: string): void {
  const lower = word.toLowerCase();
  const title = lower.replace(/^./u, (first) => first.toUpperCase());
  const spellings = [...new Set([word, lower, title, word.toUpperCase()])];
  const like = spellings.map(() => `' ' || m.subject LIKE ? ESCAPE '\\'`).join(' OR ');
  query.whereRaw(
    `(${like})`,
    spellings.map((spelling) => `% ${escapeLike(spelling)}%`),
  );
}

const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
const escapeLike = (word: string): string => word.replace(/[\\%_]/g, '\\$&');
