/**
 * Forms on their way in: whether a form is ours, and what becomes of one that comes too late, when its session has ended, when
 * somebody has signed in again in another window, or looks at another account by now (late.ts).
 */
import { bodyLimits, readBody, readOpenForm } from '../api/body.ts';
import { Problem } from '../base/problem.ts';
import { readCookie } from './cookies.ts';
import { boundTo, placeBack, type Context, type DashboardContext } from './context.ts';
import { lateForm, lateFormIn, TooLate } from './late.ts';
import { placeWithin } from './links.ts';
import type { Page } from './page.ts';
import { guestOf, visitOf } from './visit.ts';

/** The largest form is a template with its html; it is encoded for the wire, which may triple it. */
const FORM_BYTES = 2 * 1024 * 1024;

/** Thrown to get out of all layers: the answer is a redirect. */
export class SignInFirst extends Error {
  readonly to: string;
  constructor(to: string) {
    super('nobody is signed in');
    this.to = to;
  }
}

export function signInFirst(ctx: Context): SignInFirst {
  const back = ctx.method === 'GET' && ctx.url !== '/' ? `?next=${encodeURIComponent(ctx.url)}` : '';
  return new SignInFirst(`/login${back}`);
}

/** What was typed when the session was over goes through the sign-in, where it was a form of ours. */
export async function signInAgain(house: DashboardContext, ctx: Context): Promise<Error> {
  // Who wanted to sign out, or to look at another account, has lost nothing.
  if (ctx.method !== 'POST' || ctx.path === '/logout' || ctx.path === '/account') return signInFirst(ctx);
  // Without a cookie of ours there is nothing that a token could be of.
  if (ctx.state.sessionToken === '' && !isFromHere(ctx)) return signInFirst(ctx);
  const fields = await readFields(house, ctx);
  const isOurs = house.tokens.isRight(ctx.state.sessionToken, fields.get('_token') ?? '') || isFromHere(ctx);
  return isOurs ? new TooLate('ended', lateForm(ctx.path, placeBack(ctx), fields)) : signInFirst(ctx);
}

/** Fetch Metadata: only the browser itself can say this, and only of a page of ours. */
const isFromHere = (ctx: Context): boolean => ctx.get('sec-fetch-site') === 'same-origin';

const badForm = (): Problem =>
  new Problem(
    'invalid_request',
    'This form belongs to an earlier sign-in, or did not come from this dashboard. Go back, load the page again, and repeat what you did.',
  );

/** The body is read last: what its sender lacks beforehand, or says about where it comes from, is enough to refuse it. */
async function readFields({ deps }: DashboardContext, ctx: Context): Promise<URLSearchParams> {
  // Fetch Metadata: a browser says where a request comes from, and another site has no business here.
  const site = ctx.get('sec-fetch-site');
  if (site !== '' && site !== 'same-origin' && site !== 'none') throw badForm();
  if (ctx.is('application/x-www-form-urlencoded') === false) throw badForm();
  const owner = ownerOf(deps, ctx);
  const held = deps.held.begin(owner);
  ctx.state.held = held;
  const { clock, usedUp } = deps;
  const body =
    owner === null
      ? await readOpenForm({ clock, usedUp, limits: bodyLimits }, ctx.req, held.take)
      : await readBody({ clock, limits: { ...bodyLimits, bodyBytes: FORM_BYTES } }, ctx.req, 'identity', held.take);
  return new URLSearchParams(body.toString('utf8'));
}

/**
 * Whose memory a form is read into: the account that is looked at; else the device, where somebody has signed in before (what was
 * typed when the session was over may be a whole template). Null for a stranger.
 */
function ownerOf({ devices }: DashboardContext['deps'], ctx: Context): string | null {
  const { session, isSecure } = ctx.state;
  if (session?.row.stage === 'open') return session.row.account_id ?? session.member.id;
  const device = devices.idOf(readCookie(ctx.get('cookie'), 'device', isSecure));
  return device === null ? null : `device:${device}`;
}

export async function readForm(house: DashboardContext, ctx: Context): Promise<URLSearchParams> {
  if (boundTo(ctx) === '') throw badForm();
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
async function signedInMeanwhile(house: DashboardContext, ctx: Context, fields: URLSearchParams): Promise<Error> {
  const late = lateFormIn(fields);
  if (late === null) return new SignInFirst(placeWithin(fields.get('next')));
  ctx.state.visit = await visitOf(house, ctx, guestOf(house, ctx));
  const isSame = late.ofAccount === null || late.ofAccount === ctx.state.visit.account.id;
  return new TooLate(isSame ? 'sign-in' : 'account', late);
}

/** Pages of which it matters which account is looked at. */
const isOfAccount = ({ who, path }: Page): boolean =>
  who === 'member' && !['/account', '/logout'].includes(path) && !path.startsWith('/profile');
