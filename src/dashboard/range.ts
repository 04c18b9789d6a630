/** The time range of a page: a preset or from and to, in a time zone that is named; all of it is in the address. Pure. */
import { rfc3339 } from '../base/rfc3339.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';
import { beginOfDay, momentIn, wallClock, zoneNamed } from '../base/zones.ts';
import type { Visit } from './page.ts';

/** The presets and their lengths; null for all time. Those of days begin with a day: the last 7 days are today and the 6 before. */
const presets = {
  '1h': ['last hour', HOUR_MS],
  today: ['today', DAY_MS],
  '24h': ['last 24 hours', DAY_MS],
  '7d': ['last 7 days', 7 * DAY_MS],
  '30d': ['last 30 days', 30 * DAY_MS],
  all: ['all', null],
} as const;

export type Preset = keyof typeof presets;

const isPreset = (name: string): name is Preset => Object.hasOwn(presets, name);

export type Range = ReturnType<typeof rangeOf>;

/**
 * Reads `?range=`, and for `custom` `?from=` and `?to=` in the zone of `?tz=`; `?since=` keeps a preset's beginning while a list is paged. `offered`
 * are the page's presets. `since` and `until` are for the API, half-open, null for no limit; `length` is in ms; `from` and `to` are the fields of a custom range;
 * `fault` is a sentence.
 */
export function rangeOf(
  { query, now, zone: own }: Pick<Visit, 'query' | 'now' | 'zone'>,
  usual: Preset,
  offered: readonly Preset[] = ['1h', 'today', '24h', '7d', '30d', 'all'],
) {
  const tz = query.get('tz') ?? '';
  const zone = zoneNamed(tz) ?? own;
  const asked = query.get('range') ?? usual;
  const value = asked === 'custom' || (isPreset(asked) && offered.includes(asked)) ? asked : usual;
  const times = value === 'custom' ? customTimes(query, zone) : presetTimes(value, query, { now, zone });
  const { since, until, label, fault } = times;
  const local = (ms: number | null): string => (ms === null ? '' : wallClock(ms, zone).slice(0, 16).replace(' ', 'T'));
  const isCustom = value === 'custom';
  return {
    since: rfc3339(since),
    until: rfc3339(until),
    length: value !== 'custom' ? presets[value][1] : since === null ? null : (until ?? now) - since,
    value,
    label: label.replace(/^./, (first) => first.toUpperCase()),
    isCustom,
    choices: [...offered.map((name) => [name, presets[name][0]] as const), ['custom', 'from … to …'] as const].map(
      ([name, text]): { value: string; label: string; on: boolean } => ({
        value: name,
        label: text,
        on: name === value,
      }),
    ),
    zone,
    from: isCustom ? local(since) : '',
    to: isCustom ? local(until) : '',
    fault:
      tz !== '' && zoneNamed(tz) === null
        ? `There is no time zone “${tz.slice(0, 64)}”, so times are in ${zone}.`
        : fault,
  };
}

/** Bounds in milliseconds. */
interface Times {
  since: number | null;
  until: number | null;
  label: string;
  fault: string | null;
}

function presetTimes(name: Preset, query: URLSearchParams, { now, zone }: { now: number; zone: string }): Times {
  const [label, ms] = presets[name];
  const kept = Date.parse(query.get('since') ?? '');
  const begin = name.endsWith('h') || ms === null ? now - (ms ?? 0) : beginOfDay(now - ms + DAY_MS, zone);
  const since = ms === null ? null : Number.isFinite(kept) ? kept : begin;
  return { since, until: null, label, fault: null };
}

function customTimes(query: URLSearchParams, zone: string): Times {
  const read = (name: string): number | null | undefined => {
    const text = (query.get(name) ?? '').trim();
    return text === '' ? null : (momentIn(text, zone) ?? undefined);
  };
  const [from, to] = [read('from'), read('to')];
  const isWrong = from === undefined || to === undefined || (from !== null && to !== null && from >= to);
  if (isWrong) {
    const fault = 'From and to are two dates, the first one before the second, so all times are shown.';
    return { since: null, until: null, label: 'all', fault };
  }
  const [since, until] = [from, to];
  const text = (ms: number): string => wallClock(ms, zone).slice(0, 16);
  const parts = [...(since === null ? [] : [`from ${text(since)}`]), ...(until === null ? [] : [`to ${text(until)}`])];
  return { since, until, label: parts.length === 0 ? 'all' : `${parts.join(' ')} (${zone})`, fault: null };
}
