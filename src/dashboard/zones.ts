/** Hours of UTC put together to days of a time zone: a day begins when people get up, not when Greenwich does. Pure. */

/** The zone as the runtime knows it, or null for one that it does not. */
export function zoneNamed(name: string | null): string | null {
  if (name === null || name === '' || name.length > 64) return null;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return null;
  }
}

/** For each moment the day it lies in there, as the begin of that day in UTC. */
export function dayIn(zone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone: zone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
  });
  return (at) => Date.parse(`${format.format(at)}T00:00:00Z`);
}

export interface Counted {
  at: string;
  counts: Readonly<Record<string, number>>;
}

/** The days of the zone in order, each with the sum of its hours. */
export function daysOf<Line extends Counted>(hours: readonly Line[], zone: string): Line[] {
  const dayOf = dayIn(zone);
  const days = new Map<number, Line>();
  for (const hour of hours) {
    const day = dayOf(Date.parse(hour.at));
    const sum = days.get(day);
    const counts = Object.fromEntries(
      Object.entries(hour.counts).map(([name, n]) => [name, n + (sum?.counts[name] ?? 0)]),
    );
    days.set(day, { ...hour, at: new Date(day).toISOString(), counts });
  }
  return [...days.values()];
}
