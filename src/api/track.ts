/**
 * The targets of links in mail: the pixel, tracked links, the unsubscribe page. They are for people and their mail programs, so
 * they need no key and are outside of the API and its description. The signed token of a link says all that it may do: a link
 * that we did not write is refused, and an answer needs no look-up.
 */
import { z } from 'zod';
import type { SendingDomain } from '../domains/domain-directory.ts';
import { trackingHostOf } from '../domains/dns-records.ts';
import type { Visitor } from '../tracking/bots.ts';
import type { Hits } from '../tracking/hit.ts';
import { readToken, type TrackingKey, type TrackingToken } from '../tracking/token.ts';
import { trackPaths } from '../tracking/rewrite.ts';
import { readUnsubscribeToken, type Unsubscription } from '../tracking/unsubscribe-link.ts';
import { isUnsubscribed, isWithheld, resubscribe, unsubscribe, type UnsubscribeDeps } from '../tracking/unsubscribe.ts';
import { type Call, openRoute, type Reply, type ResponseDeclaration, type Route } from './route.ts';
import {
  askPage,
  resumedPage,
  stoppedPage,
  unknownLinkPage,
  withheldPage,
  type PageSubject,
} from './unsubscribe-page.ts';

export interface TrackDeps extends UnsubscribeDeps {
  keys: readonly TrackingKey[];
  hits: Hits;
  /** Host of the whole installation. */
  publicHost: string;
  findDomain: (name: string) => Promise<SendingDomain | null>;
  findStream: (accountId: string, slug: string) => Promise<{ name: string } | null>;
}

type TrackCall = Omit<Call<{ token: string }, object, undefined>, 'caller'>;

/** Mail programs that turn plain text into links include the full stop or bracket after it: a character that no token has ends it. */
const params = z.object({ token: z.string().transform((text) => /^[\w-]*/.exec(text)?.[0] ?? '') });
/** These routes are not in the description, but their answers must be declared all the same. */
const answers = (...statuses: number[]): Record<number, ResponseDeclaration> =>
  Object.fromEntries(statuses.map((status) => [status, { description: '-', types: ['text/html', 'image/gif'] }]));
const common = { description: '-', tag: 'tracking', scope: null, counted: false, page: true, params } as const;

/** One transparent point, GIF89a. */
const PIXEL = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==', 'base64');
const NO_ROBOTS = { 'X-Robots-Tag': 'noindex, nofollow' };

export function trackRoutes(deps: TrackDeps): Route[] {
  return [
    openRoute(
      {
        ...common,
        method: 'GET',
        path: `${trackPaths.open}{token}`,
        operationId: 'trackOpen',
        responses: answers(200, 404),
      },
      (call) => open(deps, call),
    ),
    openRoute(
      {
        ...common,
        method: 'GET',
        path: `${trackPaths.click}{token}`,
        operationId: 'trackClick',
        responses: answers(302, 404),
      },
      (call) => follow(deps, call),
    ),
    openRoute(
      {
        ...common,
        method: 'GET',
        path: `${trackPaths.unsubscribe}{token}`,
        operationId: 'askUnsubscribe',
        responses: answers(200, 404),
      },
      (call) => ask(deps, call),
    ),
    openRoute(
      {
        ...common,
        method: 'POST',
        path: `${trackPaths.unsubscribe}{token}`,
        operationId: 'unsubscribe',
        responses: answers(200, 404),
        knows: (path) => readUnsubscribeToken(deps.keys, params.parse(path).token) !== null,
      },
      (call) => obey(deps, call),
    ),
  ];
}

function open(deps: TrackDeps, call: TrackCall): Reply {
  const token = readToken(deps.keys, call.params.token);
  if (token?.kind !== 'open') return unknownLinkPage();
  deps.hits.opened(token.deliveryId, visitorOf(call));
  return { status: 200, bytes: PIXEL, type: 'image/gif', headers: NO_ROBOTS };
}

async function follow(deps: TrackDeps, call: TrackCall): Promise<Reply> {
  const token = readToken(deps.keys, call.params.token);
  if (token?.kind !== 'click' || !(await isOfHost(deps, token, call))) return unknownLinkPage();
  const { deliveryId, link, links, part, url } = token;
  deps.hits.clicked(deliveryId, { link, links, part, url }, visitorOf(call));
  return { status: 302, body: null, headers: { Location: url, ...NO_ROBOTS } };
}

/** The tracking host of a domain redirects only links of mail from that domain. */
async function isOfHost(
  { findDomain, publicHost }: TrackDeps,
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

async function ask(deps: TrackDeps, { params: { token } }: TrackCall): Promise<Reply> {
  const unsubscription = readUnsubscribeToken(deps.keys, token);
  if (unsubscription === null) return unknownLinkPage();
  const subject = await subjectOf(deps, unsubscription);
  return (await isUnsubscribed(deps, unsubscription)) ? stoppedPage(subject) : askPage(subject);
}

/** A mail provider posts `List-Unsubscribe=One-Click` and wants no further page (RFC 8058 section 3.2); our own button posts `action`. */
async function obey(deps: TrackDeps, { params: { token }, form }: TrackCall): Promise<Reply> {
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

async function subjectOf({ findStream }: TrackDeps, unsubscription: Unsubscription): Promise<PageSubject> {
  const { accountId, stream, email, fromDomain } = unsubscription;
  const found = await findStream(accountId, stream);
  return { email, fromDomain, streamName: found?.name ?? stream };
}
