/**
 * The dashboard: Koa with its layers in order, the pages, and nothing else.
 *
 *   compressText gzip and brotli
 *   answer       headers of every answer; an error becomes a page
 *   assets       style sheets and scripts
 *   (router)     finds the page
 *   visitor      looks the session up; if there is none, redirects to the sign-in
 *   form         reads the form and checks its token (form-reading.ts)
 *   show         calls the page's handler with a visit (visit.ts), a form's only once, and renders its view in its layout
 */
import { randomUUID } from 'node:crypto';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import Koa from 'koa';
import { Router } from '@koa/router';
import { problemAnswer } from '../api/answer.ts';
import { bodyLimits, drain, hasBody, strangerLimits } from '../api/body.ts';
import { headLimits, takeRequests } from '../api/client-errors.ts';
import { addressList } from '../net/ip.ts';
import { closeAtOnce, listenOn, logAcceptErrors } from '../net/listening.ts';
import { compressText } from '../api/negotiate.ts';
import { HSTS, isSecure } from '../api/client-address.ts';
import { newId } from '../base/id.ts';
import { zoneNamed } from '../base/zones.ts';
import { isStorageTrouble } from '../storage/commit.ts';
import type { Log } from '../base/log.ts';
import { catalogue, Problem } from '../base/problem.ts';
import { refusedByRole, rightsOf } from '../keys/roles.ts';
import { scopeAllows } from '../keys/scopes.ts';
import { findSession } from '../members/session-store.ts';
import type { MemberRow } from '../storage/tables.ts';
import { lacksSecondFactor } from '../members/member-store.ts';
import { loadAssets } from './assets.ts';
import {
  boundTo,
  noSuchPage,
  placeBack,
  readCookie,
  setCookie,
  type Context,
  type DashboardDeps,
  type Layer,
  type Server,
  type State,
} from './context.ts';
import { createFormRepeats, readForm, refuseOtherAccount, SignInFirst, signInFirst, tokenFor } from './form-reading.ts';
import type { Guest, Page, Shown, Visit } from './page.ts';
import { pages } from './pages.ts';
import { hasSeveralAccounts, menuFor } from './places.ts';
import { inputsOf } from './view-forms.ts';
import { loadViews } from './views.ts';
import { guestOf, visitOf } from './visit.ts';
import { sentenceText } from './words.ts';

export type Dashboard = ReturnType<typeof createDashboard>;
type Head = Pick<IncomingMessage, 'url' | 'method' | 'headers'>;

/** Allows scripts, styles, fonts, images and frames from this server only. */
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const firstSegment = (url: string): string => url.split(/[/?]/, 2)[1] ?? '';
/** First segments of the paths of our pages. */
const firsts = new Set(['assets', ...pages.map(({ path }) => firstSegment(path))]);

/** Creates the dashboard. Throws if a view or an asset cannot be read. */
export function createDashboard(deps: DashboardDeps) {
  const theirs = new Set(['healthz', 'readyz', 'compat', ...deps.routes.map(({ path }) => firstSegment(path))]);
  const inputs = inputsOf(deps.routes);
  const server: Server = Object.assign(deps, {
    inputs,
    views: loadViews(inputs),
    assets: loadAssets(),
    repeats: createFormRepeats(deps.clock),
    trusted: addressList(deps.config.http.trustedProxies),
    endings: new Set<() => void>(),
  });
  const router = routerOf(pages);
  const app = new Koa<State, { server: Server }>();
  app.context.server = server;
  app.on('error', (err: unknown) => {
    deps.log.debug({ err }, 'a connection broke');
  });
  app.use(compressText);
  app.use(answerLayer);
  app.use(assetLayer);
  app.use(router.routes());
  app.use(visitorLayer);
  app.use(formLayer);
  app.use(showLayer);
  const handle = app.callback();
  /** Returns whether a browser asks for a page or sends a form of ours: a program would take a page, or the sign-in, for an answer of the API. */
  const isOfBrowser = ({ url = '/', method, headers }: Head): boolean => {
    const { accept = '', 'content-type': type = '' } = headers;
    if (method === 'GET' || method === 'HEAD') return !accept.includes('json') || accept.includes('text/html');
    const isForm = method === 'POST' && /^application\/x-www-form-urlencoded\b/i.test(type);
    return isForm && router.match(url.split('?', 1)[0] ?? '', 'POST').route;
  };
  return {
    /** Returns whether a request is for the dashboard, not the API; an unknown path is if a browser asks for HTML, as a page serves people better. */
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
    /** Ends answers that are still being sent, such as exports. */
    stop(): void {
      for (const end of [...server.endings]) end();
      deps.history.stop();
    },
  };
}

