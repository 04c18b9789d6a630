/** One recipient's copy of a document: its links and pixel with the tokens of this delivery. Plain data in, for threads. */
import { markHtml, type FoundLink, type HtmlPlan } from './rewrite.ts';
import { clickTokens, openToken, type Stamp, type TrackingKey } from './token.ts';

/** Paths of the public routes, below the address that is tracked under. */
export const trackPaths = { open: '/t/o/', click: '/t/c/', unsubscribe: '/t/u/' } as const;

export interface Tracking {
  key: TrackingKey;
  stamp: Stamp;
  /** Address that the links begin with: `https://track.acme.example`, without a slash at its end. */
  base: string;
  opens: boolean;
  clicks: boolean;
  /** The address for the unsubscribe link in the body, if it has one. */
  unsubscribeUrl: string | null;
  /** Targets that stay as they are: the addresses of List-Unsubscribe. */
  untouched: readonly string[];
}

export function trackedHtml(html: string, plan: HtmlPlan, tracking: Tracking): string {
  const { key, stamp, base, opens, clicks, untouched } = tracking;
  const tokenOf = clickTokens(key, stamp);
  const isTracked = ({ url }: FoundLink): boolean => clicks && !untouched.includes(url);
  const links = plan.links.filter(isTracked).length;
  return markHtml(html, plan, {
    linkUrl: (found, link) =>
      !isTracked(found) ? null : `${base}${trackPaths.click}${tokenOf({ link, links, part: 'html', url: found.url })}`,
    pixelUrl: opens ? `${base}${trackPaths.open}${openToken(key, stamp)}` : null,
  });
}
