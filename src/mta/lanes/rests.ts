/**
 * When mail of a lane rests because of what the receiver answers again and again, with nothing accepted between:
 *
 *   - `load`: the server as a whole cannot take mail now (4.3.x, "busy").
 *   - `sender`: it will not have mail from us (our address, our authentication, relaying, "likely spam"). Such answers are
 *     permanent, so without a rest a whole backlog would bounce for what is wrong with one setting.
 *   - `rate`: one organisation behind an operator's hosts takes only so much in a time, while the others take theirs.
 *   - `tls`: the hosts do not have the TLS that a policy asks for. That is about the recipient domain whose policy it is.
 *
 * A rest is about as little as the answers allow: of a lane that serves many organisations, one recipient domain, until three of
 * them answer so; of the senders, the account that they were given to. When a rest is over one mail tries: if it is refused in
 * the same way the next rest is longer. Pure: time is handed in, in ms.
 */

export type RestKind = 'load' | 'sender' | 'tls' | 'rate';

/** What rests: a part of a lane. Null means all of them. */
export interface Scope {
  account: string | null;
  domain: string | null;
}

export interface Rest extends Scope {
  kind: RestKind;
  /** The answer that was one too many, and when. */
  cause: string;
  since: number;
  until: number;
  /** How many rests in a row, and of which of them the operator was told. */
  step: number;
  toldStep: number;
  /** A mail is under way to find out whether the rest is over. */
  isProbing: boolean;
}

/** One mail's part in it. */
export interface Part {
  account: string;
  domain: string;
}

interface Streak {
  count: number;
  domains: Set<string>;
}

/** So many answers in a row are enough ... */
const ENOUGH: Readonly<Record<RestKind, number>> = { load: 10, sender: 5, tls: 3, rate: 1 };
/** ... or so many where something was accepted lately: a receiver that judges mail by mail refuses some in a row by chance. */
const ENOUGH_BESIDE_SUCCESS: Readonly<Record<RestKind, number>> = { load: 10, sender: 20, tls: 3, rate: 1 };
const LATELY_MS = 10 * 60_000;
/** So many domains of a lane that serves many make it the operator's answer. */
const DOMAINS = 3;
const MINUTE_MS = 60_000;
const PAUSES: Readonly<Record<RestKind, readonly number[]>> = {
  load: [1, 2, 4, 8, 15].map((minutes) => minutes * MINUTE_MS),
  sender: [2, 4, 8, 16, 32, 60].map((minutes) => minutes * MINUTE_MS),
  tls: [1, 2, 4, 8, 15].map((minutes) => minutes * MINUTE_MS),
  rate: [0.5, 1, 2, 4, 8].map((minutes) => minutes * MINUTE_MS),
};
const kinds: readonly RestKind[] = ['load', 'sender', 'tls', 'rate'];
/** Parts of one lane that are kept; the ones met longest ago are forgotten first. */
const MOST_PARTS = 1000;

export interface Rests {
  /** The receiver answered so. Gives the rest that this begins (`isNew`) or prolongs, or that is there already; null for none. */
  refused(kind: RestKind, part: Part, reply: string, now: number): { rest: Rest; isNew: boolean } | null;
  /** The receiver accepted a mail; gives the rests that this ends. */
  accepted(part: Part, now: number): Rest[];
  /** What this mail waits for, or null. */
  of(part: Part, now: number): Rest | null;
  /** The mail is under way; of a rest that is over it is the one that tries. */
  begin(part: Part, now: number): void;
  /** It ended, and said nothing about the rest. */
  ended(part: Part): void;
  /** Somebody wants to know now: rests of this domain (null: all) are over, and one mail tries. */
  tryNow(domain: string | null, now: number): number;
  list(): readonly Rest[];
  /** The clock was set to another time, so many ms on. */
  shift(ms: number): void;
}

