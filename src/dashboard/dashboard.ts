/**
 * The dashboard: Koa with its layers in order, the pages, and nothing else.
 *
 *   answer       headers of every answer; what was thrown becomes a page
 *   assets       style sheet and script
 *   (router)     which page is it
 *   visitor      whose session is it; where there is none, to the sign-in
 *   form         the body, and whether the form is ours
 *   show         the page's handler, and its view as HTML
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';
import Koa from 'koa';
import { Router } from '@koa/router';
import { bodyLimits, readBody } from '../api/body.ts';
import { clientAddress, isWithin, networks } from '../api/client-address.ts';
import { catalogue, Problem } from '../base/problem.ts';
import { accountsOf } from '../members/member-store.ts';
import { findSession, type Session } from '../members/session-store.ts';
import { perform } from '../operator/operations.ts';
import { actingAs } from './act.ts';
import { loadAssets, type Assets } from './assets.ts';
import { readCookie, writeCookie, type CookieName } from './cookies.ts';
import type { DashboardDeps } from './deps.ts';
import { carried, lateData, lateForm, lateFormIn, TooLate } from './late.ts';
import { createInside, jsonOf, rawOf, type AskInside, type Asking } from './inside.ts';
import { placeWithin } from './links.ts';
import { navigation } from './navigation.ts';
import type { Guest, Page, Shown, Visit } from './page.ts';
import { pagesOf } from './pages.ts';
import { createFormTokens, type FormTokens } from './tokens.ts';
import { loadViews, type Views } from './views.ts';

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
/** The largest form is a template with its html; it is encoded for the wire, which may triple it. */
const FORM_BYTES = 2 * 1024 * 1024;
const LONGEST_SAID = 500;

interface State {
  page: Page | null;
  params: Record<string, string>;
  /** Learned by the layer `visitor`. */
  session: Session | null;
  sessionToken: string;
  form: URLSearchParams;
  isSecure: boolean;
  /** Learned by the layer `show`. */
  visit: Visit | undefined;
  /** The cookie of a session that this answer begins. */
  begun: string | undefined;
}
type Context = Koa.ParameterizedContext<State>;
type Layer = Koa.Middleware<State>;

interface House {
  deps: DashboardDeps;
  views: Views;
  assets: Assets;
  tokens: FormTokens;
  ask: AskInside;
  trusted: ReturnType<typeof networks>;
  /** First steps of the paths of our pages. */
  firsts: ReadonlySet<string>;
  /** Ends of what goes on by itself. */
  endings: Set<() => void>;
}

