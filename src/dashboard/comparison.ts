/** Compares the mail of a span of time with that of the span before it, in numbers and in words. Pure. */
import type { Stats } from '../client/types.ts';
import { numberText, percentText, titleOf } from './words.ts';

export type Counts = Stats['total'];

/** Fewer mails than this are too few to judge a share by, or to compare it. */
export const ENOUGH = 100;

/** Shares from which a number is amber and red: the limits of the large mailbox providers. */
export const limits = { bounced: [0.02, 0.04], complained: [0.0004, 0.0008] } as const;

/** `2 %` of 0.02. */
const limitText = (share: number): string => `${String(Number((share * 100).toPrecision(2)))} %`;

/** Returns the limit that a share of `of` mails is over, its colour, and how many times the red limit it is; null if it is below both, or of too few mails. */
export function overOf(rate: number | null, [amber, red]: readonly [number, number], of: number) {
  if (rate === null || of < ENOUGH || rate < amber) return null;
  const times = rate / red;
  return rate < red
    ? { limit: limitText(amber), level: 'amber', times }
    : { limit: limitText(red), level: 'red', times };
}

/** Returns the share. Opens of what bounced afterwards are not of what was delivered, so that there may be more of them. */
export const part = (some: number, of: number): number | null => (of === 0 ? null : Math.min(1, some / of));

/** Returns the time before if it had at least half as much mail, and any: otherwise there is nothing to compare with. */
export const comparable = (now: Counts, before: Counts | null): Counts | null =>
  before === null || before.sent === 0 || before.sent * 2 < now.sent ? null : before;

/** Returns the counts of the lines that begin before a time, added up. */
export function sumUntil({ data }: Pick<Stats, 'data'>, end: number): Counts | null {
  const own = data.filter(({ at }) => Date.parse(at) < end).map(({ counts }) => counts);
  const [first] = own;
  if (first === undefined) return null;
  const names = Object.keys(first) as (keyof Counts)[];
  return Object.fromEntries(
    names.map((name) => [name, own.reduce((sum, counts) => sum + counts[name], 0)]),
  ) as unknown as Counts;
}

const LEAST_POINTS = 0.05;

/** Returns a share against that of the time before in percent points; null if one of both is of too few mails. */
export function changeOf(now: number | null, before: number | null, counts: readonly [number, number]) {
  if (now === null || before === null || Math.min(...counts) < ENOUGH) return null;
  const points = (now - before) * 100;
  if (Math.abs(points) < LEAST_POINTS) return { points: 0, sign: '=' };
  return { points: Math.abs(points), sign: points > 0 ? '▲' : '▼' };
}

/** The counts that a share is made of: complaints, opens and clicks are of what was delivered. */
const wholes = {
  delivered: ['delivered', 'sent'],
  bounced: ['bounced', 'sent'],
  complained: ['complained', 'delivered'],
  opened: ['unique_opened', 'delivered'],
  clicked: ['unique_clicked', 'delivered'],
} as const;

export function figureOf(name: keyof typeof wholes, now: Counts, before: Counts | null) {
  const [some, whole] = wholes[name];
  const [of, earlier] = [now[whole], before?.[whole] ?? 0];
  const rate = part(now[some], of);
  const own = name === 'bounced' || name === 'complained' ? limits[name] : null;
  return {
    name,
    label: name === 'complained' ? 'complaints' : name,
    rate,
    count: now[some],
    change: changeOf(rate, part(before?.[some] ?? 0, earlier), [of, earlier]),
    over: own === null ? null : overOf(rate, own, of),
    limit: own === null || of < ENOUGH ? null : limitText(own[0]),
  };
}

/** Says which limit is passed the furthest, and how far; null if none is. */
function breachText(now: Counts): string | null {
  const figures = (['bounced', 'complained'] as const).map((name) => figureOf(name, now, null));
  const [worst] = figures
    .filter(({ over }) => over !== null)
    .sort((a, b) => (b.over?.times ?? 0) - (a.over?.times ?? 0));
  if (worst?.over == null) return null;
  const { label, rate, over } = worst;
  const howFar = over.times < 2 ? 'over' : `${String(Number(over.times.toPrecision(2)))} times`;
  return `${titleOf(label)} ${percentText(rate)}, ${howFar} the limit of ${over.limit}`;
}

/** Says in one sentence, in which no line ends before a `%`, which limit is passed, and how much was delivered; if none is, whether that is better than before. `words` name the spans: `today`, `by this hour yesterday`. */
export const deliveredText = (...given: Parameters<typeof sentenceOf>): string =>
  sentenceOf(...given).replaceAll(' %', '\u00a0%');

function sentenceOf(now: Counts, before: Counts | null, words: { now: string; before: string }): string {
  const earlier = before?.sent ?? 0;
  if (now.sent === 0) return `Nothing was sent ${words.now}`;
  if (now.sent < ENOUGH) return `${numberText(now.delivered)} of ${numberText(now.sent)} delivered ${words.now}`;
  const rate = part(now.delivered, now.sent);
  const text = `${percentText(rate, 1)} delivered ${words.now}`;
  const breach = breachText(now);
  if (breach !== null) return `${breach}; ${text}`;
  const change = changeOf(rate, part(before?.delivered ?? 0, earlier), [now.sent, earlier]);
  if (change === null) return text;
  if (change.sign === '=') return `${text}, the same as ${words.before}`;
  return `${text}, ${change.points.toFixed(1)} points ${change.sign === '▲' ? 'more' : 'less'} than ${words.before}`;
}
