/** Compares two versions of a text for people. */
import { diffArrays } from 'diff';

/** With more changed lines a comparison would take long: the two texts are then shown one after the other. */
const MOST_CHANGES = 1000;

interface ComparedLine {
  mark: ' ' | '+' | '-';
  kind: '' | 'plus' | 'minus';
  text: string;
}

export function compareLines(before: string, after: string): ComparedLine[] {
  const [removed, added] = [splitLines(before), splitLines(after)];
  const changes = diffArrays(removed, added, { maxEditLength: MOST_CHANGES }) ?? [
    { value: removed, removed: true, added: false },
    { value: added, removed: false, added: true },
  ];
  return changes.flatMap((change) =>
    change.value.map((text): ComparedLine => {
      if (change.added) return { mark: '+', kind: 'plus', text };
      return change.removed ? { mark: '-', kind: 'minus', text } : { mark: ' ', kind: '', text };
    }),
  );
}

const splitLines = (text: string): string[] => (text === '' ? [] : text.split(/\r?\n/));
