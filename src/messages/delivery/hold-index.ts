/** The operator's holds in memory: found by their ids, and by the scope and target that they name. */
import type { HoldRow } from '../../storage/tables.ts';

/** The properties of a mail that a hold can name. */
export interface MailFacts {
  accountId: string;
  stream: string;
  fromDomain: string;
  domain: string;
  messageId: string;
  keyId: string | null;
  /** The tags of the message, as its row has them. */
  tagsJson: string;
  createdAt: number;
}

/** The mail that a hold is about. */
export type HoldPart = Pick<HoldRow, 'scope' | 'target' | 'account_id' | 'domain' | 'stream' | 'key_id' | 'tag'>;

/** Returns the part in words, such as `the domain example.net (account acc_1)`. */
export function partText({ scope, target, account_id: account, domain, stream, key_id: key, tag }: HoldPart): string {
  if (scope === 'all') return 'whole queue';
  const own = scope === 'account' || scope === 'stream' || scope === 'message';
  const further = Object.entries({ domain, stream, key, tag, account: own ? null : account }).flatMap(
    ([name, value]) => (value === null ? [] : [`${name} ${value}`]),
  );
  return `${scope} ${target}${further.length === 0 ? '' : ` (${further.join(', ')})`}`;
}

/** Returns whether nothing narrows a hold. */
export const isOfAll = (row: HoldPart): boolean =>
  [row.account_id, row.domain, row.stream, row.key_id, row.tag].every((one) => one === null);

/** Returns whether a mail that has the scope and target of the hold has its further properties too. */
export const isOfPart = (
  mail: MailFacts,
  { account_id: account, domain, stream, key_id: key, tag }: HoldPart,
): boolean =>
  (account === null || account === mail.accountId) &&
  (domain === null || domain === mail.domain) &&
  (stream === null || stream === mail.stream) &&
  (key === null || key === mail.keyId) &&
  (tag === null || tagsOf(mail).includes(tag));

const tagsOf = ({ tagsJson }: MailFacts): string[] => JSON.parse(tagsJson) as string[];

export class HoldIndex {
  private readonly rows = new Map<string, HoldRow>();
  /** Rows by scope and target, each list by id. */
  private readonly byKey = new Map<string, Map<string, HoldRow>>();

  get isEmpty(): boolean {
    return this.rows.size === 0;
  }

  get(id: string): HoldRow | undefined {
    return this.rows.get(id);
  }

  /** Returns all rows, in the order in which they came. */
  all(): readonly HoldRow[] {
    return [...this.rows.values()];
  }

  /** Returns the rows of a key, in the order in which they came. */
  at(key: string): readonly HoldRow[] {
    return [...(this.byKey.get(key)?.values() ?? [])];
  }

  put(row: HoldRow): void {
    this.drop([row.id]);
    this.rows.set(row.id, row);
    const key = keyOf(row);
    const others = this.byKey.get(key);
    if (others === undefined) this.byKey.set(key, new Map([[row.id, row]]));
    else others.set(row.id, row);
  }

  drop(ids: readonly string[]): void {
    for (const id of ids) {
      const row = this.rows.get(id);
      if (row === undefined) continue;
      this.rows.delete(id);
      const others = this.byKey.get(keyOf(row));
      others?.delete(id);
      if (others?.size === 0) this.byKey.delete(keyOf(row));
    }
  }

  /** Takes these rows in place of all; rows with the same id are the same. Returns whether they are others than before. */
  replaceAll(found: readonly HoldRow[]): boolean {
    const ids = new Set(found.map(({ id }) => id));
    const gone = [...this.rows.keys()].filter((id) => !ids.has(id));
    const added = found.filter(({ id }) => !this.rows.has(id));
    this.drop(gone);
    for (const row of added) this.put(row);
    return gone.length + added.length > 0;
  }
}

/** Returns the key under which a hold is found. */
export const keyOf = ({ kind, scope, target }: Pick<HoldRow, 'kind' | 'scope' | 'target'>): string =>
  `${kind} ${scope} ${target}`;

/** Returns the keys under which a hold on this mail can be, the narrowest first. */
export const keysOf = (mail: MailFacts): string[] => [
  `hold message ${mail.messageId}`,
  `hold stream ${mail.stream}`,
  `hold key ${mail.keyId ?? ''}`,
  ...tagsOf(mail).map((tag) => `hold tag ${tag}`),
  `hold domain ${mail.domain}`,
  `hold account ${mail.accountId}`,
  'hold all ',
];
