/**
 * Detects a tag that opens with two braces and closes with three: in JSON or CSS the third one is text, elsewhere it is a
 * mistake.
 */
import { syntax, type Faulty } from './fault.ts';

/** Returns how many single braces are open after the text. */
export function openBraces(text: string, before: number): number {
  let open = before;
  if (!text.includes('{') && !text.includes('}')) return open;
  for (const char of text) {
    if (char === '{') open++;
    else if (char === '}' && open > 0) open--;
  }
  return open;
}

export const thirdBrace = (at: number): Faulty =>
  syntax("'{{' is closed by three braces: write '{{name}}', or '{{{name}}}' for a value that is not escaped", at);
