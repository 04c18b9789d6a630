/**
 * Writes the body of a request for the request log: what a developer needs in order to see why a call was refused, without contents,
 * files, secrets, the values of variables and those of members that we do not know, and of a bounded size. Pure.
 */

/** The most characters of what is kept of one body. */
const LONGEST_BODY = 4096;
const LONGEST_TEXT = 200;
const MOST_ITEMS = 10;
const MOST_MEMBERS = 100;
const DEEPEST = 6;

/**
 * Members whose values are kept: what they say is what was asked for. The value of any other is hidden, such as html, text, the content of a file
 * and variables, in which may be the link that resets a password. So is that of a member that we do not know, which is what many requests are
 * refused for: one that is written for another service has its contents under the names of that service.
 */
const shown: ReadonlySet<string> = new Set(
  [
    'from to cc bcc reply_to subject auto_text template_id template_version strict_variables locale timezone',
    'attachments filename content_type content_id disposition tags send_at expires_at track_opens track_clicks',
    'stream unsubscribe url mailto one_click on_suppressed test outcome on_error allow_duplicates recipients',
    'alias name type required publish preview mark_missing events description streams domains include_machine_events',
    'include_engagement concurrency enabled since until only types email emails reason note return_path scopes',
    'mode allowed_ips ttl replaces revoke_after slug pool priority paused retention content_days messages_days',
    'events_days receiving receiving_addresses addresses',
  ].flatMap((names) => names.split(' ')),
);
/** Names of members whose value is not kept, and its length neither. */
const secrets = /secret|password|passphrase|token|authori[sz]ation|cookie|private|(?:^|_)key$/i;

/** Returns the JSON text of the body as it may be kept. Takes time in proportion to the part that is kept. */
export function redactedBody(body: object): string {
  let left = LONGEST_BODY;
  const spend = (length: number): boolean => (left -= length + 4) > 0;

  function kept(value: unknown, depth: number, isHidden: boolean): unknown {
    if (typeof value === 'string') return isHidden ? countOf(value) : shortened(value);
    if (typeof value !== 'object' || value === null) return isHidden && value !== null ? '(hidden)' : value;
    if (depth >= DEEPEST) return '(not kept)';
    if (Array.isArray(value)) return itemsOf(value, depth, isHidden);
    const record: Record<string, unknown> = {};
    const names = Object.keys(value);
    for (const name of names.slice(0, MOST_MEMBERS)) {
      const one = memberOf(name, (value as Record<string, unknown>)[name], depth, isHidden);
      if (!spend(name.length + sizeOf(one))) return { ...record, '(cut)': 'the rest is not kept' };
      record[name.slice(0, LONGEST_TEXT)] = one;
    }
    return names.length > MOST_MEMBERS ? { ...record, '(cut)': `${String(names.length - MOST_MEMBERS)} more` } : record;
  }

  function memberOf(name: string, value: unknown, depth: number, isHidden: boolean): unknown {
    if (value !== null && secrets.test(name)) return '(hidden)';
    return kept(value, depth + 1, isHidden || !shown.has(name));
  }

  function itemsOf(items: readonly unknown[], depth: number, isHidden: boolean): unknown[] {
    const some: unknown[] = [];
    for (const item of items.slice(0, MOST_ITEMS)) {
      const one = kept(item, depth + 1, isHidden);
      if (!spend(sizeOf(one))) return [...some, '(the rest is not kept)'];
      some.push(one);
    }
    return items.length > MOST_ITEMS ? [...some, `(${String(items.length - MOST_ITEMS)} more)`] : some;
  }

  return JSON.stringify(kept(body, 0, false));
}

const countOf = (text: string): string => `(${String(text.length)} characters)`;

/** The user and the password of an address such as that of a webhook, which is refused for having them. */
const userInfo = /(:\/\/)[^/?#\s]*@/g;

function shortened(text: string): string {
  const clean = text.slice(0, LONGEST_BODY).replace(userInfo, '$1(hidden)@');
  const isWhole = text.length <= LONGEST_BODY && clean.length <= LONGEST_TEXT;
  return (isWhole ? clean : `${clean.slice(0, LONGEST_TEXT)}… ${countOf(text)}`).toWellFormed();
}

/** Returns the characters that a value adds to the text; the members of an object have been counted one by one. */
const sizeOf = (value: unknown): number => (typeof value === 'string' ? value.length : 8);
