/**
 * The dashboard: Koa with its layers in order, the pages, and nothing else.
 *
 *   compressText gzip and brotli
 *   answer       headers of every answer; an error becomes a page
 *   assets       style sheets and scripts
 *   (router)     finds the page
 *   visitor      looks the session up; if there is none, redirects to the sign-in
 *   form         reads the form and checks its token (form-reading.ts)
 *   show         calls the page's handler with a visit (visit.ts), a form's only once (form-repeats.ts), and renders its view (render.ts)
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import Koa from 'koa';
import { Router } from '@koa/router';
import { problemAnswer } from '../api/answer.ts';
import { bodyLimits, drain, hasBody, strangerLimits } from '../api/body.ts';
import { addressList } from '../net/ip.ts';
import { compressText } from '../api/compress.ts';
import { HSTS, isSecure } from '../api/secure.ts';
import { newId } from '../base/id.ts';
import type { Problem } from '../base/problem.ts';
import { refusedByRole, rightsOf } from '../keys/roles.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { findSession } from '../members/session-store.ts';
import type { MemberRow } from '../storage/tables.ts';
import { loadAssets } from './assets.ts';
import { readCookie } from './cookies.ts';
import type { DashboardDeps } from './deps.ts';
import { readForm, refuseOtherAccount, SignInFirst, signInFirst } from './form-reading.ts';
import { lacksSecondFactor } from '../members/member-store.ts';
import { createFormRepeats } from './form-repeats.ts';
import { noSuchPage, type Context, type DashboardContext, type Layer, type State } from './context.ts';
import type { Guest, Page, Shown } from './page.ts';
import { pagesOf } from './pages.ts';
import { isEventStream, refuseOtherPage, render, showProblem } from './render.ts';
import { createFormTokens } from './tokens.ts';
import { loadViews } from './views.ts';
import { guestOf, visitOf } from './visit.ts';

export type Dashboard = ReturnType<typeof createDashboard>;
type Head = Pick<IncomingMessage, 'url' | 'method' | 'headers'>;

/** Allows scripts, styles, fonts, images and frames from this server only. */
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/** Creates the dashboard. Throws if a view or an asset cannot be read. */
export function createDashboard(deps: DashboardDeps) {
  const assets = loadAssets();
  const pages = pagesOf(deps, assets);
  const firsts = new Set(['assets', ...pages.map(({ path }) => firstSegment(path))]);
  const theirs = new Set(['healthz', 'readyz', 'compat', ...deps.routes.map(({ path }) => firstSegment(path))]);
  const dashboard: DashboardContext = {
    deps,
    views: loadViews(deps.routes),
    assets,
    tokens: createFormTokens(deps.keyring.derive('dashboard forms')),
    repeats: createFormRepeats({
      clock: deps.clock,
      store: deps.idempotency,
      failed: (err) => {
        deps.log.error({ event: 'form_not_kept', err }, 'the answer to a form could not be kept');
      },
    }),
    inside: deps.inside,
    trusted: addressList(deps.config.http.trustedProxies),
    firsts,
    endings: new Set(),
  };
  const router = routerOf(pages);
  const app = new Koa<State>();
  app.on('error', (err: unknown) => {
    deps.log.debug({ err }, 'a connection broke');
  });
  app.use(compressText);
  app.use(answerLayer(dashboard));
  app.use(assetLayer(dashboard));
  app.use(router.routes());
  app.use(visitorLayer(dashboard));
  app.use(formLayer(dashboard));
  app.use(showLayer(dashboard));
  const handle = app.callback();
  /** Returns whether a browser asks for a page or sends a form of ours: a program would take a page, or the sign-in, for an answer of the API. */
  const isOfBrowser = ({ url = '/', method, headers }: Head): boolean => {
    const { accept = '', 'content-type': type = '' } = headers;
    if (method === 'GET' || method === 'HEAD') return !accept.includes('json') || accept.includes('text/html');
    const isForm = method === 'POST' && /^application\/x-www-form-urlencoded\b/i.test(type);
    return isForm && router.match(url.split('?', 1)[0] ?? '', 'POST').route;
  };
  return {
    /**
     * Returns whether a request is for the dashboard and not for the API. An unknown path is the dashboard's if a browser asks
     * for HTML: a person is better served by a page than by JSON.
     */
    owns(request: Head): boolean {
      const { url = '/', method, headers } = request;
      const first = firstSegment(url);
      if (!isOfBrowser(request)) return false;
      // `*` and `//v1/messages` have no first segment either, but are not the front page.
      if (first === '') return /^\/(?:\?|$)/.test(url);
      if (firsts.has(first)) return true;
      return method === 'GET' && !theirs.has(first) && (headers.accept ?? '').includes('text/html');
    },
    handle(request: IncomingMessage, response: ServerResponse): void {
      if (isOfBrowser(request)) return void handle(request, response);
      // Only on a port of the dashboard's own: elsewhere the API answers.
      const { status, headers, body } = problemAnswer(noSuchPage(), newId('req', deps.clock.now()));
      response.writeHead(status, { ...headers, Connection: 'close' }).end(body);
    },
    /** Ends answers that stay open, such as live tails. */
    stop(): void {
      for (const end of [...dashboard.endings]) end();
      deps.history.stop();
    },
  };
}

