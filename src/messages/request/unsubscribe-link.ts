/** The unsubscribe link in a body: a placeholder, which each recipient's copy has the address for. Pure. */
import { Problem } from '../../base/problem.ts';
import { UNSUBSCRIBE_URL } from '../../templates/mixed/value.ts';

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
