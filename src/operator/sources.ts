/** Operations on sources: their state at each site, and using one again after a block list refused it. */
import { z } from 'zod';
import { each, flag, many, maybe, maybeWhole, ofKind, text, time, whole } from '../api/record-schema.ts';
import { notFound } from '../base/problem.ts';
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

const Source = ofKind('source', {
  name: maybe('Null for the address that the system chooses.'),
  node: text(),
  /** False while its node is drained and another delivers: nothing is sent from it. A node without the role `delivery` has no sources. */
  delivers: flag(),
  ...each(text(), 'pool', 'ehlo'),
  ...each(maybe(), 'ipv4', 'ipv6'),
  paused: flag(),
  absent: many(text()),
  /** Sites that refused it by a block list, and until when they get nothing from it. */
  blocks: many(z.object({ site: text(), ...each(time(), 'since', 'until'), reply: text() })),
  /** Sites that it has sent to today while it is warmed up; without a cap if it is warm. */
  warm_up: many(z.object({ site: text(), sent: whole(), cap: maybeWhole() })),
});
type Source = z.infer<typeof Source>;

export const sourceOperations = {
  /** Returns the sources of each node; one that several nodes use is in the list once for each of them. */
  'queue.sources': serverRoute({
    answer: z.object({ data: many(Source), nodes: many(text()) }),
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
    answer: z.object({ unblocked: whole() }),
    act: { says: 'used the source {object} again', type: 'source', keeps: ['unblocked'] },
    body: z.strictObject({ source: z.string().min(1).max(100).optional() }),
    async run(deps, { source: name = null }, act) {
      act.on({ object: name ?? "the system's address" });
      const shown = await figuresOf(deps, sourceFigures);
      const found = shown.flatMap(({ node, value }) =>
        value.flatMap((source) => (source.name === name ? [{ node, blocks: source.blocks }] : [])),
      );
      if (found.length === 0)
        throw notFound('source', `there is no source ${JSON.stringify(name)}: see \`posthorn queue sources\``);
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

const sourceRecord = (at: { node: string; delivers: boolean }, source: SourceReport): Source => {
  const { name, pool, ehlo, ipv4, ipv6, paused, absent, blocks, warmUp } = source;
  return {
    object: 'source',
    name,
    ...at,
    ...{ pool, ehlo, ipv4, ipv6, paused, absent },
    blocks: blocks.map(({ since, until, ...one }) => ({ ...one, since: rfc3339(since), until: rfc3339(until) })),
    warm_up: warmUp.map(({ site, sent, cap }) => ({ site, sent, cap })),
  };
};
