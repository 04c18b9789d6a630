/** The member `unsubscribe` of a send: its check, its stored form, and the headers that it replaces. */
import { parseMailbox } from '../../mail/address.ts';
import { LONGEST_UNSUBSCRIBE_URL } from '../../mail/list-unsubscribe.ts';
import type { MessageRow } from '../../storage/tables.ts';
import type { HeaderPair } from './header-rule.ts';
import type { WireMessage } from './message-draft.ts';
import { Problem } from '../../base/problem.ts';
import { UNSUBSCRIBE_URL } from '../../templates/mixed/value.ts';

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
 * Checks the member. False means off, whatever the stream's default is. Throws `invalid_field`. One-click is on for the hosted page, which answers a
 * POST. Whether the sender's own page does is unknown, so there the sender must ask for it.
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

const PLACEHOLDER = /\{\{\{?\s*unsubscribe_url\s*\}?\}\}|%7B%7Bunsubscribe_url%7D%7D/gi;

/** The placeholders of other services, which would reach the recipient. */
const FOREIGN =
  /\{\{\{?\s*(?:RESEND_UNSUBSCRIBE_URL|pm:unsubscribe(?:_url)?)\s*\}?\}\}|%(?:tag_|mailing_list_)?unsubscribe_url%|<%asm_(?:group_unsubscribe|global_unsubscribe|preferences)_raw_url%>|\*\|UNSUB(?::[^|]{0,200})?\|\*/i;

/** Each makes the mail longer than what was checked. */
const MOST_LINKS = 20;

/** Returns whether a text may have a placeholder: what comes next looks at every character. */
const mayHave = (text: string): boolean => /unsub|<%asm_/i.test(text);

/** Throws `invalid_field` where a body has the placeholder of another service. */
export function refuseForeignLink(text: string, field: string): void {
  const found = mayHave(text) ? FOREIGN.exec(text)?.[0] : undefined;
  if (found === undefined) return;
  const why = `has \`${found}\`, the placeholder of another service: write \`${UNSUBSCRIBE_URL}\` in its place`;
  throw new Problem('invalid_field', `\`${field}\` ${why}.`, { field });
}

/** Returns whether a body has the link. Throws `invalid_field` for one that another service fills in, and for too many. */
export function hasUnsubscribeLink(text: string | null, field: string): boolean {
  if (text === null || !mayHave(text)) return false;
  refuseForeignLink(text, field);
  const count = text.match(PLACEHOLDER)?.length ?? 0;
  if (count > MOST_LINKS)
    throw new Problem('invalid_field', `\`${field}\` has more than ${String(MOST_LINKS)} unsubscribe links.`, {
      field,
    });
  return count > 0;
}

/** Throws `invalid_field` where the link is in a text that all recipients share, such as the subject. */
export function refuseLinkIn(text: string, field: string): void {
  if (!text.includes(UNSUBSCRIBE_URL)) return;
  throw new Problem(
    'invalid_field',
    `\`${field}\` cannot have \`${UNSUBSCRIBE_URL}\`: only \`html\` and \`text\` can.`,
    {
      field,
    },
  );
}

/** Returns a copy of a body with this address, which needs no quoting in html unless the sender gave it. */
export const withUnsubscribeUrl = (text: string, url: string, isHtml: boolean): string =>
  text.replaceAll(PLACEHOLDER, (found) =>
    found.startsWith('%')
      ? encodeURIComponent(url)
      : isHtml
        ? url.replaceAll('&', '&amp;').replaceAll('"', '&quot;')
        : url,
  );
