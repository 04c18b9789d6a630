/** The filters of a list of messages: for each the condition in SQL that tests it, and the index that finds its messages. */
import { addressKey } from '../../mail/address.ts';
import type { DeliveryStatus, MessageWordRow } from '../../storage/tables.ts';
import { type Dialect } from '../../storage/sql.ts';

/** A message is dated at most this long after its request arrived. */
export const LONGEST_REQUEST_MS = 60_000;

export interface MessageFilter {
  accountId: string;
  status?: readonly DeliveryStatus[] | undefined;
  /** An address among the recipients of any kind. */
  to?: string | undefined;
  from?: string | undefined;
  /** Beginning of the address of a recipient of any kind. */
  to_start?: string | undefined;
  /** A part of the address of a recipient of any kind. */
  to_part?: string | undefined;
  /** Why the last attempt was refused. */
  reason?: string | undefined;
  /** Domain of a recipient; a name without a dot stands for all its endings. */
  to_domain?: string | undefined;
  /** Beginning of a message's id. */
  id_start?: string | undefined;
  /** Beginning of the id of the request; give a narrow range of times with it. */
  request_id_start?: string | undefined;
  /** Beginning of a recipient's address, or words of the subject. */
  q?: string | undefined;
  /** Words the subject must have, each as a beginning of one of its words. */
  subject?: string | undefined;
  /** All of these. */
  tag?: readonly string[] | undefined;
  metadata?: Readonly<Record<string, string>> | undefined;
  template_id?: string | undefined;
  batch_id?: string | undefined;
  stream?: string | undefined;
  domain?: string | undefined;
  rfc_message_id?: string | undefined;
  event_id?: string | undefined;
  /** The API key that it was sent with; no index has it. */
  key_id?: string | undefined;
  /** No index has it: give a narrow range of times with it. */
  request_id?: string | undefined;
  /** Half-open range of acceptance times in ms. */
  created_after?: number | undefined;
  created_before?: number | undefined;
  opened?: boolean | undefined;
  clicked?: boolean | undefined;
  test?: boolean | undefined;
}

export type Sql = readonly [text: string, ...values: (string | number)[]];

/** A piece of SQL that the engines write differently. */
export type SqlOfEngine = readonly [text: (sql: Dialect) => string, ...values: (string | number)[]];

const valuesOf = ([, ...values]: SqlOfEngine): (string | number)[] => values;

/** An index with the messages that fit one filter. */
export interface MessageIndex {
  /** The table to read, as `m` if it is `messages` itself, otherwise as `w`. */
  table: SqlOfEngine;
  where: readonly Sql[];
  /** The column with the message's id. */
  id: 'm.id' | 'w.message_id';
  /** True if it has the messages in the order of their ids, so that a part of it can be read. */
  isOrdered: boolean;
  /**
   * Queries of rows with a `message_id`, each ending with conditions, which together have at least the rows of the index, where the index
   * itself must not be counted.
   */
  parts?: readonly SqlOfEngine[];
}

export interface Criterion {
  /** Tests a message; `id` is the column of its id in the index that is read, which is known before the message is read. */
  condition: (id: string) => Sql;
  index?: MessageIndex;
}

export const allMessages = (accountId: string): MessageIndex =>
  indexOfMessages('messages_by_account', [['m.account_id = ?', accountId]]);

/** The statuses in the index `messages_apart`: SQLite uses a partial index only if its condition is repeated word for word. */
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

