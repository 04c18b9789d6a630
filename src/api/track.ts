/** The targets of links in mail: pixel, link, unsubscribe page; no key, outside of the API. The signed token says all: answers need no look-up. */
import { z } from 'zod';
import { trackingHostOf } from '../domains/dns-records.ts';
import type { Visitor } from '../tracking/bots.ts';
import { readToken, type TrackingToken } from '../tracking/token.ts';
import { trackPaths } from '../tracking/rewrite.ts';
import { readUnsubscribeToken, type Unsubscription } from '../tracking/unsubscribe-link.ts';
import { isUnsubscribed, isWithheld, resubscribe, unsubscribe } from '../tracking/unsubscribe.ts';
import type { ApiContext } from './context.ts';
import { openRoute, type Call, type Reply, type Route } from './route.ts';
import { createHash } from 'node:crypto';
import { escapeHtml } from '../base/html.ts';

type TrackCall = Omit<Call<{ token: string }, object, undefined>, 'caller'>;

/** Mail programs that turn plain text into links include the full stop or bracket after it: a character that no token has ends it. */
const params = z.object({ token: z.string().transform((text) => /^[\w-]*/.exec(text)?.[0] ?? '') });
/** One transparent point, GIF89a. */
const PIXEL = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==', 'base64');
const NO_ROBOTS = { 'X-Robots-Tag': 'noindex, nofollow' };

/** A page at a link. It is not in the description, but its answers must be declared all the same. */
const pageAt = (
  operationId: 'trackOpen' | 'trackClick' | 'askUnsubscribe' | 'unsubscribe',
  path: string,
  answer: (call: TrackCall) => Promise<Reply> | Reply,
  more: { method?: 'POST'; knows?: Route['knows'] & object } = {},
): Route => {
  const responses = Object.fromEntries(
    [200, 302, 404].map((status) => [status, { description: '-', types: ['text/html', 'image/gif'] }]),
  );
  const common = { tag: 'tracking', scope: null, counted: false, page: true, params, responses } as const;
  return openRoute(
    { ...common, method: 'GET', description: '-', operationId, path: `${path}{token}`, ...more },
    answer,
  );
};

export const trackRoutes = (deps: ApiContext): Route[] => [
  pageAt('trackOpen', trackPaths.open, (call) => open(deps, call)),
  pageAt('trackClick', trackPaths.click, (call) => follow(deps, call)),
  pageAt('askUnsubscribe', trackPaths.unsubscribe, (call) => ask(deps, call)),
  pageAt('unsubscribe', trackPaths.unsubscribe, (call) => obey(deps, call), {
    method: 'POST',
    knows: (path) => readUnsubscribeToken(deps.keys, params.parse(path).token) !== null,
  }),
];

function open(deps: ApiContext, call: TrackCall): Reply {
  const token = readToken(deps.keys, call.params.token);
  if (token?.kind !== 'open') return unknownLinkPage();
  deps.hits.opened(token.deliveryId, visitorOf(call));
  return { status: 200, bytes: PIXEL, type: 'image/gif', headers: NO_ROBOTS };
}

async function follow(deps: ApiContext, call: TrackCall): Promise<Reply> {
  const token = readToken(deps.keys, call.params.token);
  if (token?.kind !== 'click' || !(await isOfHost(deps, token, call))) return unknownLinkPage();
  const { deliveryId, link, links, part, url } = token;
  deps.hits.clicked(deliveryId, { link, links, part, url }, visitorOf(call));
  return { status: 302, body: null, headers: { Location: url, ...NO_ROBOTS } };
}

/** The tracking host of a domain redirects only links of mail from that domain. */
async function isOfHost(
  { findDomain, publicHost }: ApiContext,
  token: TrackingToken,
  call: TrackCall,
): Promise<boolean> {
  // A browser sends a final dot as it was written.
  const host = (call.header('host') ?? '').replace(/\.?(?::\d*)?$/, '').toLowerCase();
  const parent = host.slice(host.indexOf('.') + 1);
  if (host === publicHost || host !== trackingHostOf(parent)) return true;
  const domain = await findDomain(parent);
  return domain?.tracking_host !== host || token.isOf(host);
}

const visitorOf = ({ ip, header, method }: TrackCall): Visitor => ({
  ip,
  userAgent: header('user-agent')?.slice(0, 1000).toWellFormed() ?? null,
  method,
});

