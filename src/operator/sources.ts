/** Operations on sources: their state at each site, and using one again after a block list refused it. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { onLeader, type SourceState } from './operation.ts';

export const sourceOperations = {
  'queue.sources': onLeader({
    act: null,
    args: z.strictObject({}),
    run: ({ mta }) => Promise.resolve({ data: mta.sources.list().map(sourceRecord) }),
  }),
  /** Lets sites that refused the source by a block list get mail from it again; without a name, from the system's address. */
  'queue.unblock': onLeader({
    act: { says: 'used the source {object} again', type: 'source', keeps: ['unblocked'] },
    args: z.strictObject({ source: z.string().min(1).max(100).optional() }),
    async run({ mta, notifiers, log }, { source: name = null }, act) {
      act.on({ object: name ?? "the system's address" });
      if (!mta.sources.list().some((source) => source.name === name))
        throw new Problem('not_found', `there is no source ${JSON.stringify(name)}: see \`posthorn queue sources\``, {
          field: 'source',
        });
      const unblocked = await mta.sources.unblock(name);
      act.on({ after: { unblocked } });
      log.info({ event: 'source_unblocked', source: name, sites: unblocked }, 'the operator uses a source again');
      notifiers.holds.notify();
      return { unblocked };
    },
  }),
};

function sourceRecord({ name, pool, ipv4, ipv6, ehlo, paused, blocks, warmUp }: SourceState) {
  return {
    object: 'source' as const,
    /** Null for the address that the system chooses. */
    name,
    pool,
    ipv4,
    ipv6,
    ehlo,
    paused,
    /** Sites that refused it by a block list, and until when they get nothing from it. */
    blocks: blocks.map(({ site, since, until, reply }) => ({
      site,
      since: rfc3339(since),
      until: rfc3339(until),
      reply,
    })),
    /** Sites that it has sent to today while it is warmed up; without a cap if it is warm. */
    warm_up: warmUp.map(({ site, sent, cap }) => ({ site, sent, cap })),
  };
}
