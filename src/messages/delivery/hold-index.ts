/** The operator's holds in memory: found by their ids, and by the scope and target that they name. */
import type { HoldRow } from '../../storage/tables.ts';

/** The properties of a mail that a hold can name. */
export interface MailFacts {
  accountId: string;
  stream: string;
  fromDomain: string;
  domain: string;
  messageId: string;
  createdAt: number;
}

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
export const keyOf = ({ kind, scope, target, account_id: account }: HoldRow): string =>
  scope === 'stream' ? `${kind} stream ${account ?? ''} ${target}` : `${kind} ${scope} ${target}`;

/** Returns the keys under which a hold on this mail can be, the narrowest first. */
export const keysOf = ({ messageId, accountId, stream, domain }: MailFacts): string[] => [
  `hold message ${messageId}`,
  `hold stream ${accountId} ${stream}`,
  `hold domain ${domain}`,
  `hold account ${accountId}`,
];
