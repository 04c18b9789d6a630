/**
 * The pages of an unsubscribe link: plain html for people, without script, picture or anything from elsewhere. They show
 * only what the recipient of the mail knows already.
 */
import { createHash } from 'node:crypto';
import { escapeHtml } from '../base/html.ts';
import type { Reply } from './route.ts';

export interface PageSubject {
  email: string;
  fromDomain: string;
  /** Name of this kind of mail. */
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
export const askPage = (subject: PageSubject): Reply =>
  page(200, 'Unsubscribe', `<p>${mail(subject)}?</p>${button('unsubscribe', 'Stop this mail')}`);

export const stoppedPage = (subject: PageSubject): Reply =>
  page(
    200,
    'You are unsubscribed',
    `<p>${mail(subject)}: no more of it will be sent.</p><p>Was that a mistake?</p>${button('undo', 'Undo')}`,
  );

export const resumedPage = (subject: PageSubject): Reply =>
  page(
    200,
    'You are subscribed again',
    `<p>${mail(subject)}: it will be sent again.</p>${button('unsubscribe', 'Stop this mail')}`,
  );

/** The page if the address is on the suppression list for another reason, such as a complaint. */
export const withheldPage = (subject: PageSubject): Reply =>
  page(
    200,
    'Your unsubscription is undone',
    `<p>${mail(subject)}: it is still not sent, for another reason. Ask the sender.</p>`,
  );

/** The page for a link that was cut off or changed on its way. */
export const unknownLinkPage = (): Reply =>
  page(404, 'This link is not valid', '<p>It may have been cut off. Please open it from the mail once more.</p>');

const mail = ({ email, fromDomain, streamName }: PageSubject): string =>
  `Mail of the kind “${escapeHtml(streamName)}” from <strong>${escapeHtml(fromDomain)}</strong> to <strong>${escapeHtml(email)}</strong>`;

/** A form that is sent to the page's own address. */
const button = (action: string, label: string): string =>
  `<form method="post"><button type="submit" name="action" value="${action}">${label}</button></form>`;

function page(status: number, title: string, body: string): Reply {
  const html =
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title>` +
    `<meta name="viewport" content="width=device-width,initial-scale=1"><style>${STYLE}</style></head>` +
    `<body><main><h1>${title}</h1>${body}</main></body></html>\n`;
  return { status, bytes: Buffer.from(html), type: 'text/html; charset=utf-8', headers: HEADERS };
}
