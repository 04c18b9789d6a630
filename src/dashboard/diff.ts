/** What changed between two texts, line by line: the longest common subsequence of their lines. Pure. */

export interface DiffLine {
  mark: ' ' | '+' | '-';
  text: string;
}

/** The table below has the product of both lengths; beyond this the texts are shown as two. */
const MOST_LINES = 500;

export function diffLines(before: string, after: string): DiffLine[] {
  const a = linesOf(before);
  const b = linesOf(after);
  if (a.length > MOST_LINES || b.length > MOST_LINES) return [...a.map(removed), ...b.map(added)];
  const common = commonLengths(a, b);
  const found: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    const [x = '', y = ''] = [a[i], b[j]];
    if (x === y) {
      found.push({ mark: ' ', text: x });
      i++;
      j++;
    } else if ((common[i + 1]?.[j] ?? 0) >= (common[i]?.[j + 1] ?? 0)) {
      found.push(removed(x));
      i++;
    } else {
      found.push(added(y));
      j++;
    }
  }
  return [...found, ...a.slice(i).map(removed), ...b.slice(j).map(added)];
}

const removed = (text: string): DiffLine => ({ mark: '-', text });
const added = (text: string): DiffLine => ({ mark: '+', text });
const linesOf = (text: string): string[] => (text === '' ? [] : text.split(/\r?\n/));

/** `[i][j]`: length of the longest common subsequence of what follows line i of `a` and line j of `b`. */
function commonLengths(a: readonly string[], b: readonly string[]): number[][] {
  const table = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    const [row = [], next = []] = [table[i], table[i + 1]];
    for (let j = b.length - 1; j >= 0; j--)
      row[j] = a[i] === b[j] ? 1 + (next[j + 1] ?? 0) : Math.max(next[j] ?? 0, row[j + 1] ?? 0);
  }
  return table;
}
