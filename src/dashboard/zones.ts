/** Sums hours of UTC into days of a time zone. Pure. */

/** Returns the canonical name of the zone, or null for one that the runtime does not know. */
export function zoneNamed(name: string | null): string | null {
  if (name === null || name === '' || name.length > 64) return null;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return null;
  }
}

/** Returns a function from a moment to its day in the zone, as midnight UTC of that date. */
export function dayIn(zone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone: zone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
  });
  return (at) => Date.parse(`${format.format(at)}T00:00:00Z`);
}

/** Returns the days of the zone in order, each with the sums of its hours. */
export function daysOf<Line extends { at: string; counts: object }>(hours: readonly Line[], zone: string): Line[] {
  const dayOf = dayIn(zone);
  const days = new Map<number, Line>();
  for (const hour of hours) {
    const day = dayOf(Date.parse(hour.at));
    const sum: Readonly<Record<string, number>> = { ...days.get(day)?.counts };
    const counts = Object.fromEntries(
      Object.entries<number>({ ...hour.counts }).map(([name, n]) => [name, n + (sum[name] ?? 0)]),
    );
    days.set(day, { ...hour, at: new Date(day).toISOString(), counts });
  }
  return [...days.values()];
}
