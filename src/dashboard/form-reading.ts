/** Reads the forms that a browser sends, and refuses those that are not ours, or not of this sign-in. */
import { bodyLimits, readBody, readOpenForm } from '../api/body.ts';
import { Problem } from '../base/problem.ts';
import { boundTo, placeBack, type Context, type DashboardContext } from './context.ts';
import { placeWithin } from './links.ts';
import type { Page } from './page.ts';
import { guestOf, visitOf } from './visit.ts';

/** The largest form is a template with its HTML; encoding for the wire may triple it. */
const FORM_BYTES = 2 * 1024 * 1024;

/** Thrown to leave all layers: the answer is a redirect. */
export class SignInFirst extends Error {
  readonly to: string;
  /** Text for the top of the page that the redirect leads to. */
  readonly say: string | undefined;
  constructor(to: string, say?: string) {
    super('a page was asked for without a sign-in');
    this.to = to;
    this.say = say;
  }
}

/** Returns the way to the sign-in and back: to the page itself, or to the one whose form was sent. */
export function signInFirst(ctx: Context): SignInFirst {
  const isForm = ctx.method === 'POST';
  const back = isForm ? placeBack(ctx) : ctx.url;
  const to = back === '/' ? '/login' : `/login?next=${encodeURIComponent(back)}`;
  // Choosing an account loses nothing when the session has ended.
  if (!isForm || ctx.path === '/account') return new SignInFirst(to);
  return new SignInFirst(to, 'Your session has ended, so the form was not sent. Sign in, then fill it in again.');
}

const badForm = (): Problem =>
  new Problem(
    'invalid_request',
    'This form belongs to an earlier sign-in, or did not come from this dashboard. Go back, load the page again, and repeat what you did.',
  );

/** Behind TLS cookies are `Secure`, and a browser that came without TLS keeps none of them. */
const plainHttp = (publicUrl: string): Problem =>
  new Problem(
    'invalid_request',
    `This page came without TLS, so your browser kept no cookie of it, and signing in is not possible here. Open the dashboard at ${publicUrl} instead.`,
  );

const otherAccount = (): Problem =>
  new Problem(
    'invalid_request',
    'This form was opened for another account than the one that you look at now, so it was not sent. Switch back to that account, and repeat what you did.',
  );

/** Reads the fields. The body is read last: what the request lacks or says about its origin is enough to refuse it. */
export async function readForm(dashboard: DashboardContext, ctx: Context): Promise<URLSearchParams> {
  const bound = boundTo(ctx);
  // A browser says from which address a form was sent.
  const origin = ctx.get('origin');
  const isPlain = origin.startsWith('http:') && ctx.state.isSecure;
  if (bound === '') throw isPlain ? plainHttp(dashboard.deps.config.http.publicUrl) : badForm();
  // Fetch Metadata: a browser says where a request comes from; an old one, or one without TLS, has only Origin.
  const site = ctx.get('sec-fetch-site');
  const isOwn =
    origin.endsWith(`//${ctx.get('host')}`) || origin === new URL(dashboard.deps.config.http.publicUrl).origin;
  if (site === '' ? origin !== '' && !isOwn : site !== 'same-origin' && site !== 'none') throw badForm();
  if (ctx.is('application/x-www-form-urlencoded') === false) throw badForm();
  const fields = new URLSearchParams((await readBytes(dashboard, ctx)).toString('utf8'));
  const { session, page } = ctx.state;
  if (!dashboard.tokens.isRight(bound, fields.get('_token') ?? '')) {
    // The sign-in of a second window, while the first one has signed in already.
    const isSignedIn = page?.path === '/login' && session?.row.stage === 'open' && site === 'same-origin';
    throw isSignedIn ? new SignInFirst(placeWithin(fields.get('next'))) : badForm();
  }
  return fields;
}

/** Throws if the form that was read is of another account than the session looks at. */
export async function refuseOtherAccount(dashboard: DashboardContext, ctx: Context): Promise<void> {
  const { page, form } = ctx.state;
  if (page === null || !dependsOnAccount(page) || !form.has('_account')) return;
  ctx.state.visit = await visitOf(dashboard, ctx, guestOf(dashboard, ctx));
  if (form.get('_account') !== ctx.state.visit.account.id) throw otherAccount();
}

/** Reads the body into the memory of the account that is looked at; without a session it has the budgets of strangers. */
async function readBytes(dashboard: DashboardContext, ctx: Context): Promise<Buffer> {
  const { deps } = dashboard;
  const { session } = ctx.state;
  const { clock, usedUp } = deps;
  const owner = session?.row.stage === 'open' ? (session.row.account_id ?? session.member.id) : null;
  const share = deps.bodyMemory.begin(owner, guestOf(dashboard, ctx).ip);
  ctx.state.bodyShare = share;
  if (owner === null) return await readOpenForm({ clock, usedUp, limits: bodyLimits }, ctx.req, share.take);
  return await readBody({ clock, limits: { ...bodyLimits, bodyBytes: FORM_BYTES } }, ctx.req, 'identity', share.take);
}

/** Returns whether it matters for the page which account is looked at. */
const dependsOnAccount = ({ who, path }: Page): boolean =>
  who === 'member' && path !== '/account' && !path.startsWith('/profile');
