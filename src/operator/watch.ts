/** Shows SMTP dialogues live, as long polls. A watch has one number at every node, from its client; its position covers all, so any may be polled. */
import { randomInt } from 'node:crypto';
import { z } from 'zod';
import { each, flag, many, ofKind, text, time, whole } from '../api/record-schema.ts';
import { Problem, invalid } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { figuresOf, serverNames, type Figures } from './node-figures.ts';
import { isLaneKnown } from './lanes.ts';
import { accountOfMessage } from './messages.ts';
import type { TranscriptPage } from '../messages/delivery/why.ts';
import type { OperatorDeps } from './server-route.ts';
import { serverRoute } from './server-route.ts';

const LONGEST_WAIT_MS = 30_000;
/** Time between two looks at the lines, and how often those for other nodes are written. */
const LOOK_MS = 250;
const SHOWN_MS = 2_000;
const MOST_NUMBER = 2 ** 47;

const watchNumber = z.int().min(1).max(MOST_NUMBER);
const subject = { lane: z.string().min(1).max(300).optional(), message_id: z.string().min(1).max(100).optional() };

/** A watch as nodes tell each other of it. */
const toldWatch = z.strictObject({
  watch: watchNumber,
  what: z.union([z.strictObject({ lane: z.string().max(300) }), z.strictObject({ messageId: z.string().max(100) })]),
});
const ABOUT = 'watch';

/** Begins the watches here that other nodes tell of. */
export function hearWatches({ nodes, mta }: Pick<OperatorDeps, 'nodes' | 'mta'>): void {
  nodes.listen((message) => {
    const told = message?.about === ABOUT ? toldWatch.safeParse(message.hint) : null;
    if (told?.success === true) mta.transcripts.watch(told.data.watch, told.data.what);
  });
}

/** The last lines of the watches at a node, by their numbers. */
export const lineFigures: Figures<Pick<OperatorDeps, 'mta'>, TranscriptPage> = {
  name: 'lines',
  everyMs: SHOWN_MS,
  read: ({ mta }) => Promise.resolve(mta.transcripts.list().map(([watch, page]) => [String(watch), page] as const)),
};

const Transcript = ofKind('transcript', {
  watch: whole(),
  position: text(),
  lost: whole(),
  data: many(
    z.object({
      at: time(),
      connection: whole(),
      ...each(text(), 'lane', 'host', 'text', 'message_id', 'node'),
      side: z.enum(['<', '>']),
    }),
  ),
  nodes: many(text()),
  /** At the start: false if no node and no waiting mail has this lane now. A lane may be watched before its first mail. */
  lane_known: flag().nullable(),
});

export const watchOperations = {
  'queue.watch': serverRoute({
    answer: Transcript,
    body: z.strictObject({
      ...subject,
      watch: watchNumber.optional(),
      /** The position of the last page; without it, all lines that are kept. */
      after: z.string().max(1000).optional(),
      wait_ms: z.int().min(0).max(LONGEST_WAIT_MS).optional(),
    }),
    async run(deps, { lane, message_id: messageId, watch: known, after = '', wait_ms: waitMs = 0 }) {
      if ([lane, messageId, known].filter((one) => one !== undefined).length !== 1)
        throw new Problem('invalid_field', 'name one thing to watch: a lane or a message');
      if (messageId !== undefined) await accountOfMessage(deps, messageId);
      const read = positionsIn(after);
      const watch = known ?? randomInt(1, MOST_NUMBER);
      const what = subjectOf(deps, watch, lane === undefined ? { messageId } : { lane });
      if (!deps.mta.transcripts.watch(watch, what))
        throw new Problem('invalid_state', 'too many watch already: end one first');
      // Each poll tells the others again, whose watch would end else.
      deps.nodes.tell({ about: ABOUT, hint: { watch, what } });
      const laneKnown = lane === undefined ? null : await isLaneKnown(deps, lane);
      return { ...(await pageOf(deps, watch, read, waitMs)), lane_known: laneKnown };
    },
  }),
};

/** Returns what a watch is about: what was asked for, or what was when it began. */
function subjectOf(
  { mta }: Pick<OperatorDeps, 'mta'>,
  watch: number,
  asked: { lane?: string | undefined; messageId?: string | undefined },
): { lane: string } | { messageId: string } {
  if (asked.lane !== undefined) return { lane: asked.lane };
  if (asked.messageId !== undefined) return { messageId: asked.messageId };
  const known = mta.transcripts.subjectOf(watch);
  if (known === null)
    throw new Problem('not_found', 'the watch has ended: its lines were not asked for within a minute');
  return known;
}

/** The lines that were read, by the epoch of their node. */
type Positions = ReadonlyMap<number, number>;

/** Returns the new lines of all nodes, once there are any or the wait is over. Those of other nodes are as old as their figures. */
async function pageOf(deps: OperatorDeps, watch: number, after: Positions, waitMs: number) {
  const { clock, nodes, mta } = deps;
  const end = clock.monotonic() + waitMs;
  for (;;) {
    const own = mta.transcripts.read(watch, after.get(nodes.epoch) ?? 0);
    const shown = await figuresOf(deps, lineFigures, String(watch));
    const pages = shown.map(({ node, epoch, value }) => ({
      node,
      epoch,
      ...(epoch === nodes.epoch && own !== null ? own : linesAfter(value, after.get(epoch) ?? 0)),
    }));
    const left = end - clock.monotonic();
    if (own !== null && left > 0 && pages.every(({ lines }) => lines.length === 0)) {
      await clock.sleep(Math.min(left, LOOK_MS));
      continue;
    }
    const data = pages
      .flatMap(({ node, lines }) => lines.map((line) => ({ ...line, node })))
      .sort((a, b) => a.at - b.at)
      .map(({ at, messageId: id, ...line }) => ({ at: rfc3339(at), ...line, message_id: id }));
    return {
      object: 'transcript' as const,
      watch,
      position: positionText(new Map([...after, ...pages.map(({ epoch, position }) => [epoch, position] as const)])),
      lost: pages.reduce((sum, { lost }) => sum + lost, 0),
      data,
      nodes: serverNames(nodes),
    };
  }
}

/** Returns the lines of a page after a position, and how many between were not kept. */
function linesAfter({ lines, position }: TranscriptPage, after: number): TranscriptPage {
  const from = position - lines.length;
  return { lines: lines.slice(Math.max(0, after - from)), position, lost: Math.max(0, from - after) };
}

/** Writes positions as `7-120.9-15`, which needs no escaping in a URL. */
const positionText = (positions: Positions): string =>
  [...positions].map(([epoch, lines]) => `${String(epoch)}-${String(lines)}`).join('.');

function positionsIn(text: string): Positions {
  const found = new Map<number, number>();
  if (text === '') return found;
  for (const part of text.split('.')) {
    const [, epoch, lines] = /^(\d{1,15})-(\d{1,15})$/.exec(part) ?? [];
    if (epoch === undefined) throw invalid('after', 'this is not the position of a watch');
    found.set(Number(epoch), Number(lines));
  }
  return found;
}
