/** The sending addresses, for administrators: their pools, warm-up, block lists and pauses. */
import type { DashboardDeps } from '../deps.ts';
import type { Page, Visit } from '../page.ts';
import { resource } from '../resource.ts';

/** Most sites that are shown for a source, the most used first. */
const SHOWN_SITES = 50;

export const sourcePages = (deps: DashboardDeps): Page[] =>
  resource(deps, {
    path: '/settings/sources',
    view: 'sources',
    title: 'Addresses',
    who: 'admin',
    load,
    acts: {
      async '/settings/sources/unblock'(visit, body) {
        const { unblocked } = await visit.ask('queue.unblock', { body });
        return unblocked === 0 ? 'No site has refused it.' : 'Mail is sent from it again to the sites that refused it.';
      },
    },
  });

async function load(visit: Visit) {
  const [{ data, nodes }, holds] = await Promise.all([visit.ask('queue.sources'), visit.ask('queue.holds')]);
  const rows = data.map((source) => ({
    ...source,
    hold: holds.data.find(({ scope, target }) => scope === 'source' && target === source.name) ?? null,
    sites: source.warm_up
      .map((site) => ({ ...site, isFull: site.cap !== null && site.sent >= site.cap }))
      .sort((a, b) => b.sent - a.sent)
      .slice(0, SHOWN_SITES),
  }));
  return {
    rows,
    isFleet: nodes.length > 1,
    isNobody: rows.every(({ delivers }) => !delivers),
    isSystem: rows.length > 0 && rows.every(({ name }) => name === null),
    warming: rows.filter(({ sites }) => sites.length > 0),
    blocks: rows.flatMap(({ name, node, blocks }) => blocks.map((block) => ({ ...block, name, node }))),
  };
}
