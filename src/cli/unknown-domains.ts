/** Tells of domains that an act on a lane has left out. */
export const unknownDomains = ({ domains_unknown: count = 0 }: { domains_unknown?: number }): string[] =>
  count === 0
    ? []
    : [`domains of which DNS has not told where their mail goes are left out: ${String(count)}; try again later`];
