/** Returns a count with its noun: `1 domain`, `2,400 domains`; `several` is the noun's plural if it is not made with an s. */
export const pluralize = (n: number, noun: string, several = `${noun}s`): string =>
  `${n.toLocaleString('en-US')} ${n === 1 ? noun : several}`;

/** Returns `1 delivery is`, `2 deliveries are`. */
export const deliveriesAre = (n: number): string =>
  `${pluralize(n, 'delivery', 'deliveries')} ${n === 1 ? 'is' : 'are'}`;
