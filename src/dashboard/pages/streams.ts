/** Streams: kinds of mail with separate queues. */
import type { DashboardDeps } from '../deps.ts';
import type { Page } from '../page.ts';
import { resource } from '../resource.ts';

const BUILT_IN = ['transactional', 'broadcast'];

export const streamPages = (deps: DashboardDeps): Page[] =>
  resource(deps, {
    path: '/streams',
    view: 'streams',
    title: 'Streams',
    async load(visit) {
      const { data } = await visit.ask('listStreams', { query: { limit: '100' } });
      return { rows: data.map((stream) => ({ ...stream, isBuiltIn: BUILT_IN.includes(stream.slug) })) };
    },
  });
