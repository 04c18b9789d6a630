/**
 * How a receiver behaves, as data, and what it does with one command by that. Pure but for the memory it is given: time comes in
 * as a number, so that the same behaviour plays on real sockets in real time and in a simulated hour.
 */

/** Where in the dialogue; `message` is the answer to the final dot. */
export type Stage = 'connect' | 'ehlo' | 'mail' | 'rcpt' | 'data' | 'message';

export interface Refusal {
  at: Stage;
  words: string;
  /** Only these recipients; only from `rcpt` on. */
  to?: RegExp;
  /** Only this client. */
  from?: string;
  /** Says it and closes. */
  closes?: boolean;
}

export interface Behaviour {
  /** Connections at once from one client. Others are refused at the greeting. */
  connections?: { most: number; words: string };
  /**
   * Transactions of one client in each minute, refused ones included, as Postfix's anvil counts; `accepted` counts only what was let in.
   * The minute begins with the first mail, or with that of the clock; it slides; or a bucket of so many mails runs full again in it.
   */
  rate?: {
    perMinute: number;
    at: Stage;
    words: string;
    counts?: 'accepted';
    closes?: boolean;
    window?: 'clock' | 'sliding' | { bucket: number };
  };
  /** Mails to one of these mailboxes in each minute. */
  mailboxRate?: { perMinute: number; to: RegExp; words: string };
  /** A recipient is refused until so long after its first try. */
  greylist?: { ms: number; words: string; to?: RegExp };
  refuse?: readonly Refusal[];
  /** Breaks the connection when this stage is reached; behind the dot the mail has been read to its end. */
  breaks?: { at: Stage; how: 'drop' | 'reset' | 'hang'; from?: string };
  /** Before each reply. */
  latencyMs?: number;
  /** Before the answer to the final dot. */
  answerMs?: number;
}

export interface Asked {
  stage: Stage;
  client: string;
  to: string;
  /** Connections of this client that stand, this one included. */
  standing: number;
  now: number;
}

export type Verdict =
  { kind: 'go' } | { kind: 'say'; words: string; closes: boolean } | { kind: 'break'; how: 'drop' | 'reset' | 'hang' };

/** The memory of a host about its clients. */
export interface Memory {
  /** Counts by what is counted, in windows of a minute from the first of each. */
  windows: Map<string, { since: number; count: number }>;
  /** When the mails of a sliding minute came, and what was left in a bucket at the last of them. */
  times: number[];
  bucket: { left: number; at: number } | null;
  /** When a recipient was first tried. */
  firstTried: Map<string, number>;
  /** Refusals so far; each has a different id. */
  refusals: number;
}

export const newMemory = (): Memory => ({
  windows: new Map(),
  times: [],
  bucket: null,
  firstTried: new Map(),
  refusals: 0,
});

const MINUTE_MS = 60_000;
const go: Verdict = { kind: 'go' };

export function judge(behaviour: Behaviour, memory: Memory, asked: Asked): Verdict {
  const { stage } = asked;
  const { breaks, connections, greylist } = behaviour;
  if (breaks?.at === stage && (breaks.from ?? asked.client) === asked.client) return { kind: 'break', how: breaks.how };
  if (stage === 'connect' && connections !== undefined && asked.standing > connections.most)
    return say(connections.words, memory, asked, true);
  const refusal = behaviour.refuse?.find(
    ({ at, to, from = asked.client }) => at === stage && from === asked.client && (to?.test(asked.to) ?? true),
  );
  if (refusal !== undefined) return say(refusal.words, memory, asked, refusal.closes ?? stage === 'connect');
  if (stage === 'rcpt' && greylist !== undefined && isGrey(greylist, memory, asked))
    return say(greylist.words, memory, asked);
  return overRate(behaviour, memory, asked) ?? go;
}

function isGrey({ ms, to }: NonNullable<Behaviour['greylist']>, { firstTried }: Memory, asked: Asked): boolean {
  if (to !== undefined && !to.test(asked.to)) return false;
  const first = firstTried.get(asked.to);
  if (first === undefined) firstTried.set(asked.to, asked.now);
  return asked.now - (first ?? asked.now) < ms;
}

function overRate({ rate, mailboxRate }: Behaviour, memory: Memory, asked: Asked): Verdict | null {
  if (rate?.at === asked.stage) {
    if (isOver(rate, memory, asked)) return say(rate.words, memory, asked, rate.closes);
  }
  if (asked.stage === 'rcpt' && mailboxRate?.to.test(asked.to) === true) {
    if (counted(memory, `to ${asked.to}`, asked.now) > mailboxRate.perMinute)
      return say(mailboxRate.words, memory, asked);
  }
  return null;
}

function isOver(rate: NonNullable<Behaviour['rate']>, memory: Memory, { client, now }: Asked): boolean {
  const { perMinute, window } = rate;
  if (window === 'sliding') {
    memory.times = memory.times.filter((time) => time > now - MINUTE_MS);
    if (memory.times.length >= perMinute) return true;
    memory.times.push(now);
    return false;
  }
  if (typeof window === 'object') {
    const { left, at } = memory.bucket ?? { left: window.bucket, at: now };
    const has = Math.min(window.bucket, left + ((now - at) * perMinute) / MINUTE_MS);
    memory.bucket = { left: has < 1 ? has : has - 1, at: now };
    return has < 1;
  }
  const key = window === 'clock' ? `${client} ${String(Math.floor(now / MINUTE_MS))}` : client;
  if (counted(memory, key, now) <= perMinute) return false;
  if (rate.counts === 'accepted') uncount(memory, key);
  return true;
}

function counted({ windows }: Memory, key: string, now: number): number {
  const window = windows.get(key);
  if (window !== undefined && now - window.since < MINUTE_MS) return ++window.count;
  windows.set(key, { since: now, count: 1 });
  return 1;
}

function uncount({ windows }: Memory, key: string): void {
  const window = windows.get(key);
  if (window !== undefined) window.count--;
}

const say = (words: string, memory: Memory, { client }: Asked, closes = false): Verdict => ({
  kind: 'say',
  words: words
    .replaceAll('{ip}', client)
    .replaceAll('{id}', `${(++memory.refusals * 7919).toString(36)}si${String(memory.refusals)}`),
  closes: closes || words.startsWith('421'),
});
