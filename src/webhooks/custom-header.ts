/** Headers that a customer may add to the calls of an endpoint: a token for a gateway, say. Pure. */
import { Problem } from '../base/problem.ts';

export const MOST_HEADERS = 10;
const LONGEST_VALUE = 1000;
/** RFC 9110 section 5.6.2. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;
/** Visible ASCII with spaces and tabs inside (RFC 9110 section 5.5); what is beyond is read differently by different servers. */
const fieldValue = /^[!-~](?:[\t -~]*[!-~])?$/;

/** Headers that we set, or that decide where a message ends. */
const reserved =
  /^(?:host|connection|content-.*|webhook-.*|user-agent|transfer-encoding|te|trailer|upgrade|expect|keep-alive|proxy-.*|date|cookie2?)$/i;

/** Returns the headers in the order given. Throws `invalid_header` and `header_not_allowed` with the field `headers.<name>`. */
export function checkCustomHeaders(headers: Readonly<Record<string, string>>): [name: string, value: string][] {
  const entries = Object.entries(headers);
  if (entries.length > MOST_HEADERS)
    throw new Problem('too_many_items', `An endpoint has at most ${String(MOST_HEADERS)} headers.`, {
      field: 'headers',
    });
  const seen = new Set<string>();
  for (const [name, value] of entries) {
    const field = `headers.${name.slice(0, 100)}`;
    if (!token.test(name))
      throw new Problem('invalid_header', 'The name of a header is 1 to 100 letters, digits and -.', { field });
    if (reserved.test(name))
      throw new Problem('header_not_allowed', `The header ${name} is set by the service. Leave it out.`, { field });
    if (seen.has(name.toLowerCase()))
      throw new Problem('invalid_header', `The header ${name} is given twice. Leave one of them out.`, { field });
    seen.add(name.toLowerCase());
    if (value.length > LONGEST_VALUE || !fieldValue.test(value))
      throw new Problem('invalid_header', `The value is 1 to ${String(LONGEST_VALUE)} visible ASCII characters.`, {
        field,
      });
  }
  return entries;
}