/** `isShared`: the lane serves many organisations (an operator's), so one domain's answers are not everybody's. */
export function createRests(isShared: () => boolean): Rests {
  const streaks = new Map<string, Streak>();
  const rests = new Map<string, Rest>();
  let acceptedAt = -Infinity;

  /** From the narrowest to the widest part of the lane that the mail stands for. */
  function scopesOf(kind: RestKind, { account, domain }: Part): Scope[] {
    const sender = kind === 'sender' ? account : null;
    const all = { account: sender, domain: null };
    if (kind === 'tls' || kind === 'rate') return [{ account: null, domain }];
    return isShared() ? [{ account: sender, domain }, all] : [all];
  }

  function count(key: string, domain: string): Streak {
    const streak = streaks.get(key) ?? { count: 0, domains: new Set() };
    streaks.delete(key);
    streak.count++;
    if (streak.domains.size < DOMAINS) streak.domains.add(domain);
    streaks.set(key, streak);
    if (streaks.size > MOST_PARTS) dropOldest(streaks);
    return streak;
  }

  function rest(kind: RestKind, scope: Scope, cause: string, now: number): Rest {
    const key = keyOf(kind, scope);
    const before = rests.get(key);
    const step = before === undefined ? 0 : before.step + 1;
    const pauses = PAUSES[kind];
    const pause = pauses[Math.min(step, pauses.length - 1)] ?? MINUTE_MS;
    const since = before?.since ?? now;
    const next: Rest = {
      kind,
      ...scope,
      cause: cause.slice(0, 500),
      since,
      until: now + pause,
      step,
      toldStep: before?.toldStep ?? -1,
      isProbing: false,
    };
    rests.delete(key);
    rests.set(key, next);
    if (rests.size > MOST_PARTS) dropOldest(rests);
    return next;
  }

  function refused(kind: RestKind, part: Part, reply: string, now: number): ReturnType<Rests['refused']> {
    const enough = (now - acceptedAt < LATELY_MS ? ENOUGH_BESIDE_SUCCESS : ENOUGH)[kind];
    let begun: Rest | null = null;
    for (const scope of scopesOf(kind, part)) {
      const key = keyOf(kind, scope);
      const standing = rests.get(key);
      // What was under way when the rest began says nothing new; what tries after it prolongs the rest.
      if (standing !== undefined) {
        const next = now < standing.until ? standing : rest(kind, scope, reply, now);
        return { rest: next, isNew: false };
      }
      const streak = count(key, part.domain);
      const isWide = scope.domain === null && isShared();
      if (begun === null && streak.count >= enough && (!isWide || streak.domains.size >= DOMAINS))
        begun = rest(kind, scope, reply, now);
    }
    return begun === null ? null : { rest: begun, isNew: true };
  }

  function touching(part: Part): Rest[] {
    if (rests.size === 0) return [];
    return kinds.flatMap((kind) => scopesOf(kind, part).flatMap((scope) => rests.get(keyOf(kind, scope)) ?? []));
  }

  return {
    refused,
    accepted(part, now) {
      acceptedAt = now;
      if (streaks.size === 0 && rests.size === 0) return [];
      for (const kind of kinds) for (const scope of scopesOf(kind, part)) streaks.delete(keyOf(kind, scope));
      const over = touching(part);
      for (const one of over) rests.delete(keyOf(one.kind, one));
      return over;
    },
    of(part, now) {
      return touching(part).find((one) => now < one.until || one.isProbing) ?? null;
    },
    begin(part, now) {
      for (const one of touching(part)) if (now >= one.until) one.isProbing = true;
    },
    ended(part) {
      for (const one of touching(part)) one.isProbing = false;
    },
    tryNow(domain, now) {
      let ended = 0;
      for (const one of rests.values()) {
        if (domain !== null && one.domain !== null && one.domain !== domain) continue;
        one.until = Math.min(one.until, now);
        one.isProbing = false;
        ended++;
      }
      return ended;
    },
    list: () => [...rests.values()],
    shift(ms) {
      acceptedAt += ms;
      for (const one of rests.values()) {
        one.since += ms;
        one.until += ms;
      }
    },
  };
}

const keyOf = (kind: RestKind, { account, domain }: Scope): string => `${kind} ${account ?? '*'} ${domain ?? '*'}`;

function dropOldest(map: Map<string, unknown>): void {
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}
