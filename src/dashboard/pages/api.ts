/** The account's use of the API, and every error code. The reference is Swagger UI, a page of its own: no other may write styles into elements. */
import { openapiDocument, openapiRoute } from '../../api/openapi.ts';
import type { Route } from '../../api/route.ts';
import { catalogue } from '../../base/problem.ts';
import { DAY_MS, MINUTE_MS } from '../../base/time.ts';
import type { Assets } from '../assets.ts';
import type { Server } from '../context.ts';
import { get, view, type Page, type Shown, type Visit } from '../page.ts';

const WHERE = '/developer/api';
/** The most pages of 100 requests that are counted: more than any plan allows in a minute. */
const MOST_COUNTED_PAGES = 10;
const DEPRECATED_DAYS = 30;
const REFERENCE_CSP =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export const apiPages: readonly Page[] = [
  get(WHERE, index),
  get(`${WHERE}/reference`, ({ server }) => reference(server.assets)),
  get(`${WHERE}/openapi.json`, ({ server }) => document(server)),
];

/** The operations of the server are for no key. */
const openRoutes = ({ routes }: Server): readonly Route[] => routes.filter(({ scope }) => scope !== 'server');

/** Returns the page of the viewer. Its colours are those of the system. */
function reference(assets: Assets): Shown {
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>API reference · Posthorn</title>
<link rel="icon" href="${assets.urls['icon']}" type="image/svg+xml">
<link rel="stylesheet" href="${assets.urls['swagger-ui']}">
<script src="${assets.urls['swagger']}" defer></script>
<script src="${assets.urls['reference']}" defer></script>
</head>
<body>
<p><a href="${WHERE}">Back to Posthorn</a></p>
<main id="reference" style="overflow-x: auto" data-document="${WHERE}/openapi.json"></main>
<noscript>The reference needs scripts. The <a href="${WHERE}/openapi.json">OpenAPI document</a> has all that it shows.</noscript>
</body>
</html>
`;
  return { kind: 'file', body, type: 'text/html; charset=utf-8', csp: REFERENCE_CSP };
}

/** The document of `/v1/openapi.json`, which the dashboard's port does not have if it is another one. */
function document(server: Server): Shown {
  const routes = openRoutes(server);
  const settings = { publicUrl: server.config.http.publicUrl, version: server.version };
  const body = JSON.stringify(openapiDocument([...routes, openapiRoute(routes, settings)], settings));
  return { kind: 'file', body, type: 'application/json' };
}

async function index(visit: Visit): Promise<Shown> {
  const { config, version } = visit.server;
  const [settings, used, deprecated] = await Promise.all([
    visit.may('settings') ? visit.ask('getSettings') : null,
    usedNow(visit),
    deprecatedInUse(visit, openRoutes(visit.server)),
  ]);
  const limit = settings?.limits.requests_per_minute ?? null;
  return view('api', 'API', {
    base: config.http.publicUrl,
    clientVersion: version,
    plan: settings?.plan ?? visit.account.plan,
    limit,
    used: limit === null ? used : Math.min(used, limit),
    deprecated,
    codes: Object.entries(catalogue).map(([code, { status, cause, cure }]) => ({ code, status, cause, cure })),
  });
}

/** Counts the requests with keys in this minute of the clock, as the rate limit does. */
async function usedNow(visit: Visit): Promise<number> {
  const since = new Date(Math.floor(visit.now / MINUTE_MS) * MINUTE_MS).toISOString();
  let count = 0;
  let after: string | null = null;
  for (let page = 0; page < MOST_COUNTED_PAGES; page++) {
    const asked: Record<string, string | null> = { by: 'key', since, limit: '100', after };
    const { data, next_cursor: next } = await visit.ask('listAuditEntries', { query: asked });
    count += data.length;
    if (next === null) break;
    after = next;
  }
  return count;
}

/** Returns the keys of the account that still use deprecated endpoints. */
async function deprecatedInUse(visit: Visit, routes: readonly Route[]): Promise<object[]> {
  const since = new Date(visit.now - DEPRECATED_DAYS * DAY_MS).toISOString();
  const found = await Promise.all(
    routes.map(async ({ method, path, deprecated }) => {
      if (deprecated === undefined) return [];
      const query = { by: 'key', method, endpoint: path, since, limit: '100' };
      const { data } = await visit.ask('listAuditEntries', { query });
      const keys = [...new Map(data.map(({ key_id: id, actor, at }) => [id, { id, actor, at }])).values()];
      return [{ method, path, ...deprecated, keys }];
    }),
  );
  return found.flat();
}