export type OwnPort = Awaited<ReturnType<typeof listenApart>>;
const HEAD_MS = 30_000;
const REQUEST_MS = 120_000;

/** Serves the dashboard on its own port, if the setting `dashboard.port` differs from the API's. Rejects if the port cannot be opened. */
export async function listenApart(
  deps: Pick<DashboardDeps, 'clock' | 'newcomers'> & { log: Log },
  dashboard: Dashboard,
  { host, port, tls }: { host: string; port: number; tls: { cert: string; key: string } | null },
) {
  const limits = { ...headLimits, headersTimeout: HEAD_MS, requestTimeout: REQUEST_MS };
  const listener = (request: http.IncomingMessage, response: http.ServerResponse): void => {
    dashboard.handle(request, response);
  };
  const server =
    tls === null ? http.createServer(limits) : https.createServer({ ...limits, ...tls, minVersion: 'TLSv1.2' });
  takeRequests(server, listener);
  logAcceptErrors(deps, server, 'dashboard');
  deps.newcomers.watch(server);
  await listenOn(server, { host, port });
  return {
    /** Takes a renewed certificate into use for new connections; nothing if the port speaks plain HTTP. */
    setCertificate(renewed: { cert: string; key: string }): void {
      if (server instanceof https.Server) server.setSecureContext({ ...renewed, minVersion: 'TLSv1.2' });
    },
    /** Closes the server and all its connections at once: no answer of the dashboard is worth waiting for. */
    close: (): Promise<void> => closeAtOnce(server),
  };
}

const answerLayer: Layer = async (ctx, next) => {
  const { config, trusted } = ctx.server;
  Object.assign(ctx.state, { page: null, params: {}, isSecure: isSecure(ctx.req, config.http.publicUrl, trusted) });
  drainLater(ctx);
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
    showProblem(ctx, error);
  } finally {
    ctx.state.bodyShare?.release();
  }
};

/** Drains a body that was not read: the connection then serves the next request, or is closed. */
function drainLater({ req, res, state, server: { clock } }: Context): void {
  if (!hasBody(req)) return;
  res.once('finish', () => {
    if (req.complete) return;
    const isOpen = state.session?.row.stage === 'open';
    void drain(clock, req, { ...bodyLimits, wholeMs: isOpen ? null : strangerLimits.wholeMs });
  });
}

const assetLayer: Layer = async (ctx, next) => {
  const asset = ctx.method === 'GET' || ctx.method === 'HEAD' ? ctx.server.assets.at(ctx.path) : null;
  if (asset === null) {
    await next();
    return;
  }
  ctx.set('Cache-Control', 'public, max-age=31536000, immutable');
  ctx.type = asset.type;
  ctx.body = asset.body;
};

