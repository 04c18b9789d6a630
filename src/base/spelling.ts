/** Guesses the name that was meant by a mistyped one: "did you mean `reply_to`?". */

/** Longest name that is compared, in characters. It bounds the work a caller can ask for. */
const LONGEST_GUESSED = 40;

/** Returns the name among `known` that `given` was most likely meant to be, or null if none is near. */
export function nearest(given: string, known: readonly string[]): string | null {
  if (given.length === 0 || given.length > LONGEST_GUESSED) return null;
  const plain = plainly(given);
  let best: string | null = null;
  let bestDistance = Math.min(2, Math.floor(given.length / 3)) + 1;
  for (const name of known) {
    const distance = editDistance(plain, plainly(name));
    if (distance >= bestDistance) continue;
    best = name;
    bestDistance = distance;
  }
  return best;
}

/** Removes differences of style: `replyTo`, `reply-to` and `Reply_To` are one name. */
const plainly = (name: string): string => name.toLowerCase().replaceAll(/[-_ ]/g, '');

/** Counts the insertions, deletions, replacements and swaps of neighbours that lead from `a` to `b` (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const replaced = at(row, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(at(row, j) + 1, at(next, j - 1) + 1, replaced, swapped ? at(before, j - 2) + 1 : Infinity));
    }
    before = row;
    row = next;
  }
  return at(row, b.length);
}

const at = (row: readonly number[], index: number): number => row[index] ?? Infinity;