async function ask(deps: ApiContext, { params: { token } }: TrackCall): Promise<Reply> {
  const unsubscription = readUnsubscribeToken(deps.keys, token);
  if (unsubscription === null) return unknownLinkPage();
  const subject = await subjectOf(deps, unsubscription);
  return (await isUnsubscribed(deps, unsubscription)) ? stoppedPage(subject) : askPage(subject);
}

/** A mail provider posts `List-Unsubscribe=One-Click` and wants no further page (RFC 8058 section 3.2); our own button posts `action`. */
async function obey(deps: ApiContext, { params: { token }, form }: TrackCall): Promise<Reply> {
  const unsubscription = readUnsubscribeToken(deps.keys, token);
  if (unsubscription === null) return unknownLinkPage();
  const subject = await subjectOf(deps, unsubscription);
  if (form === 'action=undo') {
    await resubscribe(deps, unsubscription);
    if (await isUnsubscribed(deps, unsubscription)) return stoppedPage(subject);
    return (await isWithheld(deps, unsubscription)) ? withheldPage(subject) : resumedPage(subject);
  }
  await unsubscribe(deps, unsubscription, /List-Unsubscribe[^]{0,100}One-Click/i.test(form) ? 'one_click' : 'page');
  return stoppedPage(subject);
}

async function subjectOf({ findStream }: ApiContext, unsubscription: Unsubscription): Promise<PageSubject> {
  const { accountId, stream, email, fromDomain } = unsubscription;
  const found = await findStream(accountId, stream);
  return { email, fromDomain, streamName: found?.name ?? stream };
}

interface PageSubject {
  email: string;
  fromDomain: string;
  streamName: string;
}

const STYLE =
  ':root{color-scheme:light dark}body{margin:0;font:1rem/1.5 system-ui,sans-serif;background:Canvas;color:CanvasText}' +
  'main{max-width:32rem;margin:15vh auto 0;padding:0 1.5rem}h1{font-size:1.4rem}strong{overflow-wrap:anywhere}' +
  'button{font:inherit;padding:.6rem 1.2rem;border:1px solid;border-radius:.4rem;cursor:pointer}';
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

/** A form may be sent only to us; nothing is loaded, and no other page can frame the button. */
const POLICY = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`;

const HEADERS = {
  'Content-Security-Policy': POLICY,
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
  'X-Robots-Tag': 'noindex, nofollow',
};

/** The page with the button: a GET must change nothing, since scanners follow every link of a mail. */
const askPage = (subject: PageSubject): Reply =>
  page('Unsubscribe', `<p>${mail(subject)}?</p>${button('unsubscribe', 'Stop this mail')}`);

const stoppedPage = (subject: PageSubject): Reply =>
  page(
    'You are unsubscribed',
    `<p>${mail(subject)}: no more of it will be sent.</p><p>Was that a mistake?</p>${button('undo', 'Undo')}`,
  );

const resumedPage = (subject: PageSubject): Reply =>
  page(
    'You are subscribed again',
    `<p>${mail(subject)}: it will be sent again.</p>${button('unsubscribe', 'Stop this mail')}`,
  );

/** The page if the address is on the suppression list for another reason, such as a complaint. */
const withheldPage = (subject: PageSubject): Reply =>
  page(
    'Your unsubscription is undone',
    `<p>${mail(subject)}: it is still not sent, for another reason. Ask the sender.</p>`,
  );

const unknownLinkPage = (): Reply =>
  page('This link is not valid', '<p>It may have been cut off. Please open it from the mail once more.</p>', 404);

const mail = ({ email, fromDomain, streamName }: PageSubject): string =>
  `Mail of the kind “${escapeHtml(streamName)}” from <strong>${escapeHtml(fromDomain)}</strong> to <strong>${escapeHtml(email)}</strong>`;

/** A form that is sent to the page's own address. */
const button = (action: string, label: string): string =>
  `<form method="post"><button type="submit" name="action" value="${action}">${label}</button></form>`;

function page(title: string, body: string, status = 200): Reply {
  const html =
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title>` +
    `<meta name="viewport" content="width=device-width,initial-scale=1"><style>${STYLE}</style></head>` +
    `<body><main><h1>${title}</h1>${body}</main></body></html>\n`;
  return { status, bytes: Buffer.from(html), type: 'text/html; charset=utf-8', headers: HEADERS };
}
