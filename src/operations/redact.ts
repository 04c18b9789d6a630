/**
 * Writes the body of a request for the request log: what a developer needs in order to see why a call was refused, without contents,
 * files, secrets and the values of template variables, and of a bounded size. Pure.
 */

/** The most characters of what is kept of one body. */
const LONGEST_BODY = 4096;
const LONGEST_TEXT = 200;
const MOST_ITEMS = 10;
const MOST_MEMBERS = 100;
const DEEPEST = 6;

/** Members whose value is the content of a mail, a file or a template. */
const contents: ReadonlySet<string> = new Set(['html', 'text', 'content', 'raw', 'amp']);
const secrets = /secret|password|passphrase|token|authori[sz]ation|cookie|private|(?:^|_)key$/i;
/** Members whose values are the sender's own and may be secrets, such as the link that resets a password. */
const values: ReadonlySet<string> = new Set(['variables', 'headers', 'metadata']);

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
    if (typeof value === 'string' && contents.has(name)) return countOf(value);
    return kept(value, depth + 1, isHidden || values.has(name));
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

const shortened = (text: string): string =>
  (text.length <= LONGEST_TEXT ? text : `${text.slice(0, LONGEST_TEXT)}… ${countOf(text)}`).toWellFormed();

/** Returns the characters that a value adds to the text; the members of an object have been counted one by one. */
const sizeOf = (value: unknown): number => (typeof value === 'string' ? value.length : 8);