/** Returns all criteria of a filter. Of equally large indexes the first is read, so those that are usually smaller come first. */
export function criteriaOf(filter: MessageFilter): Criterion[] {
  const { accountId, to, to_start, to_part, to_domain, subject = '', q, reason } = filter;
  const { id_start, rfc_message_id, event_id, key_id, request_id, request_id_start } = filter;
  const { tag: tags = [], metadata = {}, created_after, created_before } = filter;
  return [
    ...(rfc_message_id === undefined ? [] : [rfcIdCriterion(rfc_message_id)]),
    ...(event_id === undefined ? [] : [rowCriterion('events', { id: event_id, account_id: accountId })]),
    ...(to === undefined ? [] : [recipientCriterion(addressKey(to))]),
    ...(to_start === undefined ? [] : [addressStartCriterion(to_start.toLowerCase())]),
    ...(id_start === undefined ? [] : [idStartCriterion(accountId, id_start)]),
    ...Object.entries(metadata).map(([name, value]) =>
      rowCriterion('message_metadata', { account_id: accountId, name, value }),
    ),
    ...tags.map((tag) => rowCriterion('message_tags', { account_id: accountId, tag })),
    ...stateCriteria(filter),
    ...columnCriteria(filter),
    ...wordsOf(subject).map((word) => wordCriterion(accountId, word)),
    ...(q === undefined ? [] : [textCriterion(accountId, q)]),
    ...(reason === undefined ? [] : [reasonCriterion(reason)]),
    ...(to_domain === undefined ? [] : [domainCriterion(to_domain)]),
    ...(to_part === undefined ? [] : [partCriterion(to_part.toLowerCase())]),
    ...(key_id === undefined ? [] : [{ condition: always(['m.key_id = ?', key_id]) }]),
    ...(request_id_start === undefined ? [] : [{ condition: always(startsWith('m.request_id', request_id_start)) }]),
    ...(request_id === undefined ? [] : [{ condition: always(['m.request_id = ?', request_id]) }]),
    ...(created_after === undefined ? [] : [{ condition: always(['m.created_at >= ?', created_after]) }]),
    ...(created_before === undefined ? [] : [{ condition: always(['m.created_at < ?', created_before]) }]),
  ];
}

const always = (sql: Sql) => (): Sql => sql;

function indexOfMessages(name: string, where: readonly Sql[], isOrdered = true): MessageIndex {
  return { table: [({ using }) => `messages AS m ${using(name)}`], where, id: 'm.id', isOrdered };
}

/** Returns the criteria about columns that have an index each. */
function columnCriteria({ accountId, template_id, batch_id, stream, domain, from }: MessageFilter): Criterion[] {
  const sender = from === undefined ? undefined : addressKey(from);
  const columns = [
    ['m.template_id', template_id, 'messages_by_template'],
    ['m.stream', stream, 'messages_by_stream'],
    ['m.from_domain', domain, 'messages_by_domain'],
    ['lower(m.from_address)', sender, 'messages_by_sender'],
  ] as const;
  const criteria = columns.flatMap(([column, value, index]): Criterion[] => {
    if (value === undefined) return [];
    const is: Sql = [`${column} = ?`, value];
    return [{ condition: always(is), index: indexOfMessages(index, [['m.account_id = ?', accountId], is]) }];
  });
  if (batch_id === undefined) return criteria;
  const is: Sql = ['m.batch_id = ?', batch_id];
  return [...criteria, { condition: always(is), index: indexOfMessages('messages_by_batch', [is], false) }];
}

/** Returns the criteria about status, opens, clicks and `test`: partial indexes have the rarer values. */
function stateCriteria({ accountId, status, opened, clicked, test }: MessageFilter): Criterion[] {
  const account: Sql = ['m.account_id = ?', accountId];
  const criteria: Criterion[] = [];
  const add = (is: Sql, index?: MessageIndex): void =>
    void criteria.push({ condition: always(is), ...(index === undefined ? {} : { index }) });
  if (status !== undefined) {
    const isApart = status.length > 0 && status.every((one) => apart.has(one));
    // With an empty list of values SQLite finds no plan; no message has an empty status.
    const values = status.length === 0 ? [''] : status;
    const is: Sql = [`m.status IN (${values.map(() => '?').join(', ')})`, ...values];
    add(is, isApart ? indexOfMessages('messages_apart', [account, is, [APART]], status.length === 1) : undefined);
  }
  const flags = [
    ['m.opens > 0', 'm.opens = 0', opened, 'messages_opened'],
    ['m.clicks > 0', 'm.clicks = 0', clicked, 'messages_clicked'],
    ['m.test = 1', 'm.test = 0', test, 'messages_test'],
  ] as const;
  for (const [yes, no, wanted, index] of flags) {
    if (wanted === true) add([yes], indexOfMessages(index, [account, [yes]]));
    if (wanted === false) add([no]);
  }
  return criteria;
}

