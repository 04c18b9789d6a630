/** Operations on sources: their state at each site, and using one again after a block list refused it. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import { figuresOf, serverNames, type Figures } from './node-figures.ts';
import { epochsThatDeliver } from './server-state.ts';
import type { SourceReport } from '../messages/delivery/why.ts';
import { serverRoute, type OperatorDeps } from './server-route.ts';

export const sourceFigures: Figures<Pick<OperatorDeps, 'mta'>, readonly SourceReport[]> = {
  name: 'sources',
  everyMs: 2_000,
  read: ({ mta }) => Promise.resolve([['', mta.sources.list()]]),
};

export const sourceOperations = {
  /** Returns the sources of each node; one that several nodes use is in the list once for each of them. */
  'queue.sources': serverRoute({
    async run(deps) {
      const delivering = epochsThatDeliver(deps.nodes.list());
      const shown = await figuresOf(deps, sourceFigures);
      const data = shown.flatMap(({ node, epoch, value }) =>
        value.map((source) => sourceRecord({ node, delivers: delivering.has(epoch) }, source)),
      );
      return { data, nodes: serverNames(deps.nodes) };
    },
  }),
  /** Lets sites that refused the source by a block list get mail from it again; without a name, from the system's address of each node. */
  'queue.unblock': serverRoute({
    act: { says: 'used the source {object} again', type: 'source', keeps: ['unblocked'] },
    body: z.strictObject({ source: z.string().min(1).max(100).optional() }),
    async run(deps, { source: name = null }, act) {
      act.on({ object: name ?? "the system's address" });
      const shown = await figuresOf(deps, sourceFigures);
      const found = shown.flatMap(({ node, value }) =>
        value.flatMap((source) => (source.name === name ? [{ node, blocks: source.blocks }] : [])),
      );
      if (found.length === 0)
        throw new Problem('not_found', `there is no source ${JSON.stringify(name)}: see \`posthorn queue sources\``, {
          field: 'source',
        });
      await deps.mta.unblock(name);
      deps.notifiers.holds.notify();
      const sites = found.flatMap(({ node, blocks }) =>
        blocks.map(({ site }) => (name === null ? `${node} ${site}` : site)),
      );
      const unblocked = new Set(sites).size;
      act.on({ after: { unblocked } });
      deps.log.info({ event: 'source_unblocked', source: name, sites: unblocked }, 'the operator uses a source again');
      return { unblocked };
    },
  }),
};

/** `delivers` is false while its node is drained and another delivers: nothing is sent from it. A node without the role `delivery` has no sources. */
const sourceRecord = (at: { node: string; delivers: boolean }, { name, blocks, warmUp, ...source }: SourceReport) => ({
  object: 'source' as const,
  /** Null for the address that the system chooses. */
  name,
  ...at,
  ...source,
  /** Sites that refused it by a block list, and until when they get nothing from it. */
  blocks: blocks.map(({ site, since, until, reply }) => ({
    site,
    since: rfc3339(since),
    until: rfc3339(until),
    reply,
  })),
  /** Sites that it has sent to today while it is warmed up; without a cap if it is warm. */
  warm_up: warmUp.map(({ site, sent, cap }) => ({ site, sent, cap })),
});
