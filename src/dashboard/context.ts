/** The context of all requests to the dashboard, the state of one of them, and its cookies. */
import type Koa from 'koa';
import type { BodyMemory, BodyShare } from '../api/body.ts';
import type { Inside } from '../api/inside.ts';
import type { Newcomers } from '../api/newcomers.ts';
import type { Route } from '../api/route.ts';
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Log } from '../base/log.ts';
import { Problem } from '../base/problem.ts';
import { DAY_MS } from '../base/time.ts';
import type { Config } from '../config/schema.ts';
import type { KnownDevices } from '../members/sign-in.ts';
import type { Passwords } from '../members/password.ts';
import type { Session } from '../members/session-store.ts';
import type { addressList } from '../net/ip.ts';
import type { History } from '../operator/metrics/meters.ts';
import type { Database } from '../storage/database.ts';
import type { Assets } from './assets.ts';
import type { FormRepeats } from './form-reading.ts';
import { placeWithin } from './links.ts';
import type { Page, Visit } from './page.ts';
import type { Inputs } from './view-forms.ts';
import type { Views } from './views.ts';

export interface DashboardDeps {
  db: Database;
  clock: Clock;
  log: Pick<Log, 'error' | 'debug'>;
  keyring: Keyring;
  passwords: Passwords;
  devices: KnownDevices;
  /** The memory for bodies, shared with the API. */
  bodyMemory: BodyMemory;
  /** Budgets for connections without a key or a session. */
  newcomers: Newcomers;
  usedUp: UsedUp;
  /** The operations: their paths are not the dashboard's, and forms are made from their inputs. */
  routes: readonly Route[];
  /** Calls operations for pages. */
  inside: Inside;
  /** Queue depth and acceptance times of the last day; stopped with the dashboard. */
  history: History;
  config: Config;
  version: string;
}

export interface Server extends DashboardDeps {
  views: Views;
  assets: Assets;
  inputs: Inputs;
  repeats: FormRepeats;
  trusted: ReturnType<typeof addressList>;
  /** Callbacks that end answers which are still being sent, such as exports. */
  endings: Set<() => void>;
}

export interface State {
  page: Page | null;
  params: Record<string, string>;
  session: Session | null;
  sessionToken: string;
  form: URLSearchParams;
  /** Memory for bodies that the form takes; released with the answer. */
  bodyShare: BodyShare | undefined;
  isSecure: boolean;
  visit: Visit | undefined;
}
export type Context = Koa.ParameterizedContext<State, { server: Server }>;
export type Layer = Koa.Middleware<State, { server: Server }>;

export const noSuchPage = (): Problem => new Problem('not_found', 'There is no such page.');

/** Only `zone`, the time zone of the browser, is set by a script (app.js). */
type CookieName = 'session' | 'guest' | 'theme' | 'device' | 'say' | 'zone';

/** The theme and the known device are kept for a year; the other cookies end with the browser. */
const YEAR_MS = 365 * DAY_MS;
const lasting: ReadonlySet<CookieName> = new Set(['theme', 'device']);

/** Behind TLS the prefix `__Host-` binds a cookie to this very host (RFC 6265bis section 4.1.3.2). */
const nameInBrowser = (ctx: Context, name: CookieName): string =>
  `${ctx.state.isSecure ? '__Host-' : ''}posthorn_${name}`;

/** Returns the value, '' if there is none. */
export const readCookie = (ctx: Context, name: CookieName): string => ctx.cookies.get(nameInBrowser(ctx, name)) ?? '';

/** Sets a cookie for `/` that scripts cannot read, behind TLS with `Secure`; null deletes it. */
export function setCookie(ctx: Context, name: CookieName, value: string | null): void {
  ctx.cookies.secure = ctx.state.isSecure;
  const maxAge = lasting.has(name) && value !== null ? YEAR_MS : undefined;
  ctx.cookies.set(nameInBrowser(ctx, name), value, { sameSite: 'lax', httpOnly: true, overwrite: true, maxAge });
}

/** Returns what the form tokens of this visitor are bound to: the session, whose cookie may be renewed, or the cookie of a guest. */
export const boundTo = (ctx: Context): string => ctx.state.session?.row.id ?? readCookie(ctx, 'guest');

/** Returns the page that the visitor came from, or `/` if it is not a page of ours; `//evil.test` under our host name is not. */
export function placeBack(ctx: Context): string {
  const from = ctx.get('referer');
  if (!URL.canParse(from)) return '/';
  const { host, pathname, search } = new URL(from);
  return host === ctx.get('host') ? placeWithin(pathname + search) : '/';
}
