/** The member `unsubscribe` of a send: what is asked for, what is stored, and which headers it takes the place of. */
import { Problem } from '../../base/problem.ts';
import { parseMailbox } from '../../mail/address.ts';
import { LONGEST_UNSUBSCRIBE_URL } from '../../mail/list-unsubscribe.ts';
import type { MessageRow } from '../../storage/tables.ts';
import type { HeaderPair } from './header-rule.ts';

/** How the recipient can unsubscribe; a null is the hosted way. */
export interface Unsubscribe {
  url: string | null;
  mailto: string | null;
  oneClick: boolean;
}

/** As it stands in a request. */
export type WireUnsubscribe =
  | boolean
  | { url?: string | null | undefined; mailto?: string | null | undefined; one_click?: boolean | null | undefined };

/** All of it hosted here. */
export const hostedUnsubscribe: Unsubscribe = { url: null, mailto: null, oneClick: true };

/**
 * Checks the member. False is: off, whatever the stream's default. Throws `invalid_field`.
 *
 * One-click is on for the hosted page, which answers a POST. Of the sender's own page we cannot know that, so there he has
 * to ask for it.
 */
export function checkUnsubscribe(wire: WireUnsubscribe, field: string): Unsubscribe | false {
  if (typeof wire === 'boolean') return wire ? hostedUnsubscribe : false;
  const url = wire.url == null ? null : checkUrl(wire.url, `${field}.url`);
  const mailto = wire.mailto == null ? null : checkMailto(wire.mailto, `${field}.mailto`);
  const oneClick = wire.one_click ?? url === null;
  if (oneClick && url !== null && !url.startsWith('https://'))
    throw bad(`${field}.one_click`, 'needs a `url` with https (RFC 8058)');
  return { url, mailto, oneClick };
}

function checkUrl(text: string, field: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw bad(field, 'must be an absolute http or https URL');
  if (url.href.length > LONGEST_UNSUBSCRIBE_URL)
    throw bad(field, `must have at most ${String(LONGEST_UNSUBSCRIBE_URL)} characters`);
  return url.href;
}

const QUERY = /^[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]{0,500}$/;

/** An address, with or without `mailto:` in front and a query such as `?subject=stop` behind. */
function checkMailto(text: string, field: string): string {
  const bare = text.replace(/^mailto:/i, '');
  const question = bare.indexOf('?');
  const parsed = parseMailbox(question < 0 ? bare : bare.slice(0, question));
  const query = question < 0 ? '' : bare.slice(question);
  // What a URI writes with an escape would have to be escaped here too (RFC 6068 section 2).
  if (parsed.kind === 'bad' || parsed.mailbox.name !== null || !/^[\w.+~=-]+@/.test(parsed.mailbox.address))
    throw bad(field, 'must be a plain mail address');
  if (!QUERY.test(query)) throw bad(field, 'has a query with characters that must be percent-encoded');
  return parsed.mailbox.address + query;
}

const bad = (field: string, why: string): Problem => new Problem('invalid_field', `\`${field}\` ${why}.`, { field });

/** Refuses headers that the member writes. Throws `header_not_allowed`. */
export function refuseListHeaders(headers: readonly HeaderPair[], prefix = ''): void {
  const own = headers.find(([name]) => /^list-unsubscribe(?:-post)?$/i.test(name));
  if (own === undefined) return;
  const field = `${prefix}headers.${own[0]}`;
  const why = 'is set by the service while `unsubscribe` is on: set that to false to write the header yourself';
  throw new Problem('header_not_allowed', `\`${field}\` ${why}.`, { field });
}

/** For messages.unsubscribe_json. */
export const unsubscribeJson = (wish: Unsubscribe | null): string | null =>
  wish === null ? null : JSON.stringify(wish);

export function storedUnsubscribe({
  unsubscribe_json: json,
}: Pick<MessageRow, 'unsubscribe_json'>): Unsubscribe | null {
  return json === null ? null : (JSON.parse(json) as Unsubscribe);
}