function routerOf(pages: readonly Page[]): Router<State, { server: Server }> {
  const router = new Router<State, { server: Server }>({ sensitive: true, strict: true });
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
const visitorLayer: Layer = async (ctx, next) => {
  const { state } = ctx;
  state.sessionToken = readCookie(ctx, 'session');
  await lookUp(ctx, { isPoll: ctx.get('x-poll') !== '' });
  if (state.session?.row.stage === 'open') ctx.server.newcomers.stopCounting(ctx.req);
  if (state.page === null) throw await pageNotFound(ctx);
  await refuseOthers(ctx, state.page);
  await next();
};

async function lookUp({ state, server }: Context, how: { isPoll: boolean }): Promise<void> {
  state.session = state.sessionToken === '' ? null : await findSession(server, state.sessionToken, how);
}

/** Throws if the page needs a sign-in, or a second factor, that is not there. A page that the member's role does not have answers 403. */
async function refuseOthers(ctx: Context, page: Page): Promise<void> {
  const { session } = ctx.state;
  if (page.who === 'anyone') return;
  if (session?.row.stage !== 'open') throw signInFirst(ctx);
  const refusal = refusalOf(page, session.member);
  if (refusal !== null) {
    await frameVisit(ctx);
    throw refusal;
  }
  if (lacksSecondFactor(ctx.server.config.dashboard, session.member) && !isForSetUp(page))
    throw new SignInFirst(SECOND_FACTOR, 'This server asks for a second factor: switch it on to go on.');
}

async function pageNotFound(ctx: Context): Promise<Error> {
  const { state } = ctx;
  if (state.session?.row.stage === 'open') {
    await frameVisit(ctx);
    return noSuchPage();
  }
  return firsts.has(firstSegment(ctx.url)) ? signInFirst(ctx) : noSuchPage();
}

/** Makes the visit for a problem, which is then shown with the menu around it. */
async function frameVisit(ctx: Context): Promise<void> {
  ctx.state.form = new URLSearchParams();
  ctx.state.visit = await visitOf(ctx);
}

const SECOND_FACTOR = '/profile/second-factor';
/** The pages of a member who has still to switch the second factor on. */
const isForSetUp = ({ path }: Page): boolean => [SECOND_FACTOR, '/session'].includes(path);

function refusalOf({ who, scope }: Page, { role }: MemberRow): Problem | null {
  const { hasServer, scopes } = rightsOf(role);
  if (who === 'admin' && !hasServer) return refusedByRole(null);
  return scope === undefined || scopeAllows(scopes, scope) ? null : refusedByRole([scope]);
}

const formLayer: Layer = async (ctx, next) => {
  ctx.state.form = new URLSearchParams();
  const { page } = ctx.state;
  const isKnown = page?.knows === undefined || (await page.knows(guestOf(ctx)));
  if (ctx.method === 'POST' && isKnown) {
    ctx.state.form = await readForm(ctx);
    if (page !== null && page.who !== 'anyone') {
      // A body may take minutes, in which the session may end, and the role or the chosen account change.
      await lookUp(ctx, { isPoll: true });
      await refuseOthers(ctx, page);
      await refuseOtherAccount(ctx);
    }
  }
  await next();
};

const showLayer: Layer = async (ctx) => {
  const { page } = ctx.state;
  if (page === null) throw noSuchPage();
  if (page.who !== 'anyone') {
    ctx.state.visit = await visitOf(ctx);
    if (refuseOtherPage(ctx, ctx.state.visit)) return;
  }
  render(ctx, await shownBy(ctx, page, ctx.state.visit ?? guestOf(ctx)));
};

/** Calls the page's handler; for a form that a member has sent already, returns the first send's redirect instead. */
async function shownBy({ state, method, url }: Context, page: Page, visit: Guest | Visit): Promise<Shown> {
  const work = async (): Promise<Shown> => {
    try {
      return await page.run(visit);
    } catch (error) {
      if (page.again !== undefined && error instanceof Problem) return await page.again(visit, error);
      throw error;
    }
  };
  if (!('member' in visit) || method !== 'POST') return await work();
  const { form: fields } = state;
  return await visit.server.repeats(
    { memberId: visit.member.id, url, fields },
    work,
    // The browser has dropped the new cookie with the answer to the first send, whose password this one repeats.
    async () => (fields.has('password_now') ? await visit.renewSession() : undefined),
  );
}

const LONGEST_SAID = 500;

/** Returns the data of the layout around a page. */
function frameOf(ctx: Context, title: string): object {
  const { clock, assets, keyring, version } = ctx.server;
  const { visit } = ctx.state;
  const theme = readCookie(ctx, 'theme');
  const said = isPart(ctx) ? '' : takeMessage(ctx);
  return {
    title,
    now: clock.now(),
    zone: zoneNamed(new URLSearchParams(ctx.querystring).get('tz')) ?? zoneNamed(readCookie(ctx, 'zone')) ?? 'UTC',
    said,
    theme: theme === 'dark' || theme === 'light' ? theme : 'auto',
    themes: ['auto', 'light', 'dark'],
    token: tokenFor(keyring, boundToOrNew(ctx)),
    formNumber: randomUUID(),
    ...assets.urls,
    version,
    // A form leads back to the page, not to where it was sent.
    here: ctx.method === 'GET' ? ctx.url : placeBack(ctx),
    ...(visit === undefined
      ? { member: null }
      : {
          pageOf: pageOf(visit),
          member: {
            email: visit.member.email,
            isAdmin: visit.isAdmin,
            initial: visit.member.email.slice(0, 1).toUpperCase(),
          },
          menu: menuFor(visit, ctx.path),
          scopes: rightsOf(visit.member.role).scopes,
          account: visit.account,
          accountId: visit.account.id,
          accounts: visit.accounts.map(({ id, name }) => ({ id, name, on: id === visit.account.id })),
          manyAccounts: hasSeveralAccounts(visit),
        }),
  };
}

/** A visitor with neither session nor cookie gets a cookie that the sign-in form is bound to. */
function boundToOrNew(ctx: Context): string {
  const bound = boundTo(ctx);
  if (bound !== '') return bound;
  const made = crypto.randomUUID();
  setCookie(ctx, 'guest', made);
  return made;
}

function render(ctx: Context, shown: Shown): void {
  switch (shown.kind) {
    case 'view':
      ctx.status = shown.status ?? 200;
      ctx.type = 'text/html; charset=utf-8';
      ctx.body = viewHtml(ctx, shown.view, shown.data, shown.title);
      return;
    case 'move':
      for (const { name, value } of shown.cookies ?? []) setCookie(ctx, name, value);
      if (shown.say !== undefined) keepMessage(ctx, shown.say);
      redirect(ctx, shown.to);
      return;
    case 'file':
      if (shown.csp !== undefined) {
        ctx.set('Content-Security-Policy', shown.csp);
        ctx.remove('X-Frame-Options');
      }
      if (shown.name !== undefined) ctx.attachment(shown.name);
      ctx.type = shown.type;
      ctx.body = shown.body;
      return;
  }
}

/** Keeps a text in a cookie, for the top of the next page; as base64url, since a cookie takes few characters. */
function keepMessage(ctx: Context, text: string): void {
  setCookie(ctx, 'say', Buffer.from(text.slice(0, LONGEST_SAID)).toString('base64url'));
}

/** Takes the text out of its cookie, only for a whole page, to which forms lead: else another window that polls at the moment would take it. */
function takeMessage(ctx: Context): string {
  const text = Buffer.from(readCookie(ctx, 'say'), 'base64url').toString().slice(0, LONGEST_SAID);
  if (text !== '') setCookie(ctx, 'say', null);
  return text;
}

/** htmx requests get the inside of the page only, except for a step back in the history. */
const isPart = (ctx: Context): boolean =>
  ctx.get('hx-request') === 'true' && ctx.get('hx-history-restore-request') !== 'true';

const pageOf = ({ member, account }: Pick<Visit, 'member' | 'account'>): string => `${member.id} ${account.id}`;

/**
 * Refuses a part that a page of another account or member asks for, since the session was changed in another window; returns whether it did. The rows
 * of one account would be taken for another's, and their forms act on them. People are led to the whole page; a poll is refused, as what was typed on
 * its page may still be wanted.
 */
function refuseOtherPage(ctx: Context, visit: Visit): boolean {
  const asking = ctx.get('x-page-of');
  if (!isPart(ctx) || asking === '' || asking === pageOf(visit)) return false;
  if (ctx.get('x-poll') === '') redirect(ctx, ctx.url);
  else {
    ctx.status = 409;
    ctx.body = '';
  }
  return true;
}

function viewHtml(ctx: Context, name: string, data: object, title: string): string {
  const frame = frameOf(ctx, title);
  const { views } = ctx.server;
  return isPart(ctx) ? views.part(name, data, frame) : views.page(name, data, frame);
}

function redirect(ctx: Context, to: string): void {
  if (isPart(ctx)) {
    // XMLHttpRequest would follow a redirect, and htmx put a whole page where a part belongs.
    ctx.set('HX-Redirect', to);
    ctx.status = 204;
    return;
  }
  ctx.status = 303;
  ctx.set('Location', to);
  ctx.body = '';
}

function showProblem(ctx: Context, error: unknown): void {
  if (error instanceof SignInFirst) {
    if (error.say !== undefined) keepMessage(ctx, error.say);
    redirect(ctx, error.to);
    return;
  }
  const problem = error instanceof Problem ? error : internalError(ctx, error);
  const { code, message, status, retryAfter } = problem;
  if (retryAfter !== null) ctx.set('Retry-After', String(retryAfter));
  const { cure } = catalogue[code];
  // The catalogue's cure is about keys; the message itself names the roles.
  const isRole = code === 'insufficient_scope' && ctx.state.visit !== undefined;
  const data = {
    status,
    code,
    message: sentenceText(message),
    isRole,
    cure: code === 'invalid_request' || isRole ? null : cure,
    back: placeBack(ctx),
    // The menu has this button, but a member without an account gets no menu.
    canSignOut: ctx.state.session?.row.stage === 'open' && ctx.state.visit === undefined,
  };
  ctx.status = status;
  ctx.type = 'text/html; charset=utf-8';
  const title = status === 404 ? 'Not found' : isRole ? 'Not allowed' : 'That did not work';
  ctx.body = viewHtml(ctx, 'problem', data, title);
}

function internalError(ctx: Context, error: unknown): Problem {
  const { page } = ctx.state;
  // The path of a set-up link is the link itself, which is still good after a failure.
  const path = page?.who === 'anyone' ? page.path : ctx.path;
  ctx.server.log.error({ event: 'page_failed', path, err: error }, 'a page of the dashboard failed');
  if (isStorageTrouble(error))
    return new Problem('service_unavailable', 'The database cannot take this now.', { retryAfter: 10 });
  return new Problem('internal_error', 'Something went wrong on the server; its log has the details.');
}
