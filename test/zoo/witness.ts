/** Holds what `why` said of waiting mail against what then happened to it. Pure. */
import type { Attempt, Dial } from './receiver.ts';

/** A sentence about a mail, with times in ms of the receiver's clock. */
export interface Said {
  at: number;
  to: string;
  reason: string;
  message: string;
  until: number | null;
}

/** Times are told in whole seconds, and a limit may grow a little sooner. */
const EARLY_MS = 2_000;
const PAST_MS = 1_000;
/** Mail that waits for a turn or a time is looked at so soon after it. */
const SOON_MS = 15_000;

/** Returns what is untrue of each sentence; `end` is when the receiver was looked at last, `answerMs` how long its answers take. */
export function untrue(
  said: readonly Said[],
  { attempts, dials }: { attempts: readonly Attempt[]; dials: readonly Dial[] },
  { end, answerMs }: { end: number; answerMs: number },
): { said: Said; why: string }[] {
  const tries = new Map<string, number[]>();
  const activity = new Map<string, number[]>();
  for (const { to, at } of attempts) {
    tries.set(to, [...(tries.get(to) ?? []), at]);
    const domain = domainOf(to);
    activity.set(domain, [...(activity.get(domain) ?? []), at]);
  }
  const dialled = dials.map(({ at }) => at);
  const words = new Set([...attempts, ...dials].map(({ reply }) => inOneLine(reply)).filter((reply) => reply !== ''));
  const isAny = (times: readonly number[] | undefined, from: number, to: number): boolean =>
    times?.some((at) => at >= from && at <= to) ?? false;
  const faultOf = ({ at, to, reason, message, until }: Said): string | null => {
    const quoted = /: "(.+?)"/s.exec(message)?.[1];
    if (quoted !== undefined && /^\d{3}|^\d\.\d/.test(quoted) && !isSaid(quoted, words))
      return 'the receiver has not said that';
    if (until !== null && until < at - PAST_MS) return `a time ${String(at - until)} ms in the past`;
    if (until !== null && isAny(tries.get(to), at + 500, until - EARLY_MS)) return 'it went before';
    const moves = until === null ? at : Math.max(at, until);
    const isWatched = moves + SOON_MS + answerMs < end;
    const from = until === null ? at - answerMs : until - EARLY_MS;
    if (!isWatched || reason === 'held') return null;
    const hasMoved =
      isAny(activity.get(domainOf(to)), from, moves + SOON_MS + answerMs) ||
      isAny(dialled, from, moves + SOON_MS + answerMs);
    return hasMoved ? null : `nothing happens within ${String(SOON_MS + answerMs)} ms of that time`;
  };
  return said.flatMap((one) => {
    const why = faultOf(one);
    return why === null ? [] : [{ said: one, why }];
  });
}

const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1);
const inOneLine = (text: string): string => text.replaceAll(/\n\d{3}[- ]|\s+/g, ' ');

/** A cause is cut, and its code may be apart. */
function isSaid(quoted: string, words: ReadonlySet<string>): boolean {
  const start = inOneLine(quoted).slice(0, 30);
  return [...words].some((reply) => reply.includes(start) || reply.replace(/^\d{3}[- ]/, '').startsWith(start));
}
