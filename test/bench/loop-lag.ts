/** How late the event loop of an appliance was, from its histogram in /metrics. Ten looks a second, so that counting costs nothing. */
import type { Appliance } from './appliance.ts';

/** Looks by the upper end of their bucket, in seconds; each bucket has those of the buckets below. */
export type LoopLag = ReadonlyMap<number, number>;

/** Reads the histogram. The appliance was started with POSTHORN_METRICS__TOKEN. */
export async function loopLag({ url }: Pick<Appliance, 'url'>, token: string): Promise<LoopLag> {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
  return parseLag(await answer.text());
}

export function parseLag(text: string): LoopLag {
  const lines = text.matchAll(/^posthorn_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\d+)$/gm);
  return new Map([...lines].map(([, le = '', n]) => [le === '+Inf' ? Infinity : Number(le), Number(n)]));
}

/** Returns the upper end of the bucket that the share of the looks between two readings falls in, in ms; NaN without a look. */
export function lagAt(before: LoopLag, after: LoopLag, share: number): number {
  const grown = [...after].map(([le, n]) => [le, n - (before.get(le) ?? 0)] as const);
  const all = Math.max(0, ...grown.map(([, n]) => n));
  if (all === 0) return NaN;
  return Math.min(...grown.filter(([, n]) => n >= all * share).map(([le]) => le)) * 1000;
}
