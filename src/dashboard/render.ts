/** Turns the answer of a page's handler, or its error, into the HTTP answer: a view in its layout, a redirect, a file, a stream. */
import { randomUUID } from 'node:crypto';
import { catalogue, Problem } from '../base/problem.ts';
import { SignInFirst, tokenFor } from './form-reading.ts';
import { boundTo, placeBack, readCookie, setCookie, type Context } from './context.ts';
import { hasSeveralAccounts, menuFor } from './places.ts';
import { isStorageTrouble } from '../storage/commit.ts';
import { zoneNamed } from '../base/zones.ts';
import { rightsOf } from '../keys/roles.ts';
import { sentenceText } from './words.ts';
import type { Shown, Visit } from './page.ts';

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

export function render(ctx: Context, shown: Shown): void {
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
export function refuseOtherPage(ctx: Context, visit: Visit): boolean {
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

export function showProblem(ctx: Context, error: unknown): void {
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
