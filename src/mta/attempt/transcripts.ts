/**
 * Live SMTP transcripts: the dialogue on the connections of one lane, or about one message, while an operator watches. They have
 * commands and replies only: message data is shown as its size, credentials as three stars (connection/wire.ts). Without a watch
 * the cost is one comparison a line. A watch keeps its last lines until they are fetched, and ends when they are no longer fetched.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import type { Trace } from '../connection/wire.ts';

/** The subject of a watch: a lane, or a message on any lane. */
export type Watched = { lane: string } | { messageId: string };

export interface TranscriptLine {
  at: number;
  /** Connections are numbered, since several may speak at once. */
  connection: number;
  lane: string;
  host: string;
  messageId: string;
  /** `>` is us. */
  side: '<' | '>';
  text: string;
}

export type Transcripts = ReturnType<typeof createTranscripts>;

export interface Fetched {
  lines: TranscriptLine[];
  position: number;
  lost: number;
}

const MOST_WATCHES = 16;
const MOST_LINES = 2_000;
const MOST_SHOWN = 200;
const LONGEST_LINE = 1_000;
const FORGOTTEN_MS = 60_000;

interface Watch {
  what: Watched;
  lines: TranscriptLine[];
  /** Position after the last line. */
  end: number;
  expiry: Timer;
  wake: (() => void) | null;
}

export function createTranscripts({ clock }: { clock: Clock }) {
  const watches = new Map<number, Watch>();
  let connectionNumber = 0;

  function end(id: number): void {
    const watch = watches.get(id);
    watches.delete(id);
    watch?.expiry.cancel();
    watch?.wake?.();
  }

  const expiryOf = (id: number): Timer => clock.after(FORGOTTEN_MS, () => end(id), { background: true });

  function hand(line: TranscriptLine): void {
    for (const watch of watches.values()) {
      const { what } = watch;
      if ('lane' in what ? what.lane !== line.lane : what.messageId !== line.messageId) continue;
      watch.lines.push(line);
      watch.end++;
      if (watch.lines.length > MOST_LINES) watch.lines.shift();
      watch.wake?.();
    }
  }

  return {
    /** Returns the trace for a connection to this host that is about to be opened. */
    of(host: string): Trace {
      let lane = '';
      let messageId = '';
      const connection = ++connectionNumber;
      return {
        get on() {
          return watches.size > 0;
        },
        begin(now, id) {
          lane = now;
          messageId = id;
        },
        line(side, text) {
          hand({ at: clock.now(), connection, lane, host, messageId, side, text: text.slice(0, LONGEST_LINE) });
        },
      };
    },
    /** Begins a watch under this number, or prolongs the one that there is; returns false if there are too many. */
    watch(id: number, what: Watched): boolean {
      const known = watches.get(id);
      if (known !== undefined) {
        known.expiry.cancel();
        known.expiry = expiryOf(id);
        return true;
      }
      if (watches.size >= MOST_WATCHES) return false;
      watches.set(id, { what, lines: [], end: 0, expiry: expiryOf(id), wake: null });
      return true;
    },
    /**
     * Returns the lines after position `after`, once there are any or the wait is over; null for a watch that has ended. `lost`
     * lines were dropped before they were fetched.
     */
    async read(id: number, after: number, waitMs: number): Promise<Fetched | null> {
      const watch = watches.get(id);
      if (watch === undefined) return null;
      watch.expiry.cancel();
      if (watch.end <= after && waitMs > 0) await nextLine(clock, watch, waitMs);
      if (watches.get(id) !== watch) return null;
      watch.expiry = expiryOf(id);
      const from = watch.end - watch.lines.length;
      const lines = watch.lines.slice(Math.max(0, after - from));
      return { lines, position: watch.end, lost: Math.max(0, from - after) };
    },
    /** Returns what a watch is about; null if it has ended. */
    subjectOf: (id: number): Watched | null => watches.get(id)?.what ?? null,
    /** Returns the last lines of each watch, for other nodes. */
    list: (): (readonly [id: number, page: Fetched])[] =>
      [...watches].map(([id, { lines, end: position }]) => [
        id,
        { lines: lines.slice(-MOST_SHOWN), position, lost: 0 },
      ]),
    end,
    stop(): void {
      for (const id of [...watches.keys()]) end(id);
    },
  };
}

/** Resolves with the next line, with the end of the watch, or when the wait is over. A second wait ends the first one. */
function nextLine(clock: Clock, watch: Watch, waitMs: number): Promise<void> {
  watch.wake?.();
  return new Promise((resolve) => {
    const wake = (): void => {
      timer.cancel();
      if (watch.wake === wake) watch.wake = null;
      resolve();
    };
    const timer = clock.after(waitMs, wake);
    watch.wake = wake;
  });
}
