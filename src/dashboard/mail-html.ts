/**
 * The HTML of a mail as the dashboard shows it. Content-Security-Policy and the sandbox keep what it loads from the network, but no policy governs
 * hints: a browser opens a connection for `<link rel="preconnect">` all the same. Pure.
 */

/**
 * Matches the name of an element `link`, and of an attribute with a document of its own. Browsers read names as written, without references, so this
 * finds each that a parser of HTML, of SVG in it, or one that looks ahead may see.
 */
const LINK = /<link(?=[\t\n\f\r />])/gi;
const INNER_DOCUMENT = /(?<=[\t\n\f\r "'/])srcdoc(?=[\t\n\f\r ]*=)/gi;

/** Returns the HTML without elements that make a browser ask the network. `bgsound` is allowed where `link` is, is empty as well, and does nothing. */
export const withoutHints = (html: string): string =>
  html.replaceAll(LINK, '<bgsound').replaceAll(INNER_DOCUMENT, 'data-srcdoc');
