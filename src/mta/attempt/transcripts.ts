/**
 * Live SMTP transcripts: the dialogue on the connections of one lane, or about one message, while an operator watches. They have
 * commands and replies only: message data is shown as its size, credentials as three stars (connection/wire.ts). Without a watch
 * the cost is one comparison a line. A watch keeps its last lines until they are fetched, and ends when they are no longer fetched.
 */
import type { Clock } from '../../base/clock.ts';
import type { TranscriptLine, TranscriptPage } from '../../messages/delivery/why.ts';
import type { Trace } from '../connection/wire.ts';

export type Watched = { lane: string } | { messageId: string };

export type Transcripts = ReturnType<typeof createTranscripts>;

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
  /** When its lines were asked for, on the monotonic clock. */
  askedAt: number;
}

export function createTranscripts({ clock }: { clock: Clock }) {
  const watches = new Map<number, Watch>();
  let connectionNumber = 0;

  function forget(): void {
    for (const [id, { askedAt }] of watches) if (clock.monotonic() - askedAt >= FORGOTTEN_MS) watches.delete(id);
  }

  function hand(line: TranscriptLine): void {
    forget();
    for (const watch of watches.values()) {
      const { what } = watch;
      if ('lane' in what ? what.lane !== line.lane : what.messageId !== line.messageId) continue;
      watch.lines.push(line);
      watch.end++;
      if (watch.lines.length > MOST_LINES) watch.lines.shift();
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
      forget();
      const known = watches.get(id);
      if (known !== undefined) {
        known.askedAt = clock.monotonic();
        return true;
      }
      if (watches.size >= MOST_WATCHES) return false;
      watches.set(id, { what, lines: [], end: 0, askedAt: clock.monotonic() });
      return true;
    },
    /** Returns the lines after position `after`; null for a watch that has ended. `lost` lines were dropped before they were fetched. */
    read(id: number, after: number): TranscriptPage | null {
      forget();
      const watch = watches.get(id);
      if (watch === undefined) return null;
      watch.askedAt = clock.monotonic();
      const from = watch.end - watch.lines.length;
      const lines = watch.lines.slice(Math.max(0, after - from));
      return { lines, position: watch.end, lost: Math.max(0, from - after) };
    },
    subjectOf(id: number): Watched | null {
      forget();
      return watches.get(id)?.what ?? null;
    },
    /** Returns the last lines of each watch, for other nodes. */
    list: (): (readonly [id: number, page: TranscriptPage])[] =>
      [...watches].map(([id, { lines, end: position }]) => [
        id,
        { lines: lines.slice(-MOST_SHOWN), position, lost: 0 },
      ]),
    stop: () => watches.clear(),
  };
}
