/**
 * Tracked html: the same document, but for the values of `href` in its links and one image at its end. Everything else stays byte for byte what the
 * sender wrote, however malformed it is.
 */
import { decodeHTMLAttribute } from 'entities/decode';
import { HtmlReader, readHtml } from '../mail/html-reader.ts';
import { LONGEST_TARGET, clickTokens, openToken, type Stamp, type TrackingKey } from './token.ts';

/** A link of the document. Offsets are in UTF-16 units and go around the value, without its quotes. */
export interface FoundLink {
  start: number;
  end: number;
  /** Absolute, http or https, as a browser would ask for it. */
  url: string;
}

/** The trackable parts of a document; the same for all its recipients. */
export interface HtmlPlan {
  links: readonly FoundLink[];
  pixelAt: number;
  /** True if the pixel would be the only image of a short document. */
  isPlain: boolean;
}

export interface Marks {
  /** The tracked address of a link (its number counts from 1), or null to leave it as it is. */
  linkUrl: (link: FoundLink, number: number) => string | null;
  pixelUrl: string | null;
}

/** Each link costs an HMAC for each recipient; a mail with more is not for people. */
export const MOST_LINKS = 1000;

/** SpamAssassin's HTML_IMAGE_ONLY rules add up to 2.8 points to a document with an `<img>` that is no longer than this. */
const SHORT_HTML = 3200;

/** Finds the links, in order. Never throws; takes linear time. `decode` returns the text of a piece of `html`, if that is octets of a charset. */
export function planHtml(html: string, decode: (piece: string) => string = asItIs): HtmlPlan {
  const finder = new LinkFinder(html, decode);
  readHtml(html, finder);
  return {
    links: finder.links,
    pixelAt: finder.pixelAt(),
    isPlain: html.length <= SHORT_HTML && !finder.hasImage,
  };
}

/** Returns the document with these marks. Addresses must be of characters that need no quoting in html. */
export function markHtml(html: string, { links, pixelAt, isPlain }: HtmlPlan, { linkUrl, pixelUrl }: Marks): string {
  let marked = '';
  let from = 0;
  const copyTo = (end: number): void => {
    marked += html.slice(from, end);
    from = end;
  };
  const pixel = pixelUrl === null ? '' : isPlain ? backgroundPixel(pixelUrl) : imagePixel(pixelUrl);
  let isPlaced = false;
  for (const [index, link] of links.entries()) {
    if (!isPlaced && link.start >= pixelAt) {
      copyTo(pixelAt);
      marked += pixel;
      isPlaced = true;
    }
    const url = linkUrl(link, index + 1);
    if (url === null) continue;
    copyTo(link.start);
    marked += url;
    from = link.end;
  }
  if (isPlaced) return marked + html.slice(from);
  copyTo(pixelAt);
  return marked + pixel + html.slice(from);
}

const imagePixel = (url: string): string => `<img src="${url}" alt="" width="1" height="1" style="border:0">`;

/**
 * Filters take a short document with an image for one that hides its words in the image, so the pixel is a background there.
 * Outlook for Windows shows no backgrounds, and is the only one to read the comment.
 */
const backgroundPixel = (url: string): string =>
  `<div style="width:1px;height:1px;background-image:url('${url}')"></div><!--[if mso]>${imagePixel(url)}<![endif]-->`;

const asItIs = (piece: string): string => piece;

/** Of an attribute that occurs twice the first counts, as in a browser. */
class LinkFinder extends HtmlReader {
  readonly links: FoundLink[] = [];
  hasImage = false;
  private readonly html: string;
  private readonly decode: (piece: string) => string;
  private isLink = false;
  private attribute = '';
  private href: { start: number; end: number; value: string } | null = null;
  private isOff: boolean | null = null;
  private bodyEnd = -1;
  private htmlEnd = -1;

  constructor(html: string, decode: (piece: string) => string) {
    super();
    this.html = html;
    this.decode = decode;
  }

  ontext(): void {
    // Its links are in attributes.
  }

  pixelAt(): number {
    if (this.bodyEnd >= 0) return this.bodyEnd;
    return this.htmlEnd >= 0 ? this.htmlEnd : this.html.length;
  }

  onopentagname(start: number, end: number): void {
    // Links of text, and those of image maps.
    const name = end - start <= 4 ? this.html.slice(start, end).toLowerCase() : '';
    this.isLink = name === 'a' || name === 'area';
    this.hasImage ||= name === 'img';
    this.href = null;
    this.isOff = null;
  }

  onattribname(start: number, end: number): void {
    if (this.isLink) this.attribute = this.html.slice(start, end).toLowerCase();
  }

  onattribdata(start: number, end: number): void {
    if (!this.isLink) return;
    if (this.attribute === 'href') this.href ??= { start, end, value: this.valueAt(start, end) };
    else if (this.attribute === 'data-posthorn-track')
      this.isOff ??= this.valueAt(start, end).trim().toLowerCase() === 'off';
  }

  onopentagend(): void {
    if (this.isLink && this.href !== null && this.isOff !== true && this.links.length < MOST_LINKS) {
      const url = trackable(this.href.value);
      if (url !== null) this.links.push({ start: this.href.start, end: this.href.end, url });
    }
    this.isLink = false;
  }

  onclosetag(start: number, end: number): void {
    if (end - start !== 4) return;
    const name = this.html.slice(start, end).toLowerCase();
    const at = this.html.lastIndexOf('<', start);
    if (name === 'body') this.bodyEnd = at;
    else if (name === 'html') this.htmlEnd = at;
  }

  private valueAt(start: number, end: number): string {
    return decodeHTMLAttribute(this.decode(this.html.slice(start, end)));
  }
}

/** A person who follows it wants no more mail, and must get there even when our server is gone. */
const UNSUBSCRIBES = /unsubscri|(?<![a-z])opt[-_]?out(?![a-z])/i;

/** Returns the link's target if it is one to be counted, or null. */
function trackable(href: string): string | null {
  if (href.length > LONGEST_TARGET || !/^[\0- ]*https?:/i.test(href)) return null;
  const url = urlOf(href);
  if (url === null || url.href.length > LONGEST_TARGET) return null;
  return UNSUBSCRIBES.test(url.host + url.pathname + url.search + url.hash) ? null : url.href;
}

/** Reads an address once, and not with `canParse` and again: this runs for every link. */
function urlOf(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

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