const firstSegment = (url: string): string => url.split(/[/?]/, 2)[1] ?? '';

function answerLayer(dashboard: DashboardContext): Layer {
  return async (ctx, next) => {
    const { deps, trusted } = dashboard;
    Object.assign(ctx.state, {
      page: null,
      params: {},
      isSecure: isSecure(ctx.req, deps.config.http.publicUrl, trusted),
    });
    drainLater(deps, ctx);
    ctx.set({
      ...(ctx.state.isSecure ? HSTS : {}),
      'Content-Security-Policy': CSP,
      'X-Content-Type-Options': 'nosniff',
      'X-Frame-Options': 'DENY',
      'X-DNS-Prefetch-Control': 'off',
      'Referrer-Policy': 'same-origin',
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Cross-Origin-Resource-Policy': 'same-origin',
      'Cache-Control': 'no-store',
    });
    try {
      await next();
    } catch (error) {
      showProblem(dashboard, ctx, error);
    } finally {
      ctx.state.bodyShare?.release();
    }
  };
}

/** Drains a body that was not read: the connection then serves the next request, or is closed. */
function drainLater({ clock }: DashboardDeps, { req, res, state }: Context): void {
  if (!hasBody(req)) return;
  res.once('finish', () => {
    if (req.complete) return;
    const isOpen = state.session?.row.stage === 'open';
    void drain(clock, req, { ...bodyLimits, wholeMs: isOpen ? null : strangerLimits.wholeMs });
  });
}

function assetLayer({ assets }: DashboardContext): Layer {
  return async (ctx, next) => {
    const asset = ctx.method === 'GET' || ctx.method === 'HEAD' ? assets.at(ctx.path) : null;
    if (asset === null) {
      await next();
      return;
    }
    ctx.set('Cache-Control', 'public, max-age=31536000, immutable');
    ctx.vary('Accept-Encoding');
    ctx.type = asset.type;
    const isGzip = ctx.acceptsEncodings('gzip') === 'gzip';
    if (isGzip) ctx.set('Content-Encoding', 'gzip');
    ctx.body = isGzip ? asset.gzip() : asset.bytes;
  };
}

function routerOf(pages: readonly Page[]): Router<State> {
  const router = new Router<State>({ sensitive: true, strict: true });
  for (const page of pages) {
    router.register(page.path, [page.method], async (ctx, next) => {
      // `/keys/new` matches `/keys/:id` as well: the page declared first counts.
      if (ctx.state.page === null) Object.assign(ctx.state, { page, params: ctx.params });
      await next();
    });
  }
  return router;
}

/** Looks the session up. A guest is sent to the sign-in for every path of ours. */
function visitorLayer(dashboard: DashboardContext): Layer {
  return async (ctx, next) => {
    const { state } = ctx;
    state.sessionToken = readCookie(ctx, 'session');
    await lookUp(dashboard, ctx, { isPoll: ctx.get('x-poll') !== '' || isEventStream(ctx) });
    if (state.session?.row.stage === 'open') dashboard.deps.newcomers.stopCounting(ctx.req);
    else dashboard.deps.newcomers.request(ctx.req, ctx.res);
    if (state.page === null) throw await pageNotFound(dashboard, ctx);
    await refuseOthers(dashboard, ctx, state.page);
    await next();
  };
}

