/**
 * The cookies of the dashboard, by Koa's own `ctx.cookies`: one set of names and attributes for all of them. Only `zone`, the time zone
 * of the browser, is set by a script (app.js).
 */
import type { Context } from './context.ts';
import { DAY_MS } from '../base/time.ts';

export type CookieName = 'session' | 'guest' | 'theme' | 'device' | 'say' | 'zone';

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
