/** Writes paths and query strings for the API. */

export type Query = Readonly<Record<string, unknown>>;

/** Returns a path with its parts encoded. Throws a TypeError for a part that would change the path. */
export function at(words: TemplateStringsArray, ...parts: readonly (string | number)[]): string {
  return words.reduce((path, word, index) => `${path}${segment(parts[index - 1])}${word}`);
}

/** Encodes one part. An empty part would name the list instead of an entry; dots would be removed from the URL. */
function segment(part: string | number | undefined): string {
  if (typeof part === 'number' && Number.isSafeInteger(part)) return String(part);
  if (typeof part !== 'string' || part === '' || part === '.' || part === '..')
    throw new TypeError(`An id is needed, not ${JSON.stringify(part)}`);
  return encodeURIComponent(part);
}

/** Returns `?…`, or an empty text. Undefined and null members are left out. */
export function search(query: Query = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) => pairsOf(name, value));
  return pairs.length === 0 ? '' : `?${pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&')}`;
}

function pairsOf(name: string, value: unknown): [string, string][] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value.map((one) => [name, String(one)]);
  if (value instanceof Date) return [[name, value.toISOString()]];
  if (typeof value === 'object') return Object.entries(value).flatMap(([key, one]) => pairsOf(`${name}[${key}]`, one));
  return [[name, typeof value === 'string' ? value : JSON.stringify(value)]];
}
