/** Reads the forms that a browser sends, refuses those that are not ours or not of this sign-in, and does one that is sent twice once. */
import { hash } from 'node:crypto';
import { bodyLimits, readBody, readOpenForm } from '../api/body.ts';
import type { Clock } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import { Problem } from '../base/problem.ts';
import { DAY_MS } from '../base/time.ts';
import { boundTo, placeBack, type Context } from './context.ts';
import { openedOf } from './forms.ts';
import { placeWithin } from './links.ts';
import type { Move, Page, Shown } from './page.ts';
import { guestOf, visitOf } from './visit.ts';

/** Against requests forged by other sites. What is sealed differs from page to page, so that lengths of compressed pages do not tell it (BREACH). */
const TOKEN_PURPOSE = 'dashboard form of ';

/** Returns a token for the forms of one page, bound to this session or cookie. */
export const tokenFor = (keyring: Pick<Keyring, 'seal'>, bound: string): string =>
  keyring.seal(TOKEN_PURPOSE + bound, '');

export const isToken = (keyring: Pick<Keyring, 'open'>, bound: string, token: string): boolean =>
  bound !== '' && openedOf(keyring, TOKEN_PURPOSE + bound, token) !== null;

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

/** Reads the fields; the body last, since what the request lacks or says about its origin is enough to refuse it. */
export async function readForm(ctx: Context): Promise<URLSearchParams> {
  const { config, keyring } = ctx.server;
  const bound = boundTo(ctx);
  // A browser says from which address a form was sent.
  const origin = ctx.get('origin');
  const isPlain = origin.startsWith('http:') && ctx.state.isSecure;
  // Behind TLS cookies are `Secure`, and a browser that came without TLS keeps none of them.
  if (bound === '' && isPlain)
    throw new Problem(
      'invalid_request',
      `This page came without TLS, so your browser kept no cookie of it, and signing in is not possible here. Open the dashboard at ${config.http.publicUrl} instead.`,
    );
  if (bound === '') throw badForm();
  // Fetch Metadata: a browser says where a request comes from; an old one, or one without TLS, has only Origin.
  const site = ctx.get('sec-fetch-site');
  const isOwn = origin.endsWith(`//${ctx.get('host')}`) || origin === new URL(config.http.publicUrl).origin;
  if (site === '' ? origin !== '' && !isOwn : site !== 'same-origin' && site !== 'none') throw badForm();
  if (ctx.is('application/x-www-form-urlencoded') === false) throw badForm();
  const fields = new URLSearchParams((await readBytes(ctx)).toString('utf8'));
  const { session, page } = ctx.state;
  if (!isToken(keyring, bound, fields.get('_token') ?? '')) {
    // The sign-in of a second window, while the first one has signed in already.
    const isSignedIn = page?.path === '/login' && session?.row.stage === 'open' && site === 'same-origin';
    throw isSignedIn ? new SignInFirst(placeWithin(fields.get('next'))) : badForm();
  }
  return fields;
}

/** Throws if the form that was read is of another account than the session looks at. */
export async function refuseOtherAccount(ctx: Context): Promise<void> {
  const { page, form } = ctx.state;
  if (page === null || !dependsOnAccount(page) || !form.has('_account')) return;
  ctx.state.visit = await visitOf(ctx);
  if (form.get('_account') !== ctx.state.visit.account.id)
    throw new Problem(
      'invalid_request',
      'This form was opened for another account than the one that you look at now, so it was not sent. Switch back to that account, and repeat what you did.',
    );
}

/** Reads the body into the memory of the account that is looked at; without a session it has the budgets of strangers. */
async function readBytes(ctx: Context): Promise<Buffer> {
  const { session } = ctx.state;
  const { clock, usedUp, bodyMemory } = ctx.server;
  const owner = session?.row.stage === 'open' ? (session.row.account_id ?? session.member.id) : null;
  const share = bodyMemory.begin(owner, guestOf(ctx).ip);
  ctx.state.bodyShare = share;
  if (owner === null) return await readOpenForm({ clock, usedUp, limits: bodyLimits }, ctx.req, share.take);
  return await readBody({ clock, limits: { ...bodyLimits, bodyBytes: FORM_BYTES } }, ctx.req, 'identity', share.take);
}

/** Returns whether it matters for the page which account is looked at. */
const dependsOnAccount = ({ who, path }: Page): boolean =>
  who === 'member' && path !== '/account' && !path.startsWith('/profile');

export type FormRepeats = ReturnType<typeof createFormRepeats>;

/** Redirects are kept for a day, and no more of them than this. */
const MOST_KEPT = 2000;

/**
 * Answers later sends of the same form: a double click without JavaScript, a second click on a slow network, a browser that sends a form again. Each
 * page has a number, which its forms carry (`_form`, views/_token.hbs). The first send with this number and these fields does the work; later ones,
 * also meanwhile, get its redirect, or are led to the page that its answer names (`again`): a secret is not shown twice. A refused form can be
 * corrected and sent again. Redirects are kept in memory: other nodes, or a restart, do not know them.
 */
export function createFormRepeats(clock: Pick<Clock, 'now'>) {
  const sent = new Map<string, { at: number; later: Promise<Move | null> }>();

  function forgetOld(): void {
    for (const [key, { at }] of sent)
      if (sent.size > MOST_KEPT || at + DAY_MS <= clock.now()) sent.delete(key);
      else return;
  }

  /** Does the work of a form once. `repeated` is called before a later send is answered with the first one's redirect. */
  return async function once(form: SentForm, work: () => Promise<Shown>, repeated: () => Promise<void>) {
    const key = keyOf(form);
    if (key === null) return await work();
    forgetOld();
    for (let first = sent.get(key); first !== undefined; first = sent.get(key)) {
      const later = await first.later;
      if (later !== null) {
        await repeated();
        return { ...later, say: `The form was sent twice and done once. ${later.say ?? ''}`.trim() };
      }
      if (sent.get(key) === first) sent.delete(key);
    }
    const shown = work();
    sent.set(key, { at: clock.now(), later: shown.then(laterOf, () => null) });
    return await shown;
  };
}

interface SentForm {
  memberId: string;
  url: string;
  fields: URLSearchParams;
}

/** Returns null for a form without a number. All fields count, so that a form that was changed is a new one. */
function keyOf({ memberId, url, fields }: SentForm): string | null {
  if ((fields.get('_form') ?? '') === '') return null;
  const counted = new URLSearchParams(fields);
  // Each page has another token, and the script renews it before a form goes out.
  counted.delete('_token');
  return hash('sha256', JSON.stringify([memberId, url, counted.toString()]), 'base64url');
}

/** Returns what a later send of the form is answered with; null if it may do the work itself. */
function laterOf(shown: Shown): Move | null {
  // A redirect with a new session is not repeated: its cookies are stored nowhere.
  if (shown.kind === 'move') return shown.cookies === undefined ? shown : null;
  if (shown.kind !== 'view' || shown.again === undefined) return null;
  return {
    kind: 'move',
    to: shown.again,
    say: 'Its answer was shown then: if you have not stored a secret, make a new one.',
  };
}