async function lookUp({ deps }: DashboardContext, { state }: Context, how: { isPoll: boolean }): Promise<void> {
  state.session = state.sessionToken === '' ? null : await findSession(deps, state.sessionToken, how);
}

/** Throws if the page needs a sign-in, or a second factor, that is not there. A page that the member's role does not have answers 403. */
async function refuseOthers(dashboard: DashboardContext, ctx: Context, page: Page): Promise<void> {
  const { session } = ctx.state;
  if (page.who === 'anyone') return;
  if (session?.row.stage !== 'open') throw signInFirst(ctx);
  const refusal = refusalOf(page, session.member);
  if (refusal !== null) {
    await frameVisit(dashboard, ctx);
    throw refusal;
  }
  if (lacksSecondFactor(dashboard.deps.config.dashboard, session.member) && !isForSetUp(page))
    throw new SignInFirst(SECOND_FACTOR, 'This server asks for a second factor: switch it on to go on.');
}

async function pageNotFound(dashboard: DashboardContext, ctx: Context): Promise<Error> {
  const { state } = ctx;
  if (state.session?.row.stage === 'open') {
    await frameVisit(dashboard, ctx);
    return noSuchPage();
  }
  return dashboard.firsts.has(firstSegment(ctx.url)) ? signInFirst(ctx) : noSuchPage();
}

/** Makes the visit for a problem, which is then shown with the menu around it. */
async function frameVisit(dashboard: DashboardContext, ctx: Context): Promise<void> {
  ctx.state.form = new URLSearchParams();
  ctx.state.visit = await visitOf(dashboard, ctx, guestOf(dashboard, ctx));
}

const SECOND_FACTOR = '/profile/second-factor';
/** The pages of a member who has still to switch the second factor on. */
const isForSetUp = ({ path }: Page): boolean => [SECOND_FACTOR, '/session'].includes(path);

function refusalOf({ who, scope }: Page, { role }: MemberRow): Problem | null {
  const { hasServer, scopes } = rightsOf(role);
  if (who === 'admin' && !hasServer) return refusedByRole(null);
  return scope === undefined || scopeAllows(scopes, scope) ? null : refusedByRole([scope]);
}

function formLayer(dashboard: DashboardContext): Layer {
  return async (ctx, next) => {
    ctx.state.form = new URLSearchParams();
    const { page } = ctx.state;
    const isKnown = page?.knows === undefined || (await page.knows(guestOf(dashboard, ctx)));
    if (ctx.method === 'POST' && isKnown) {
      ctx.state.form = await readForm(dashboard, ctx);
      if (page !== null && page.who !== 'anyone') {
        // A body may take minutes, in which the session may end, and the role or the chosen account change.
        await lookUp(dashboard, ctx, { isPoll: true });
        await refuseOthers(dashboard, ctx, page);
        await refuseOtherAccount(dashboard, ctx);
      }
    }
    await next();
  };
}

function showLayer(dashboard: DashboardContext): Layer {
  return async (ctx) => {
    const { page } = ctx.state;
    if (page === null) throw noSuchPage();
    const guest = guestOf(dashboard, ctx);
    if (page.who !== 'anyone') {
      ctx.state.visit = await visitOf(dashboard, ctx, guest);
      if (refuseOtherPage(ctx, ctx.state.visit)) return;
    }
    render(dashboard, ctx, await shownBy(dashboard, ctx, page, guest));
  };
}

/** Calls the page's handler; for a form that a member has sent already, returns the first send's redirect instead. */
async function shownBy(
  { repeats }: DashboardContext,
  { state, method, url }: Context,
  page: Page,
  guest: Guest,
): Promise<Shown> {
  const { visit, form: fields } = state;
  if (visit === undefined || method !== 'POST') return await page.run(visit ?? guest);
  return await repeats.once(
    { memberId: visit.member.id, url, fields },
    async () => await page.run(visit),
    // The browser has dropped the new cookie with the answer to the first send, whose password this one repeats.
    async () => (fields.has('password_now') ? await visit.renewSession() : undefined),
  );
}
