/**
 * Counts events. Every event adds to a row for the hour of its mail and one for the day, by stream, sending domain and recipient provider;
 * to more rows for each tag, the template, the key and the source; and to a row of all mail. Rows of a grouped commit are merged first, so a busy
 * server writes a handful of them for hundreds of events.
 */
import { providerOf } from '../base/mailbox-providers.ts';
import { statTypes, type StatRow, type StatType } from '../storage/tables.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';

export { statTypes, type StatType } from '../storage/tables.ts';

export interface StatFacts {
  accountId: string;
  /** When the mail was accepted, or due if it was scheduled. */
  at: number;
  test: boolean;
  stream: string;
  /** The sending domain. */
  domain: string;
  recipient: string;
  tags: readonly string[];
  /** Id of the template it was made from, or null. */
  template: string | null;
  /** Id of the key it was sent with, or null. */
  key?: string | null;
  /** The source that it left from, if sources have names and it is known. */
  source?: string | null;
}

/** Returns the names under which an event counts. */
export function statTypesOf(type: string, detail: Readonly<Record<string, unknown>>, machine: boolean): StatType[] {
  if (type === 'opened' || type === 'clicked') {
    if (machine) return [`machine_${type}`];
    return detail['first'] === true ? [type, `unique_${type}`] : [type];
  }
  const known = statTypes.find((one) => one === type);
  if (known === undefined) return [];
  const kind = type === 'bounced' ? statTypes.find((one) => one === `bounced_${String(detail['class'])}`) : undefined;
  return kind === undefined ? [known] : [known, kind];
}

/** Counts an event; with -1 it takes it back. */
export function addToStats(
  rows: Map<string, StatRow>,
  facts: StatFacts,
  types: readonly StatType[],
  by: 1 | -1 = 1,
): void {
  if (types.length === 0) return;
  const { stream, domain } = facts;
  const own = { stream, domain, provider: providerOf(facts.recipient) };
  const all = { tag: '', stream: '', domain: '', provider: '' };
  const hour = facts.at - (facts.at % HOUR_MS);
  const day = facts.at - (facts.at % DAY_MS);
  const add = (span: StatRow['span'], at: number, key: typeof all): void => {
    const row = rowFor(rows, facts, span, at, key);
    for (const type of types) row[type] += by;
  };
  add('whole_hour', hour, all);
  add('whole_day', day, all);
  for (const tag of ['', ...facts.tags]) {
    add('hour', hour, { tag, ...own });
    add('day', day, { tag, ...own });
  }
  for (const [kind, name] of [
    ['template', facts.template],
    ['key', facts.key ?? null],
  ] as const) {
    if (name === null) continue;
    add(`${kind}_hour`, hour, { tag: name, ...own });
    add(`${kind}_day`, day, { tag: name, ...own });
  }
  if (facts.source != null) add('source_day', day, { tag: facts.source, ...own });
}

/** Counts an attempt from a source, as `sent` in the source's rows: the source is known only when the attempt begins. */
export function addTry(rows: Map<string, StatRow>, facts: StatFacts): void {
  if (facts.source == null) return;
  const key = { tag: facts.source, stream: facts.stream, domain: facts.domain, provider: providerOf(facts.recipient) };
  rowFor(rows, facts, 'source_day', facts.at - (facts.at % DAY_MS), key).sent++;
}

function rowFor(
  rows: Map<string, StatRow>,
  { accountId, test }: StatFacts,
  span: StatRow['span'],
  at: number,
  { tag, stream, domain, provider }: Pick<StatRow, 'tag' | 'stream' | 'domain' | 'provider'>,
): StatRow {
  const key = `${accountId} ${span} ${String(at)} ${String(test)} ${stream} ${domain} ${provider} ${tag}`;
  const known = rows.get(key);
  if (known !== undefined) return known;
  const row = { account_id: accountId, span, test: test ? 1 : 0, tag, at, stream, domain, provider, ...noCounts() };
  rows.set(key, row);
  return row;
}

const zeros = Object.fromEntries(statTypes.map((type) => [type, 0])) as Record<StatType, number>;

export const noCounts = (): Record<StatType, number> => ({ ...zeros });