/** Throws where a view or an asset cannot be read. */
export function createDashboard(deps: DashboardDeps): Dashboard {
  const pages = pagesOf(deps);
  const firsts = new Set(['assets', ...pages.map(({ path }) => firstOf(path))]);
  const theirs = new Set(['healthz', 'readyz', ...deps.routes.map(({ path }) => firstOf(path))]);
  const house: House = {
    deps,
    views: loadViews(),
    assets: loadAssets(),
    tokens: createFormTokens(deps.keyring.derive('dashboard forms')),
    ask: createInside(deps, deps.routes),
    trusted: networks(deps.config.http.trustedProxies),
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

function answer(house: House): Layer {
  return async (ctx, next) => {
    const { deps, trusted } = house;
    Object.assign(ctx.state, { page: null, params: {}, isSecure: isSecure(ctx.req, deps, trusted) });
    ctx.set({
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
    }
  };
}

/** Over TLS here, at the trusted proxy before us, or by what the operator says the address is. */
function isSecure({ socket, headers }: IncomingMessage, { config }: DashboardDeps, trusted: House['trusted']): boolean {
  if ((socket as Partial<TLSSocket>).encrypted === true || config.http.publicUrl.startsWith('https:')) return true;
  const peer = clientAddress(socket.remoteAddress, undefined, trusted);
  return headers['x-forwarded-proto'] === 'https' && isWithin(trusted, peer);
}

function assetLayer({ assets }: House): Layer {
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

const noSuchPage = (): Problem => new Problem('not_found', 'There is no such page.');

/** To pages of administrators others are told that they do not exist; to guests only what is no place of ours. */
function visitor(house: House): Layer {
  return async (ctx, next) => {
    const { state } = ctx;
    state.sessionToken = readCookie(ctx.get('cookie'), 'session', state.isSecure);
    state.session =
      state.sessionToken === ''
        ? null
        : await findSession(house.deps, state.sessionToken, { isPoll: ctx.get('x-poll') !== '' });
    const { page } = state;
    if (page === null) throw await nowhere(house, ctx);
    if (page.who !== 'anyone') {
      if (state.session?.row.stage !== 'open') throw await signInAgain(house, ctx);
      if (page.who === 'admin' && state.session.member.is_admin !== 1) throw await nowhere(house, ctx);
    }
    await next();
  };
}

async function nowhere(house: House, ctx: Context): Promise<Error> {
  const { state } = ctx;
  if (state.session?.row.stage === 'open') {
    // With the menu around it.
    state.form = new URLSearchParams();
    state.visit = await visitOf(house, ctx, guestOf(house, ctx));
    return noSuchPage();
  }
  return house.firsts.has(firstOf(ctx.url)) ? signInFirst(ctx) : noSuchPage();
}

/** Thrown to get out of all layers: the answer is a redirect. */
class SignInFirst extends Error {
  readonly to: string;
  constructor(to: string) {
    super('nobody is signed in');
    this.to = to;
  }
}

function signInFirst(ctx: Context): SignInFirst {
  const back = ctx.method === 'GET' && ctx.url !== '/' ? `?next=${encodeURIComponent(ctx.url)}` : '';
  return new SignInFirst(`/login${back}`);
}

/** What was typed when the session was over goes through the sign-in, where it was a form of ours. */
async function signInAgain(house: House, ctx: Context): Promise<Error> {
  // Who wanted to sign out, or to look at another account, has lost nothing.
  if (ctx.method !== 'POST' || ctx.path === '/logout' || ctx.path === '/account') return signInFirst(ctx);
  const fields = await readFields(house, ctx);
  const isOurs = house.tokens.isRight(ctx.state.sessionToken, fields.get('_token') ?? '') || isFromHere(ctx);
  return isOurs ? new TooLate('ended', lateForm(ctx.path, placeBack(ctx), fields)) : signInFirst(ctx);
}

/** Fetch Metadata: only the browser itself can say this, and only of a page of ours. */
const isFromHere = (ctx: Context): boolean => ctx.get('sec-fetch-site') === 'same-origin';

function form(house: House): Layer {
  return async (ctx, next) => {
    ctx.state.form = ctx.method === 'POST' ? await readForm(house, ctx) : new URLSearchParams();
    await next();
  };
}

const badForm = (): Problem =>
  new Problem('invalid_request', 'This form belongs to an earlier sign-in, or did not come from this dashboard. Go back, load the page again, and repeat what you did.'); // prettier-ignore

async function readFields({ deps }: House, ctx: Context): Promise<URLSearchParams> {
  // Fetch Metadata: a browser says where a request comes from, and another site has no business here.
  const site = ctx.get('sec-fetch-site');
  if (site !== '' && site !== 'same-origin' && site !== 'none') throw badForm();
  if (ctx.is('application/x-www-form-urlencoded') === false) throw badForm();
  const limits = { ...bodyLimits, bodyBytes: FORM_BYTES };
  const body = await readBody({ clock: deps.clock, limits }, ctx.req, 'identity', () => undefined);
  return new URLSearchParams(body.toString('utf8'));
}

async function readForm(house: House, ctx: Context): Promise<URLSearchParams> {
  const fields = await readFields(house, ctx);
  const { session, page } = ctx.state;
  const isRight = house.tokens.isRight(boundTo(ctx), fields.get('_token') ?? '');
  if (!isRight && (session?.row.stage !== 'open' || !isFromHere(ctx))) throw badForm();
  if (!isRight && page?.path === '/login') throw await signedInMeanwhile(house, ctx, fields);
  if (isRight && (page === null || !isOfAccount(page) || !fields.has('_account'))) return fields;
  ctx.state.visit = await visitOf(house, ctx, guestOf(house, ctx));
  const isSame = !fields.has('_account') || fields.get('_account') === ctx.state.visit.account.id;
  if (isRight && isSame) return fields;
  throw new TooLate(isSame ? 'sign-in' : 'account', lateForm(ctx.path, placeBack(ctx), fields));
}

/** In another window: there is nothing left to do here, but for a form that the sign-in carries. */
async function signedInMeanwhile(house: House, ctx: Context, fields: URLSearchParams): Promise<Error> {
  const late = lateFormIn(fields);
  if (late === null) return new SignInFirst(placeWithin(fields.get('next')));
  ctx.state.visit = await visitOf(house, ctx, guestOf(house, ctx));
  const isSame = late.ofAccount === null || late.ofAccount === ctx.state.visit.account.id;
  return new TooLate(isSame ? 'sign-in' : 'account', late);
}

/** Pages of which it matters which account is looked at. */
const isOfAccount = ({ who, path }: Page): boolean =>
  who === 'member' && !['/account', '/logout'].includes(path) && !path.startsWith('/profile');

/** The cookie that tokens of this visitor's forms are bound to. */
function boundTo(ctx: Context): string {
  const { session, sessionToken, begun, isSecure: secure } = ctx.state;
  if (begun !== undefined) return begun;
  return session === null ? readCookie(ctx.get('cookie'), 'guest', secure) : sessionToken;
}

function show(house: House): Layer {
  return async (ctx) => {
    const { page } = ctx.state;
    if (page === null) throw noSuchPage();
    const guest = guestOf(house, ctx);
    if (page.who !== 'anyone') ctx.state.visit = await visitOf(house, ctx, guest);
    put(house, ctx, await page.run(ctx.state.visit ?? guest));
  };
}

function guestOf({ deps, trusted }: House, ctx: Context): Guest {
  const { params, form: fields, session, sessionToken } = ctx.state;
  const forwarded = ctx.get('x-forwarded-for');
  return {
    params,
    query: new URLSearchParams(ctx.querystring),
    form: fields,
    ip: clientAddress(ctx.req.socket.remoteAddress, forwarded === '' ? undefined : forwarded, trusted),
    userAgent: ctx.get('user-agent').slice(0, 512) || null,
    header: (name) => ctx.get(name) || undefined,
    now: deps.clock.now(),
    sessionToken,
    halfway: session?.row.stage === 'code' ? session : null,
  };
}

async function visitOf(house: House, ctx: Context, guest: Guest): Promise<Visit> {
  const { deps, ask } = house;
  const { session } = ctx.state;
  if (session === null) throw noSuchPage();
  const { member, row } = session;
  const accounts = await accountsOf(deps, member);
  const account = accounts.find(({ id }) => id === row.account_id) ?? accounts[0];
  if (account === undefined)
    throw new Problem('not_found', 'You are not a member of any account yet. Ask an administrator.');
  const asking: Asking = {
    member,
    account,
    ip: guest.ip,
    userAgent: guest.userAgent,
    whenOver: (listener) => {
      whenOver(house, ctx, listener);
    },
  };
  const acting = actingAs({ email: member.email, ip: guest.ip, userAgent: guest.userAgent });
  return {
    ...guest,
    member,
    session: row,
    account,
    accounts,
    actor: acting.actor,
    // The caller names the record that the endpoint answers.
    ask: async <Body>(id: string, asked = {}) => jsonOf(await ask(asking, id, asked)) as Body,
    fetch: async (id, asked = {}) => rawOf(await ask(asking, id, asked)),
    operate: (name, args) => perform(deps.operator, name, args, acting) as never,
    whenOver: (listener) => {
      asking.whenOver(listener);
    },
  };
}

function whenOver({ endings }: House, { res }: Context, listener: () => void): void {
  const once = (): void => {
    if (!endings.delete(once)) return;
    res.off('close', once);
    listener();
  };
  endings.add(once);
  res.once('close', once);
}

/** What the layout shows around a page. */
function frameOf({ deps, assets, tokens }: House, ctx: Context, title: string): object {
  const cookie = ctx.get('cookie');
  const { isSecure: secure, visit } = ctx.state;
  const theme = readCookie(cookie, 'theme', secure);
  const said = readCookie(cookie, 'say', secure).slice(0, LONGEST_SAID);
  if (said !== '') setCookie(ctx, 'say', null);
  return {
    title,
    now: deps.clock.now(),
    said,
    theme: theme === 'dark' || theme === 'light' ? theme : 'auto',
    token: tokens.for(boundToOrNew(ctx)),
    style: assets.url('style.css'),
    script: assets.url('app.js'),
    htmx: assets.url('htmx.js'),
    charts: { library: assets.url('uplot.js'), style: assets.url('uplot.css'), script: assets.url('charts.js') },
    editor: assets.url('editor.js'),
    icon: assets.url('icon.svg'),
    version: deps.version,
    here: ctx.path,
    ...(visit === undefined
      ? { member: null }
      : {
          member: { email: visit.member.email, isAdmin: visit.member.is_admin === 1 },
          nav: navigation(ctx.path, visit.member.is_admin === 1),
          account: visit.account,
          accountId: visit.account.id,
          accounts: visit.accounts.map(({ id, name }) => ({ id, name, on: id === visit.account.id })),
          manyAccounts: visit.accounts.length > 1,
        }),
  };
}

/** Who has neither session nor cookie gets one to bind the forms of the sign-in to. */
function boundToOrNew(ctx: Context): string {
  const bound = boundTo(ctx);
  if (bound !== '') return bound;
  const made = crypto.randomUUID();
  setCookie(ctx, 'guest', made);
  return made;
}

function setCookie(ctx: Context, name: CookieName, value: string | null): void {
  ctx.append('Set-Cookie', writeCookie(name, value, ctx.state.isSecure));
}

function put(house: House, ctx: Context, shown: Shown): void {
  switch (shown.kind) {
    case 'view':
      for (const { name, value } of shown.cookies ?? []) {
        setCookie(ctx, name, value);
        if (name === 'session' && value !== null) ctx.state.begun = value;
      }
      ctx.status = shown.status ?? 200;
      ctx.type = 'text/html; charset=utf-8';
      ctx.body = drawn(house, ctx, shown.view, shown.data, shown.title);
      return;
    case 'move':
      for (const { name, value } of shown.cookies ?? []) setCookie(ctx, name, value);
      if (shown.say !== undefined) setCookie(ctx, 'say', shown.say.slice(0, LONGEST_SAID));
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
    case 'stream':
      ctx.type = shown.type;
      // A proxy that gathers a stream before it passes it on would make a live tail a dead one.
      ctx.set('X-Accel-Buffering', 'no');
      ctx.body = shown.body;
      return;
  }
}

/** htmx asks for what stands inside of the page alone; for a step back in the history it wants all of it. */
const isPart = (ctx: Context): boolean =>
  ctx.get('hx-request') === 'true' && ctx.get('hx-history-restore-request') !== 'true';

function drawn(house: House, ctx: Context, name: string, data: object, title: string): string {
  const { views } = house;
  const frame = frameOf(house, ctx, title);
  return isPart(ctx) ? views.part(name, data, frame) : views.page(name, data, frame);
}

function redirect(ctx: Context, to: string): void {
  if (isPart(ctx)) {
    // A redirect would be followed unseen, and a whole page be put where a part belongs.
    ctx.set('HX-Redirect', to);
    ctx.status = 204;
    return;
  }
  ctx.status = 303;
  ctx.set('Location', to);
  ctx.body = '';
}

function showProblem(house: House, ctx: Context, error: unknown): void {
  if (error instanceof SignInFirst) {
    redirect(ctx, error.to);
    return;
  }
  if (error instanceof TooLate) {
    showLate(house, ctx, error);
    return;
  }
  const problem = error instanceof Problem ? error : broken(house, ctx, error);
  const { code, message, status, retryAfter } = problem;
  if (retryAfter !== null) ctx.set('Retry-After', String(retryAfter));
  const { cure } = catalogue[code];
  const data = { status, code, message, cure: code === 'invalid_request' ? null : cure, back: placeBack(ctx) };
  ctx.status = status;
  ctx.type = 'text/html; charset=utf-8';
  ctx.body = drawn(house, ctx, 'problem', data, status === 404 ? 'Not found' : 'That did not work');
}

function showLate(house: House, ctx: Context, { why, form: late }: TooLate): void {
  const isOver = why === 'ended';
  ctx.status = isOver ? 401 : 409;
  ctx.type = 'text/html; charset=utf-8';
  ctx.body = isOver
    ? drawn(house, ctx, 'login', { next: late.back, kept: carried(late), fault: null }, 'Sign in')
    : drawn(house, ctx, 'late', { ...lateData(late), isOtherAccount: why === 'account' }, 'Not sent yet');
}

function broken({ deps }: House, ctx: Context, error: unknown): Problem {
  deps.log.error({ event: 'page_failed', path: ctx.path, err: error }, 'a page of the dashboard failed');
  return new Problem('internal_error', 'Something went wrong on our side; the log of the server says what.');
}

/** Where the visitor came from, as far as that is a page of ours. */
function placeBack(ctx: Context): string {
  const from = ctx.get('referer');
  if (!URL.canParse(from)) return '/';
  const { host, pathname, search } = new URL(from);
  return host === ctx.get('host') ? pathname + search : '/';
}