/** Returns the criterion about rows of another table, whose key begins with these columns and ends with the message's id. */
function rowCriterion(table: string, columns: Readonly<Record<string, string>>): Criterion {
  const where = (alias: string): Sql[] =>
    Object.entries(columns).map(([name, value]) => [`${alias}.${name} = ?`, value] as const);
  const own = where('x');
  return {
    condition: (id) => [
      `EXISTS (SELECT 1 FROM ${table} x WHERE ${own.map(([text]) => text).join(' AND ')} AND x.message_id = ${id})`,
      ...own.flatMap(([, ...values]) => values),
    ],
    index: { table: [() => `${table} AS w`], where: where('w'), id: 'w.message_id', isOrdered: true },
  };
}

/** An address may be in one message twice: the index gives the message of the first of its deliveries. */
function recipientCriterion(key: string): Criterion {
  const { condition, index } = rowCriterion('deliveries', { address_key: key });
  const isFirst =
    'NOT EXISTS (SELECT 1 FROM deliveries o WHERE o.address_key = w.address_key AND o.message_id = w.message_id AND o.id < w.id)';
  return { condition, ...(index === undefined ? {} : { index: { ...index, where: [...index.where, [isFirst]] } }) };
}

const startsWith = (column: string, start: string): Sql => [
  `${column} >= ? AND ${column} < ?`,
  start,
  `${start}\u{10ffff}`,
];

/** Reads the index of recipients' addresses, which has those of all accounts, from the beginning on. */
function addressStartCriterion(start: string): Criterion {
  const [own, other] = [startsWith('w.address_key', start), startsWith('o.address_key', start)];
  const isFirst: Sql = [
    `NOT EXISTS (SELECT 1 FROM deliveries o WHERE o.message_id = w.message_id AND ${other[0]} AND o.id < w.id)`,
    start,
    `${start}\u{10ffff}`,
  ];
  return {
    condition: recipientTest(startsWith('x.address_key', start)),
    index: {
      table: [({ using }) => `deliveries AS w ${using('deliveries_by_address')}`],
      where: [own, isFirst],
      id: 'w.message_id',
      isOrdered: false,
    },
  };
}

const recipientTest =
  ([text, ...values]: Sql) =>
  (id: string): Sql => [`EXISTS (SELECT 1 FROM deliveries x WHERE x.message_id = ${id} AND ${text})`, ...values];

/** No index has the domains of recipients: most domains that people look for have much mail, which the newest messages show. */
function domainCriterion(domain: string): Criterion {
  const isSo: Sql = domain.includes('.')
    ? ["(x.domain = ? OR x.test = 1 AND x.address_key LIKE '%@' || ?)", domain, domain]
    : startsWith('x.domain', `${domain}.`);
  return { condition: recipientTest(isSo) };
}

/** Like the domains of recipients, the middles of their addresses have no index. */
const partCriterion = (part: string): Criterion => ({
  condition: recipientTest([`x.address_key LIKE ? ESCAPE '\\'`, `%${escapeLike(part)}%`]),
});

/** Tests the last attempt for the recipient whose status a message shows. */
function reasonCriterion(reason: string): Criterion {
  return {
    condition: (id) => [
      `m.status IN ('deferred', 'bounced', 'failed') AND EXISTS (SELECT 1 FROM attempts x JOIN deliveries d ON d.id = x.delivery_id AND d.lead = 1
         WHERE x.message_id = ${id} AND x.reason = ?
         AND NOT EXISTS (SELECT 1 FROM attempts y WHERE y.delivery_id = x.delivery_id AND y.id > x.id))`,
      reason,
    ],
  };
}

function idStartCriterion(accountId: string, start: string): Criterion {
  const is = startsWith('m.id', start);
  return {
    condition: always(is),
    index: indexOfMessages('messages_by_account', [['m.account_id = ?', accountId], is]),
  };
}

