/**
 * Numbers that JSON.parse changes: it keeps every number in a double, so 1234567890123456789 becomes 1234567890123456800 and
 * 1e400 becomes Infinity, without an error. In data that goes into a mail that would be a wrong order number, so it is refused.
 * The survey of a body (json.ts) looks at each number as it passes; only where one is changed is the text read again for its name.
 */
import { fieldName } from '../base/check.ts';
import { isKept, shownNumber } from '../base/kept-number.ts';
import { Problem } from '../base/problem.ts';

/** The first changed number of a request or, in a bulk send, of an entry. */
export interface RoundedNumber {
  /** Index of the entry of `recipients` it is in, or -1. */
  entry: number;
  field: string;
  /** The number as written in the request. */
  text: string;
}

/** Returns the Problem that refuses a request, or an entry, for a changed number. */
export function roundedProblem({ field, text }: RoundedNumber): Problem {
  const why = `\`${field}\` is the number ${shownNumber(text)}, which readers of JSON change to ${String(Number(text))}. Send it as a string.`;
  return new Problem('invalid_field', why, { field });
}

/** Returns the end (exclusive) of the number that begins at this digit. */
export function numberEnd(text: string, start: number): number {
  let at = start + 1;
  while (isOfNumber(text.charCodeAt(at))) at++;
  return at;
}

/** `0`-`9`, `+`, `-`, `.`, `E`, `e`. */
const isOfNumber = (char: number): boolean =>
  (char >= 0x30 && char <= 0x39) || char === 0x2e || char === 0x2b || char === 0x2d || (char | 0x20) === 0x65;

interface Level {
  /** Null in an object. */
  index: number | null;
  name: string;
  /** The next string is the name of a member. */
  expectsName: boolean;
}

/** Returns the changed numbers of a text that JSON.parse accepted. `closingQuote` returns the end of the string that opens there. */
export function roundedNumbers(text: string, closingQuote: (text: string, open: number) => number): RoundedNumber[] {
  const levels: Level[] = [];
  const found = new Map<number, RoundedNumber>();
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? '';
    const top = levels.at(-1);
    if (char === '"') {
      const end = closingQuote(text, at);
      if (top?.expectsName === true) top.name = JSON.parse(text.slice(at, end + 1)) as string;
      at = end;
    } else if (char === '{') levels.push({ index: null, name: '', expectsName: true });
    else if (char === '[') levels.push({ index: 0, name: '', expectsName: false });
    else if (char === '}' || char === ']') levels.pop();
    else if (char === ':' && top !== undefined) top.expectsName = false;
    else if (char === ',' && top !== undefined) {
      if (top.index === null) top.expectsName = true;
      else top.index++;
    } else if (char >= '0' && char <= '9') {
      const end = numberEnd(text, at);
      const entry = entryOf(levels);
      if (!found.has(entry) && !isKept(text, at, end))
        found.set(entry, { entry, field: fieldOf(levels), text: text.slice(at, end) });
      at = end - 1;
    }
  }
  return [...found.values()];
}

const entryOf = ([first, second]: readonly Level[]): number =>
  first?.name === 'recipients' ? (second?.index ?? -1) : -1;

const fieldOf = (levels: readonly Level[]): string =>
  fieldName(
    '',
    levels.map(({ index, name }) => index ?? name),
  ) ?? '';
