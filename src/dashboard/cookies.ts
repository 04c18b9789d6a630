/** The cookies of the dashboard (RFC 6265): read from a request, written for an answer. Pure. */

/** What each is called in the browser. Behind TLS `__Host-` binds them to this very host. */
export const cookieNames = {
  session: 'posthorn_session',
  guest: 'posthorn_guest',
  theme: 'posthorn_theme',
  device: 'posthorn_device',
  say: 'posthorn_say',
} as const;
export type CookieName = keyof typeof cookieNames;

const YEAR_S = 365 * 86_400;
const LONGEST_HEADER = 8192;

const nameOf = (name: CookieName, secure: boolean): string => (secure ? '__Host-' : '') + cookieNames[name];

/** The value of one of ours, '' where there is none. */
export function readCookie(header: string | undefined, name: CookieName, secure: boolean): string {
  if (header === undefined || header.length > LONGEST_HEADER) return '';
  const wanted = `${nameOf(name, secure)}=`;
  const pair = header.split(';').find((one) => one.trimStart().startsWith(wanted));
  return pair === undefined ? '' : decoded(pair.trim().slice(wanted.length));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

/** A `Set-Cookie` value; null takes the cookie away. Session and guest end with the browser, the theme and the known device stay. */
export function writeCookie(name: CookieName, value: string | null, secure: boolean): string {
  const parts = [`${nameOf(name, secure)}=${encodeURIComponent(value ?? '')}`, 'Path=/', 'HttpOnly', 'SameSite=Lax'];
  if (secure) parts.push('Secure');
  if (value === null) parts.push('Max-Age=0');
  else if (name === 'theme' || name === 'device') parts.push(`Max-Age=${String(YEAR_S)}`);
  return parts.join('; ');
}
