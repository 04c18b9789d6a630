/**
 * The operation that shows SMTP dialogues live, as long polls. A watch runs at every node under one number, which its client chooses. The
 * position says how much of each node's lines was read, so that the next poll may come by any node.
 */
import { randomInt } from 'node:crypto';
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { askEach, unansweredText, type Answers, type Question } from './ask-nodes.ts';
import { laneIfKnown } from './lane-records.ts';
import { accountOfMessage } from './messages.ts';
import type { OperatorDeps, TranscriptPage } from './deps.ts';
import { serverRoute } from './server-route.ts';

const LONGEST_WAIT_MS = 30_000;
/** Time between two questions to other nodes while nothing is said. */
const LOOK_MS = 1000;
const MOST_NUMBER = 2 ** 47;

const watchNumber = z.int().min(1).max(MOST_NUMBER);
const subject = { lane: z.string().min(1).max(300).optional(), message_id: z.string().min(1).max(100).optional() };

/** Begins a watch at a node. Returns false if too many run there. */
export const watchQuestion: Question<
  Pick<OperatorDeps, 'mta'>,
  { watch: number; lane?: string | undefined; message_id?: string | undefined },
  boolean
> = {
  name: 'watch',
  args: z.strictObject({ watch: watchNumber, ...subject }),
  answer: ({ mta }, { watch, lane, message_id: messageId = '' }) =>
    Promise.resolve(mta.transcripts.watch(watch, lane === undefined ? { messageId } : { lane })),
};

/** Reads the lines of a node after a position; null if the watch has ended there. */
export const linesQuestion: Question<
  Pick<OperatorDeps, 'mta'>,
  { watch: number; after: number; wait_ms: number },
  TranscriptPage | null
> = {
  name: 'lines',
  args: z.strictObject({ watch: watchNumber, after: z.int().min(0), wait_ms: z.int().min(0).max(LONGEST_WAIT_MS) }),
  answer: ({ mta }, { watch, after, wait_ms: waitMs }) => mta.transcripts.read(watch, after, waitMs),
};

export const watchOperations = {
  'queue.watch': serverRoute({
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
      const watch = known ?? (await begin(deps, { lane, message_id: messageId }));
      const laneKnown = lane === undefined ? null : await laneIfKnown(deps, lane);
      return {
        ...(await pageOf(deps, watch, positionsIn(after), waitMs)),
        /** At the start: false if no node and no waiting mail has this lane now. A lane may be watched before its first mail. */
        lane_known: laneKnown,
      };
    },
  }),
};

async function begin(
  deps: OperatorDeps,
  what: { lane?: string | undefined; message_id?: string | undefined },
): Promise<number> {
  const watch = randomInt(1, MOST_NUMBER);
  const { from } = await askEach(deps, watchQuestion, { watch, ...what });
  if (from.some(({ result }) => result)) return watch;
  throw new Problem('invalid_state', 'too many watch already: end one first');
}

/** The lines that were read, by the epoch of their node. */
type Positions = ReadonlyMap<number, number>;

/** Returns the new lines of all nodes, once there are any or the wait is over. */
async function pageOf(deps: OperatorDeps, watch: number, after: Positions, waitMs: number) {
  const { clock, nodes } = deps;
  const end = clock.monotonic() + waitMs;
  for (;;) {
    const left = Math.max(0, end - clock.monotonic());
    const wait = Math.floor(nodes.hasOthers ? Math.min(left, LOOK_MS) : left);
    const { from, unanswered }: Answers<TranscriptPage | null> = await askEach(deps, linesQuestion, ({ epoch }) => ({
      watch,
      after: after.get(epoch) ?? 0,
      wait_ms: epoch === nodes.epoch ? wait : 0,
    }));
    const pages = from.flatMap(({ node, epoch, result }) => (result === null ? [] : [{ node, epoch, ...result }]));
    if (pages.length === 0)
      throw unanswered.length > 0
        ? new Problem('service_unavailable', unansweredText(unanswered))
        : new Problem('not_found', 'the watch has ended: its lines were not asked for within a minute');
    if (pages.every(({ lines }) => lines.length === 0) && end > clock.monotonic()) {
      // The answer of this node waits for lines; without a watch here nothing else would wait.
      if (!pages.some(({ epoch }) => epoch === nodes.epoch)) await clock.sleep(wait);
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
      nodes: pages.map(({ node }) => node),
      unanswered,
    };
  }
}

/** Writes positions as `7-120.9-15`, which needs no escaping in a URL. */
const positionText = (positions: Positions): string =>
  [...positions].map(([epoch, lines]) => `${String(epoch)}-${String(lines)}`).join('.');

function positionsIn(text: string): Positions {
  const found = new Map<number, number>();
  if (text === '') return found;
  for (const part of text.split('.')) {
    const [, epoch, lines] = /^(\d{1,15})-(\d{1,15})$/.exec(part) ?? [];
    if (epoch === undefined)
      throw new Problem('invalid_field', 'this is not the position of a watch', { field: 'after' });
    found.set(Number(epoch), Number(lines));
  }
  return found;
}
