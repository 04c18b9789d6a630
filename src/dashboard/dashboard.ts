/**
 * The dashboard: Koa with its layers in order, the pages, and nothing else.
 *
 *   answer       headers of every answer; what was thrown becomes a page
 *   assets       style sheet and script
 *   (router)     which page is it
 *   visitor      whose session is it; where there is none, to the sign-in
 *   form         the body, and whether the form is ours (form-reading.ts)
 *   show         the page's handler (given visit.ts), and its view as HTML (showing.ts)
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import Koa from 'koa';
import { Router } from '@koa/router';
import { bodyLimits, drain, hasBody, strangerLimits } from '../api/body.ts';
import { addressList } from '../net/ip.ts';
import { HSTS, isSecure } from '../api/secure.ts';
import { findSession } from '../members/session-store.ts';
import { loadAssets } from './assets.ts';
import { readCookie } from './cookies.ts';
import type { DashboardDeps } from './deps.ts';
import { readForm, signInAgain, signInFirst } from './form-reading.ts';
import { noSuchPage, type Context, type DashboardContext, type Layer, type State } from './context.ts';
import type { Page } from './page.ts';
import { pagesOf } from './pages.ts';
import { render, showProblem } from './render.ts';
import { createFormTokens } from './tokens.ts';
import { loadViews } from './views.ts';
import { guestOf, visitOf } from './visit.ts';

export interface Dashboard {
  /**
   * Whether a request is for us; what is not is the API's. A path that nobody has is ours where a person asks for it, who is
   * better told so by a page than by JSON.
   */
  owns(request: Pick<IncomingMessage, 'url' | 'method' | 'headers'>): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Ends what goes on by itself, such as live tails. */
  stop(): void;
}

/** Nothing runs, loads or is framed but what we serve ourselves. */
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/** Throws where a view or an asset cannot be read. */
export function createDashboard(deps: DashboardDeps): Dashboard {
  const pages = pagesOf(deps);
  const firsts = new Set(['assets', ...pages.map(({ path }) => firstOf(path))]);
  const theirs = new Set(['healthz', 'readyz', ...deps.routes.map(({ path }) => firstOf(path))]);
  const house: DashboardContext = {
    deps,
    views: loadViews(),
    assets: loadAssets(),
    tokens: createFormTokens(deps.keyring.derive('dashboard forms')),
    inside: deps.operator.inside,
    trusted: addressList(deps.config.http.trustedProxies),
    firsts,
    endings: new Set(),
  };
  const app = new Koa<State>();
  app.on('error', (err: unknown) => {
    deps.log.debug({ err }, 'a connection broke');
  });
  app.use(answer(house));
  app.use(assetLayer(house));
  app.use(routerOf(pages).routes());
  app.use(visitor(house));
  app.use(form(house));
  app.use(show(house));
  const handle = app.callback();
  return {
    owns({ url = '/', method, headers }) {
      const first = firstOf(url);
      // `*` and `//v1/messages` have no first step either, but are not the front page.
      if (first === '') return /^\/(?:\?|$)/.test(url);
      if (firsts.has(first)) return true;
      return method === 'GET' && !theirs.has(first) && (headers.accept ?? '').includes('text/html');
    },
    handle: (request, response) => void handle(request, response),
    stop() {
      for (const end of [...house.endings]) end();
      deps.history.stop();
    },
  };
}

const firstOf = (url: string): string => url.split(/[/?]/, 2)[1] ?? '';

function answer(house: DashboardContext): Layer {
  return async (ctx, next) => {
    const { deps, trusted } = house;
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
      'Referrer-Policy': 'same-origin',
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Cross-Origin-Resource-Policy': 'same-origin',
      'Cache-Control': 'no-store',
    });
    try {
      await next();
    } catch (error) {
      showProblem(house, ctx, error);
    } finally {
      ctx.state.held?.release();
    }
  };
}

/** A body that nobody read has to end, too: the connection serves the next request, or it is cut. */
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
    ctx.body = isGzip ? asset.gzip : asset.bytes;
  };
}

function routerOf(pages: readonly Page[]): Router<State> {
  const router = new Router<State>({ sensitive: true, strict: true });
  for (const page of pages) {
    router.register(page.path, [page.method], async (ctx, next) => {
      // `/keys/new` is also `/keys/:id`: what is declared first counts.
      if (ctx.state.page === null) Object.assign(ctx.state, { page, params: ctx.params });
      await next();
    });
  }
  return router;
}

/** To pages of administrators others are told that they do not exist; to guests only what is no place of ours. */
function visitor(house: DashboardContext): Layer {
  return async (ctx, next) => {
    const { state } = ctx;
    state.sessionToken = readCookie(ctx.get('cookie'), 'session', state.isSecure);
    state.session =
      state.sessionToken === ''
        ? null
        : await findSession(house.deps, state.sessionToken, { isPoll: ctx.get('x-poll') !== '' });
    if (state.session?.row.stage === 'open') house.deps.newcomers.known(ctx.req);
    else house.deps.newcomers.request(ctx.req, ctx.res);
    const { page } = state;
    if (page === null) throw await nowhere(house, ctx);
    if (page.who !== 'anyone') {
      if (state.session?.row.stage !== 'open') throw await signInAgain(house, ctx);
      if (page.who === 'admin' && state.session.member.is_admin !== 1) throw await nowhere(house, ctx);
    }
    await next();
  };
}

async function nowhere(house: DashboardContext, ctx: Context): Promise<Error> {
  const { state } = ctx;
  if (state.session?.row.stage === 'open') {
    // With the menu around it.
    state.form = new URLSearchParams();
    state.visit = await visitOf(house, ctx, guestOf(house, ctx));
    return noSuchPage();
  }
  return house.firsts.has(firstOf(ctx.url)) ? signInFirst(ctx) : noSuchPage();
}

function form(house: DashboardContext): Layer {
  return async (ctx, next) => {
    ctx.state.form = new URLSearchParams();
    const { page } = ctx.state;
    const isKnown = page?.knows === undefined || (await page.knows(guestOf(house, ctx)));
    if (ctx.method === 'POST' && isKnown) ctx.state.form = await readForm(house, ctx);
    await next();
  };
}

function show(house: DashboardContext): Layer {
  return async (ctx) => {
    const { page } = ctx.state;
    if (page === null) throw noSuchPage();
    const guest = guestOf(house, ctx);
    if (page.who !== 'anyone') ctx.state.visit = await visitOf(house, ctx, guest);
    render(house, ctx, await page.run(ctx.state.visit ?? guest));
  };
}
