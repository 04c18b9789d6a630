/** What the parts of the dashboard pass on to each other about one request, and what all requests share. */
import type Koa from 'koa';
import type { addressList } from '../net/ip.ts';
import type { Held } from '../api/held-memory.ts';
import { Problem } from '../base/problem.ts';
import type { Session } from '../members/session-store.ts';
import type { Assets } from './assets.ts';
import { readCookie, writeCookie, type CookieName } from './cookies.ts';
import type { DashboardDeps } from './deps.ts';
import type { Inside } from '../api/inside.ts';
import type { Page, Visit } from './page.ts';
import { placeWithin } from './links.ts';
import type { FormTokens } from './tokens.ts';
import type { Views } from './views.ts';

export interface State {
  page: Page | null;
  params: Record<string, string>;
  /** Learned by the layer `visitor`. */
  session: Session | null;
  sessionToken: string;
  form: URLSearchParams;
  /** What the body of the form holds of the memory for bodies. */
  held: Held | undefined;
  isSecure: boolean;
  /** Learned by the layer `show`. */
  visit: Visit | undefined;
  /** The cookie of a session that this answer begins. */
  begun: string | undefined;
}
export type Context = Koa.ParameterizedContext<State>;
export type Layer = Koa.Middleware<State>;

export interface DashboardContext {
  deps: DashboardDeps;
  views: Views;
  assets: Assets;
  tokens: FormTokens;
  inside: Inside;
  trusted: ReturnType<typeof addressList>;
  /** First steps of the paths of our pages. */
  firsts: ReadonlySet<string>;
  /** Ends of what goes on by itself. */
  endings: Set<() => void>;
}

export const noSuchPage = (): Problem => new Problem('not_found', 'There is no such page.');

/** The cookie that tokens of this visitor's forms are bound to. */
export function boundTo(ctx: Context): string {
  const { session, sessionToken, begun, isSecure: secure } = ctx.state;
  if (begun !== undefined) return begun;
  return session === null ? readCookie(ctx.get('cookie'), 'guest', secure) : sessionToken;
}

export function setCookie(ctx: Context, name: CookieName, value: string | null): void {
  ctx.append('Set-Cookie', writeCookie(name, value, ctx.state.isSecure));
}

/** Where the visitor came from, as far as that is a page of ours; `//evil.test` under our own host name is none. */
export function placeBack(ctx: Context): string {
  const from = ctx.get('referer');
  if (!URL.canParse(from)) return '/';
  const { host, pathname, search } = new URL(from);
  return host === ctx.get('host') ? placeWithin(pathname + search) : '/';
}
