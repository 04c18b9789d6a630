/**
 * The mark that held mail carries in `deliveries.held_by`: the text that names its hold. It is written and read here only, so
 * that each place which depends on the kind of a hold is a switch that the compiler checks.
 */

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
  /** `domain:<account id>/<domain>`, a sending domain that is not verified. Earlier versions wrote `domain:<domain>`. */
  | { kind: 'domain'; accountId: string | null; domain: string }
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
      return `domain:${mark.accountId === null ? '' : `${mark.accountId}/`}${mark.domain}`;
    case 'pool':
    case 'paused':
      return `${mark.kind}:${mark.pool}@${mark.site}`;
  }
}

/** Returns the mark of a text, or null if this version knows no such mark: a newer one may use the same database. */
export function readMark(text: string): HoldMark | null {
  if (text.startsWith('hld_')) return { kind: 'hold', id: text };
  const [, kind, rest = ''] = /^([a-z]+):(.*)$/.exec(text) ?? [];
  switch (kind) {
    case 'account':
      return { kind, accountId: rest };
    case 'stream': {
      const [accountId, stream] = splitAtSlash(rest);
      return { kind, accountId, stream };
    }
    case 'domain': {
      const [accountId, domain] = splitAtSlash(rest);
      return domain === '' ? { kind, accountId: null, domain: accountId } : { kind, accountId, domain };
    }
    case 'pool':
    case 'paused': {
      // A host name has no space; an earlier version wrote a recipient domain behind one.
      const [, pool, site] = /^([^@]*)@([^ ]*)$/.exec(rest) ?? [];
      return pool === undefined || site === undefined ? null : { kind, pool, site };
    }
    default:
      return null;
  }
}

/** Returns whether a mark is that of a pool, whose sources only the node that delivers the mail knows. */
export function isOfPool(text: string): boolean {
  const mark = readMark(text);
  switch (mark?.kind) {
    case 'pool':
    case 'paused':
      return true;
    case 'hold':
    case 'account':
    case 'stream':
    case 'domain':
    case undefined:
      return false;
  }
}

/** Returns whether the operator or the customer set the hold of this mark: such a hold stops the clock that leads to giving up. */
export function stopsClock(text: string): boolean {
  const mark = readMark(text);
  switch (mark?.kind) {
    case 'hold':
    case 'account':
    case 'paused':
      return true;
    case 'stream':
    case 'domain':
    case 'pool':
    case undefined:
      return false;
  }
}

/** Returns the text before and behind the first slash; the second is empty if there is none. */
function splitAtSlash(text: string): [string, string] {
  const at = text.indexOf('/');
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
