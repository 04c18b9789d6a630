/** The header fields to end a mailing: RFC 2369 section 3.2, RFC 8058 section 3. An address in angle brackets may not be encoded. */

export interface ListUnsubscribe {
  /** Absolute, of printable ASCII without spaces and angle brackets. */
  url: string | null;
  /** `unsub@example.test` or `unsub@example.test?subject=...`, of the same characters. */
  mailto: string | null;
  /** True if a POST to the URL unsubscribes at once; it must be https then (RFC 8058 section 3.1). */
  oneClick: boolean;
}

/** So long an address and its field name are within the 998 characters of a line (RFC 5322 section 2.1.1). */
export const LONGEST_UNSUBSCRIBE_URL = 970;

const WRITABLE = /^[!-;=?-~]+$/;

/** Returns the lines, each ended by CRLF; nothing if there is no address. Throws for an address that cannot be written there. */
export function unsubscribeHeaders({ url, mailto, oneClick }: ListUnsubscribe): string {
  const addresses = [url, mailto === null ? null : `mailto:${mailto}`].filter((address) => address !== null);
  if (addresses.length === 0) return '';
  for (const address of addresses) {
    if (!WRITABLE.test(address) || address.length > LONGEST_UNSUBSCRIBE_URL)
      throw new Error('not an address of a list');
  }
  const list = `List-Unsubscribe: ${addresses.map((address) => `<${address}>`).join(',\r\n ')}\r\n`;
  const isPosted = oneClick && url?.startsWith('https://') === true;
  return isPosted ? `${list}List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n` : list;
}

/** Returns the web addresses in the value of a List-Unsubscribe field. */
export const unsubscribeUrlsIn = (value: string): string[] =>
  [...value.matchAll(/<(https?:[^<>]{1,1000})>/gi)].flatMap(([, url = '']) =>
    URL.canParse(url) ? [new URL(url).href] : [],
  );
