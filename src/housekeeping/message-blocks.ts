/** Makes blocks of messages that have come since, and removes those whose messages are gone (messages/message-blocks.ts). */
import type { Clock } from '../base/clock.ts';
import { closeNextBlock, removeEmptyBlock } from '../messages/message-blocks.ts';
import type { Database } from '../storage/database.ts';
import type { Rule } from './housekeeping.ts';

const MINUTE_MS = 60_000;

export function messageBlocks(deps: { db: Pick<Database, 'commit' | 'fast'>; clock: Clock }): Rule {
  return {
    name: 'blocks of messages',
    everyMs: MINUTE_MS,
    stepRows: 1,
    silent: true,
    step: async () => ((await closeNextBlock(deps)) || (await removeEmptyBlock(deps)) ? 1 : 0),
  };
}
