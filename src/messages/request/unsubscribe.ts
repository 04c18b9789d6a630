/** The member `unsubscribe` of a send: its check, its stored form, and the headers that it replaces. */
import { Problem } from '../../base/problem.ts';
import { parseMailbox } from '../../mail/address.ts';
import { LONGEST_UNSUBSCRIBE_URL } from '../../mail/list-unsubscribe.ts';
import type { MessageRow } from '../../storage/tables.ts';
import type { HeaderPair } from './header-rule.ts';
import type { WireMessage } from './send-parts.ts';

/** The ways to unsubscribe; null stands for the hosted one. */
export interface Unsubscribe {
  url: string | null;
  mailto: string | null;
  oneClick: boolean;
  /** The body has the link, too. */
  inBody?: true;
}

/** The hosted page and the hosted address. */
export const hostedUnsubscribe: Unsubscribe = { url: null, mailto: null, oneClick: true };

/**
 * Checks the member. False means off, whatever the stream's default is. Throws `invalid_field`.
 *
 * One-click is on for the hosted page, which answers a POST. Whether the sender's own page does is unknown, so there the sender
 * must ask for it.
 */
export function checkUnsubscribe(wire: NonNullable<WireMessage['unsubscribe']>, field: string): Unsubscribe | false {
  if (typeof wire === 'boolean') return wire ? hostedUnsubscribe : false;
  const url = wire.url == null ? null : checkUrl(wire.url, `${field}.url`);
  const mailto = wire.mailto == null ? null : checkMailto(wire.mailto, `${field}.mailto`);
  const oneClick = wire.one_click ?? url === null;
  if (oneClick && url !== null && !url.startsWith('https://'))
    throw invalid(`${field}.one_click`, 'needs a `url` with https (RFC 8058)');
  return { url, mailto, oneClick };
}

/** Returns what a mail with the link in its body asks for: by default the hosted page. Throws `invalid_field` where it asks for none. */
export function withLinkInBody(unsubscribe: Unsubscribe | false | null, field: string): Unsubscribe {
  if (unsubscribe === false)
    throw invalid(field, 'is false, and the body has `{{unsubscribe_url}}`: leave one of them out');
  return { ...(unsubscribe ?? hostedUnsubscribe), inBody: true };
}

function checkUrl(text: string, field: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw invalid(field, 'must be an absolute http or https URL');
  if (url.href.length > LONGEST_UNSUBSCRIBE_URL)
    throw invalid(field, `must have at most ${String(LONGEST_UNSUBSCRIBE_URL)} characters`);
  return url.href;
}

const QUERY = /^[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]{0,500}$/;

/** Checks an address, with or without `mailto:` before and a query such as `?subject=stop` after it. */
function checkMailto(text: string, field: string): string {
  const bare = text.replace(/^mailto:/i, '');
  const question = bare.indexOf('?');
  const parsed = parseMailbox(question < 0 ? bare : bare.slice(0, question));
  const query = question < 0 ? '' : bare.slice(question);
  // Characters that a URI would have to escape are refused (RFC 6068 section 2).
  if (parsed.kind === 'bad' || parsed.mailbox.name !== null || !/^[\w.+~=-]+@/.test(parsed.mailbox.address))
    throw invalid(field, 'must be a plain mail address');
  if (!QUERY.test(query)) throw invalid(field, 'has a query with characters that must be percent-encoded');
  return parsed.mailbox.address + query;
}

const invalid = (field: string, why: string): Problem =>
  new Problem('invalid_field', `\`${field}\` ${why}.`, { field });

/** Refuses headers that this member sets. Throws `header_not_allowed`. */
export function refuseListHeaders(headers: readonly HeaderPair[], prefix = ''): void {
  const own = headers.find(([name]) => /^list-unsubscribe/i.test(name));
  if (own === undefined) return;
  const field = `${prefix}headers.${own[0]}`;
  const why = 'is set by the service while `unsubscribe` is on: set that to false to write the header yourself';
  throw new Problem('header_not_allowed', `\`${field}\` ${why}.`, { field });
}

/** Returns the value of the column messages.unsubscribe_json. */
export const unsubscribeJson = (unsubscribe: Unsubscribe | null): string | null =>
  unsubscribe === null ? null : JSON.stringify(unsubscribe);

export function storedUnsubscribe({
  unsubscribe_json: json,
}: Pick<MessageRow, 'unsubscribe_json'>): Unsubscribe | null {
  return json === null ? null : (JSON.parse(json) as Unsubscribe);
}
