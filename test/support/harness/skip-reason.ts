/** The reason of a skipped test is carried in its title, since a parallel process of mocha passes nothing else on. */
const MARK = ' [skipped: ';

export const titleWithReason = (title: string, reason: string): string =>
  title.includes(MARK) ? title : `${title}${MARK}${reason}]`;

/** Returns the reason in a title, or null if the test was skipped by other means (`it.skip`). */
export const reasonIn = (title: string): string | null => {
  const at = title.lastIndexOf(MARK);
  return at === -1 ? null : title.slice(at + MARK.length, -1);
};
