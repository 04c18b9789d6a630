/**
 * The operation that shows SMTP dialogues live, for `posthorn queue watch` and the dashboard. The first call begins a watch; each
 * later one waits a little and returns the new lines. A watch ends after a minute without a call.
 */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { onLeader } from './operation.ts';

const LONGEST_WAIT_MS = 30_000;
/** An answer without lines comes by then, so that one that another node has passed on is in time; the caller asks again. */
const ANSWERED_WITHIN_MS = 8000;

export const watchOperations = {
  'queue.watch': onLeader({
    act: null,
    args: z.strictObject({
      lane: z.string().min(1).max(300).optional(),
      message_id: z.string().min(1).max(100).optional(),
      watch: z.int().min(1).optional(),
      after: z.int().min(0).optional(),
      wait_ms: z.int().min(0).max(LONGEST_WAIT_MS).optional(),
    }),
    async run({ mta }, { lane, message_id: messageId, watch: known, after = 0, wait_ms: waitMs = 0 }) {
      if ([lane, messageId, known].filter((one) => one !== undefined).length !== 1)
        throw new Problem('invalid_field', 'say what to watch: a lane or a message, or go on with a watch');
      const watch = known ?? mta.transcripts.watch(lane === undefined ? { messageId: messageId ?? '' } : { lane });
      if (watch === null) throw new Problem('invalid_state', 'too many watch already: end one first');
      const found = await mta.transcripts.read(watch, after, Math.min(waitMs, ANSWERED_WITHIN_MS));
      if (found === null) throw new Problem('not_found', 'the watch has ended: nobody asked for a minute');
      const data = found.lines.map(({ at, messageId: id, ...line }) => ({ at: rfc3339(at), ...line, message_id: id }));
      return { object: 'transcript' as const, watch, position: found.position, lost: found.lost, data };
    },
  }),
};
