/** The mark that held mail carries in `deliveries.held_by`: the text that names its hold. It is written and read here only. */

/** The mark of a pool none of whose sources may send to the site. */
export interface PoolMark {
  /** `paused` if the operator has paused or held all sources, `pool` if anything else is among the reasons. */
  kind: 'pool' | 'paused';
  pool: string;
  site: string;
}

export type HoldMark =
  /** `hld_...`, a hold by the operator. */
  | { kind: 'hold'; id: string }
  /** `account:<id>`, a paused account. */
  | { kind: 'account'; accountId: string }
  /** `stream:<account id>/<slug>`, a paused stream. */
  | { kind: 'stream'; accountId: string; stream: string }
  /** `domain:<account id>/<domain>`, a sending domain that is not verified. */
  | { kind: 'domain'; accountId: string; domain: string }
  /** `rule:<name>@<ms since the epoch>`: until then a rule lets no more mail of a stream go. */
  | { kind: 'rule'; rule: string; until: number }
  /** `pool:<pool>@<site>` or `paused:<pool>@<site>`. */
  | PoolMark;

export function writeMark(mark: HoldMark): string {
  switch (mark.kind) {
    case 'hold':
      return mark.id;
    case 'account':
      return `account:${mark.accountId}`;
    case 'stream':
      return `stream:${mark.accountId}/${mark.stream}`;
    case 'domain':
      return `domain:${mark.accountId}/${mark.domain}`;
    case 'rule':
      return `rule:${mark.rule}@${String(mark.until)}`;
    case 'pool':
    case 'paused':
      return `${mark.kind}:${mark.pool}@${mark.site}`;
  }
}

/** Returns the mark of a text, or null if this version knows no such mark: a newer one may use the same database. */
export function readMark(text: string): HoldMark | null {
  if (text.startsWith('hld_')) return { kind: 'hold', id: text };
  const [, kind, first = '', second = ''] = /^([a-z]+):([^/@]*)(?:[/@](.*))?$/.exec(text) ?? [];
  switch (kind) {
    case 'account':
      return { kind, accountId: first };
    case 'stream':
      return { kind, accountId: first, stream: second };
    case 'domain':
      return { kind, accountId: first, domain: second };
    case 'rule':
      return { kind, rule: first, until: Number(second) };
    case 'pool':
    case 'paused':
      return second === '' ? null : { kind, pool: first, site: second };
    default:
      return null;
  }
}

/** Returns whether a mark is that of a pool or a rule, of which only the node that delivers the mail knows. */
export function isOfEngine(text: string): boolean {
  const kind = readMark(text)?.kind;
  return kind === 'pool' || kind === 'paused' || kind === 'rule';
}

/** Returns whether the operator or the customer set the hold of this mark: such a hold stops the clock that leads to giving up. */
export function stopsClock(text: string): boolean {
  const kind = readMark(text)?.kind;
  return kind === 'hold' || kind === 'account' || kind === 'paused';
}
