/** The state of one request to the dashboard, and the parts that all requests share. */
import type Koa from 'koa';
import type { addressList } from '../net/ip.ts';
import type { BodyShare } from '../api/body-memory.ts';
import { Problem } from '../base/problem.ts';
import type { Session } from '../members/session-store.ts';
import type { Assets } from './assets.ts';
import { readCookie } from './cookies.ts';
import type { DashboardDeps } from './deps.ts';
import type { FormRepeats } from './form-repeats.ts';
import type { Inside } from '../api/inside.ts';
import type { Page, Visit } from './page.ts';
import { placeWithin } from './links.ts';
import type { FormTokens } from './tokens.ts';
import type { Views } from './views.ts';

export interface State {
  page: Page | null;
  params: Record<string, string>;
  /** Set by the layer `visitor`. */
  session: Session | null;
  sessionToken: string;
  form: URLSearchParams;
  /** Memory for bodies that the form takes; released with the answer. */
  bodyShare: BodyShare | undefined;
  isSecure: boolean;
  /** Set by the layer `show`. */
  visit: Visit | undefined;
}
export type Context = Koa.ParameterizedContext<State>;
export type Layer = Koa.Middleware<State>;

export interface DashboardContext {
  deps: DashboardDeps;
  views: Views;
  assets: Assets;
  tokens: FormTokens;
  repeats: FormRepeats;
  inside: Inside;
  trusted: ReturnType<typeof addressList>;
  /** First segments of the paths of our pages. */
  firsts: ReadonlySet<string>;
  /** Callbacks that end answers which stay open, such as live tails. */
  endings: Set<() => void>;
}

export const noSuchPage = (): Problem => new Problem('not_found', 'There is no such page.');

/** Returns what the form tokens of this visitor are bound to: the session, whose cookie may be renewed, or the cookie of a guest. */
export const boundTo = (ctx: Context): string => ctx.state.session?.row.id ?? readCookie(ctx, 'guest');

/** Returns the page that the visitor came from, or `/` if it is not a page of ours; `//evil.test` under our host name is not. */
export function placeBack(ctx: Context): string {
  const from = ctx.get('referer');
  if (!URL.canParse(from)) return '/';
  const { host, pathname, search } = new URL(from);
  return host === ctx.get('host') ? placeWithin(pathname + search) : '/';
}
