/** Judges the samples of `npm run torture -- soak`. Pure. */
import { resultOf, type Figure, type Result } from '../bench/report/result.ts';
import { floorOf, slopeOf } from './slope.ts';

/** The figures that are read every few seconds; sizes in bytes. */
export interface SoakSample {
  /** Milliseconds since the load began. */
  at: number;
  rss: number;
  heap: number;
  descriptors: number;
  wal: number;
  file: number;
}

export interface Soak {
  samples: readonly SoakSample[];
  /** Samples before are not judged: caches fill, code is compiled. */
  warmUpMs: number;
  durationMs: number;
  /** 99th percentile of how late the event loop was after the warm-up, in ms. */
  loopP99Ms: number;
  errorsInLog: number;
  /** Accepted mails that did not arrive. */
  missing: number;
  /** Requests that got neither 202 nor 503. */
  wrongAnswers: number;
  refused: number;
}

const MB = 1e6;
const MINUTE_MS = 60_000;
const MOST_MB_AN_HOUR = 1;
const MOST_LOOP_MS = 50;
/** Connections come and go, so the least of each minute counts; what leaks grows beyond this in an hour. */
const MOST_MORE_DESCRIPTORS = 20;
/** A shorter run has no slope that means anything. */
export const SHORTEST_FOR_SLOPE_MS = 20 * MINUTE_MS;

export function soakFigures(soak: Soak): Result[] {
  const { samples, warmUpMs, durationMs } = soak;
  const judged = samples.filter(({ at }) => at >= warmUpMs);
  const isLong = durationMs >= SHORTEST_FOR_SLOPE_MS;
  const slope = (name: string, of: (sample: SoakSample) => number): Figure[] => {
    const floor = floorOf(
      judged.map((sample) => ({ at: sample.at, value: of(sample) / MB })),
      MINUTE_MS,
    );
    const { perHour, error } = slopeOf(floor);
    return [
      {
        name: `${name}: slope after the warm-up`,
        value: perHour,
        unit: 'MB/h',
        ...(isLong ? { atMost: MOST_MB_AN_HOUR } : {}),
      },
      { name: `${name}: standard error of the slope`, value: error, unit: 'MB/h' },
    ];
  };
  const half = warmUpMs + (durationMs - warmUpMs) / 2;
  const most = (list: readonly SoakSample[], of: (sample: SoakSample) => number): number =>
    Math.max(0, ...list.map(of));
  const descriptors = (list: readonly SoakSample[]): number => {
    const floor = floorOf(
      list.map((sample) => ({ at: sample.at, value: sample.descriptors })),
      MINUTE_MS,
    );
    return Math.max(0, ...floor.map(({ value }) => value));
  };
  const early = descriptors(judged.filter(({ at }) => at < half));
  const figures: Figure[] = [
    ...slope('resident memory', ({ rss }) => rss),
    ...slope('heap', ({ heap }) => heap),
    { name: 'most resident memory', value: most(samples, ({ rss }) => rss) / MB, unit: 'MB' },
    { name: 'most descriptors', value: most(samples, (sample) => sample.descriptors), unit: 'descriptors' },
    {
      name: 'descriptors at the quietest of each minute, second half',
      value: descriptors(judged.filter(({ at }) => at >= half)),
      unit: 'descriptors',
      atMost: early + MOST_MORE_DESCRIPTORS,
      peer: { name: 'first half', value: early },
    },
    { name: 'event loop late: p99', value: soak.loopP99Ms, unit: 'ms', atMost: MOST_LOOP_MS },
    { name: 'largest write-ahead log', value: most(samples, ({ wal }) => wal) / MB, unit: 'MB' },
    { name: 'database file at the end', value: (samples.at(-1)?.file ?? NaN) / MB, unit: 'MB' },
    { name: 'errors in the log', value: soak.errorsInLog, unit: 'lines', atMost: 0 },
    { name: 'accepted mails that did not arrive', value: soak.missing, unit: 'mails', atMost: 0 },
    { name: 'answers but 202 and 503', value: soak.wrongAnswers, unit: 'answers', atMost: 0 },
    { name: 'refused with 503', value: soak.refused, unit: 'requests' },
  ];
  return figures.map(resultOf);
}
