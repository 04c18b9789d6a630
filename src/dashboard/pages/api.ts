/** The API at a glance: every endpoint with its scopes, its error codes, and the description to download. */
import type { Route } from '../../api/route.ts';
import { catalogue } from '../../base/problem.ts';
import type { DashboardDeps } from '../deps.ts';
import { get, view, type Page } from '../page.ts';

export function apiPages({ routes, config }: Pick<DashboardDeps, 'routes' | 'config'>): Page[] {
  const tags = grouped(routes);
  const codes = Object.entries(catalogue).map(([code, { status, cause, cure }]) => ({ code, status, cause, cure }));
  return [
    get('/developer/api', async (visit) => {
      const settings = await visit.ask<{ plan: string; limits: object; usage: object }>('getSettings');
      return view('api', 'API', { tab: 'api', tags, codes, base: config.http.publicUrl, settings });
    }),
  ];
}

function grouped(routes: readonly Route[]): { tag: string; routes: object[] }[] {
  const tags = [...new Set(routes.map(({ tag }) => tag))];
  const shown = ({ method, path, summary, description, scope, deprecated }: Route): object => ({ method, path, summary, description, scopes: scope ?? [], isDeprecated: deprecated !== undefined }); // prettier-ignore
  return tags.map((tag) => ({ tag, routes: routes.filter((route) => route.tag === tag).map(shown) }));
}
