/** Returns a count with its noun: `1 domain`, `2,400 domains`; `several` is the noun's plural if it is not made with an s. */
export const pluralize = (n: number, noun: string, several = `${noun}s`): string =>
  `${n.toLocaleString('en-US')} ${n === 1 ? noun : several}`;

/** Returns `1 delivery is`, `2 deliveries are`. */
export const deliveriesAre = (n: number): string =>
  `${pluralize(n, 'delivery', 'deliveries')} ${n === 1 ? 'is' : 'are'}`;

/** Returns the words for a number of a limit, such as `1 connection`, or `500 mails an hour` for 500 of `per_hour` or `mails_per_hour`. */
export const limitWords = (what: string, n: number): string => {
  const [, span = 'minute'] = what.split('per_');
  return what === 'connections'
    ? pluralize(n, 'connection')
    : `${pluralize(n, 'mail')} ${span === 'hour' ? 'an' : 'a'} ${span}`;
};

export const limitNumbers = ['connections', 'per_minute', 'per_hour', 'per_day'] as const;

/** Returns the words for the numbers of a limit that a person has set. */
export const numbersOf = (limit: Readonly<Record<(typeof limitNumbers)[number], number | null>>): string[] =>
  limitNumbers.flatMap((what) => (limit[what] === null ? [] : limitWords(what, limit[what])));
