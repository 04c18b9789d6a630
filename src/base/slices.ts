/** Handles long lists in slices, so that the main loop is free for other work about every millisecond instead of after tens. */
import { systemClock } from './clock.ts';

/** Resolves in the next turn of the event loop: what came with the same input has been handled by then. For long work there is `nextSlice`. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Milliseconds after which no further slice begins in the same turn of the event loop. */
const TURN_MS = 1;

const waiting: (() => void)[] = [];
/** When the first slice of this turn of the loop began; null before that. */
let began: number | null = null;
let isMarked = false;

/**
 * Resolves in a later turn of the event loop, when a job may go on with a slice of about a millisecond. One turn has only as many slices as begin
 * within a millisecond, so that many jobs do not hold the loop together.
 */
export const nextSlice = (): Promise<void> =>
  new Promise((resolve) => {
    waiting.push(resolve);
    inNextTurn();
  });

/** Immediates of one turn run in the next in the same order, so that the mark comes before the slices. */
function inNextTurn(): void {
  if (!isMarked) {
    isMarked = true;
    setImmediate(() => {
      isMarked = false;
      began = null;
    });
  }
  setImmediate(beginSlice);
}

function beginSlice(): void {
  const now = systemClock.monotonic();
  began ??= now;
  if (now - began < TURN_MS) waiting.shift()?.();
  else inNextTurn();
}

/** Entries that are handled in one turn of the loop: records of the API take 5 to 15 us to make and as long to write. */
const SLICE = 100;

export async function mapInSlices<From, To>(items: readonly From[], one: (item: From) => To): Promise<To[]> {
  if (items.length <= SLICE) return items.map(one);
  const made: To[] = [];
  for (const slice of slicesOf(items)) {
    for (const item of slice) made.push(one(item));
    await nextSlice();
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
        await nextSlice();
      }
      open = '],';
    } else if (typeof value === 'object' && value !== null && !('toJSON' in value) && hasLongList(value)) {
      parts.push(Buffer.from(`${open}${JSON.stringify(name)}:`), await jsonInSlices(value));
      open = ',';
    } else {
      // A value that JSON cannot express, such as a function, is left out, as JSON.stringify does.
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
