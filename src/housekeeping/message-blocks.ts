/** Makes blocks of messages that have come since, keeps what they know of their states, and removes those whose messages are gone. */
import type { Clock } from '../base/clock.ts';
import { addNextStates, applyNextChanges, areManyChanges } from '../messages/list/block-states.ts';
import { closeNextBlock, removeEmptyBlock } from '../messages/list/message-blocks.ts';
import type { Database } from '../storage/database.ts';
import type { Rule } from './housekeeping.ts';
import { MINUTE_MS } from '../base/time.ts';

const OFTEN_MS = 10_000;

interface Deps {
  db: Pick<Database, 'commit' | 'prepared'>;
  clock: Clock;
}

export const blockRules = (deps: Deps): Rule[] => [messageBlocks(deps), messageStates(deps)];

function messageBlocks(deps: Deps): Rule {
  return {
    name: 'blocks of messages',
    everyMs: MINUTE_MS,
    stepRows: 1,
    silent: true,
    step: async () =>
      (await closeNextBlock(deps)) || (await addNextStates(deps)) || (await removeEmptyBlock(deps)) ? 1 : 0,
  };
}

/** Once there are many changes all of them are taken over, so that a block's codes are written once for many. */
function messageStates(deps: Deps): Rule {
  let busy = false;
  return {
    name: 'states of messages in blocks',
    everyMs: OFTEN_MS,
    stepRows: 1,
    silent: true,
    async step() {
      busy = (busy || (await areManyChanges(deps))) && (await applyNextChanges(deps));
      return busy ? 1 : 0;
    },
  };
}