/** Finds a text that is the beginning of an address or of a word of the subject: the two indexes are read together. */
function textCriterion(accountId: string, text: string): Criterion {
  const [first = ''] = wordsOf(text);
  const word = indexedWord(first);
  const words: SqlOfEngine = [
    () => 'SELECT message_id FROM message_words WHERE account_id = ? AND word >= ? AND word < ?',
    accountId,
    word,
    `${word}\u{10ffff}`,
  ];
  const [range, ...ends] = startsWith('address_key', first.toLowerCase());
  const addresses: SqlOfEngine = [
    ({ using }) => `SELECT message_id FROM deliveries ${using('deliveries_by_address')} WHERE ${range}`,
    ...ends,
  ];
  const [inSubject, ...spellings] = likeWord(first);
  const inAddress = recipientTest(startsWith('x.address_key', first.toLowerCase()));
  return {
    condition: (id) => {
      const [test, ...values] = inAddress(id);
      return [`(${inSubject} OR ${test})`, ...spellings, ...values];
    },
    index: {
      table: [
        (sql) => `(${words[0](sql)} UNION ${addresses[0](sql)}) AS w`,
        ...valuesOf(words),
        ...valuesOf(addresses),
      ],
      where: [],
      id: 'w.message_id',
      isOrdered: false,
      parts: [words, addresses],
    },
  };
}

const ownIdIn = (rfcMessageId: string): string | undefined =>
  /^<(msg_[0-7][0-9a-hjkmnp-tv-z]{25})@/.exec(rfcMessageId)?.[1];

/** Our own ids name the message; those of submitted mail have an index of their own. */
function rfcIdCriterion(rfcMessageId: string): Criterion {
  const own = ownIdIn(rfcMessageId);
  const is: Sql = ['m.rfc_message_id = ?', rfcMessageId];
  const index =
    own === undefined
      ? indexOfMessages('messages_by_rfc_id', [is, ["substr(m.rfc_message_id, 1, 5) <> '<msg_'"]], false)
      : ({ table: [() => 'messages AS m'], where: [['m.id = ?', own]], id: 'm.id', isOrdered: false } as const);
  return { condition: always(is), index };
}

const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');

/** The index has all words that begin with `word`, each with its messages, so it is not in the order of messages. */
function wordCriterion(accountId: string, word: string): Criterion {
  const from = indexedWord(word);
  const words = 'FROM message_words WHERE account_id = ? AND word >= ? AND word < ?';
  const range = [accountId, from, `${from}\u{10ffff}`] as const;
  return {
    condition: always(likeWord(word)),
    index: {
      table: [() => `(SELECT DISTINCT message_id ${words}) AS w`, ...range],
      where: [],
      id: 'w.message_id',
      isOrdered: false,
      // PostgreSQL would sort all of them to find the different ones, however few are counted.
      parts: [[() => `SELECT 1 ${words}`, ...range]],
    },
  };
}

/** The database folds the case of ASCII only; beyond that the usual spellings of a word are asked for one by one. */
function likeWord(word: string): Sql {
  const lower = word.toLowerCase();
  const title = lower.replace(/^./u, (first) => first.toUpperCase());
  const spellings = [...new Set([word, lower, title, word.toUpperCase()])];
  const folded = [
    ...new Set(spellings.map((spelling) => spelling.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase()))),
  ];
  const like = folded.map(() => `lower(' ' || m.subject) LIKE ? ESCAPE '\\'`).join(' OR ');
  return [`(${like})`, ...folded.map((spelling) => `% ${escapeLike(spelling)}%`)];
}

/** Returns the text for a pattern of LIKE with the escape sign `\`. */
export const escapeLike = (word: string): string => word.replace(/[\\%_]/g, '\\$&');

/** Characters of a word that are indexed; the rest is cut off. */
const LONGEST_WORD = 64;

/** Returns the word as it is indexed. A character that is cut in two is replaced: SQLite would give back another text than it was given. */
export const indexedWord = (word: string): string => word.toLowerCase().slice(0, LONGEST_WORD).toWellFormed();

/** Returns each word once. */
export function subjectWords(subject: string): string[] {
  const words = subject.toLowerCase().split(/\s+/);
  return [...new Set(words.map(indexedWord))].filter((word) => word !== '');
}

export const wordRows = (accountId: string, messageId: string, subject: string): MessageWordRow[] =>
  subjectWords(subject).map((word) => ({ account_id: accountId, word, message_id: messageId }));
