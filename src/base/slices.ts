/** Handles long lists in slices, so that the main loop is free for other work about every millisecond instead of after tens. */

/** Resolves when everything that was ready before has had its turn. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Entries that are handled in one turn of the loop: records of the API take 5 to 15 us to make and as long to write. */
const SLICE = 100;

export async function mapInSlices<From, To>(items: readonly From[], one: (item: From) => To): Promise<To[]> {
  if (items.length <= SLICE) return items.map(one);
  const made: To[] = [];
  for (const slice of slicesOf(items)) {
    for (const item of slice) made.push(one(item));
    await yieldToEventLoop();
  }
  return made;
}

/** Returns whether the record holds a list that is worth slices. */
export const hasLongList = (record: object): boolean => !Array.isArray(record) && Object.values(record).some(isLong);

/** Returns the bytes of `JSON.stringify` for a plain record. Long lists among its members, or those of a record in it, are written in slices. */
export async function jsonInSlices(record: object): Promise<Buffer> {
  const parts: Buffer[] = [];
  let open = '{';
  for (const [name, value] of Object.entries(record) as [string, unknown][]) {
    if (isLong(value)) {
      open += `${JSON.stringify(name)}:[`;
      for (const slice of slicesOf(value)) {
        parts.push(Buffer.from(open + JSON.stringify(slice).slice(1, -1)));
        open = ',';
        await yieldToEventLoop();
      }
      open = '],';
    } else if (typeof value === 'object' && value !== null && !('toJSON' in value) && hasLongList(value)) {
      parts.push(Buffer.from(`${open}${JSON.stringify(name)}:`), await jsonInSlices(value));
      open = ',';
    } else {
      // Functions, and what has no JSON by itself, are left out.
      const text = JSON.stringify(value) as string | undefined;
      if (text !== undefined) open += `${JSON.stringify(name)}:${text},`;
    }
  }
  parts.push(Buffer.from(`${open.replace(/,$/, '')}}`));
  return Buffer.concat(parts);
}

const isLong = (value: unknown): value is unknown[] =>
  Array.isArray(value) && value.length > SLICE && !('toJSON' in value);

function* slicesOf<Item>(items: readonly Item[]): Generator<Item[]> {
  for (let from = 0; from < items.length; from += SLICE) yield items.slice(from, from + SLICE);
}
