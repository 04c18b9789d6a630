/** Vets URLs of customers: https, no credentials or fragment, a web or high port. `http://0x7f.1/` counts as the address it reaches. Pure. */
import { isIP } from 'node:net';

/** A URL that may be called, as far as the URL alone can say: in its normal form, and its host, a name or an IP address without brackets. */
export interface SafeUrl {
  url: URL;
  host: string;
  isAddress: boolean;
}

export type UrlReading = ({ kind: 'ok' } & SafeUrl) | { kind: 'bad'; why: string };

export const LONGEST_URL = 2048;

const HTTPS_PORT = 443;
const HTTP_PORT = 80;
const FIRST_HIGH_PORT = 1024;

/** Reads a URL that a customer gave. `allowHttp` allows http and port 80. */
export function readSafeUrl(text: string, { allowHttp }: { allowHttp: boolean }): UrlReading {
  if (text.length > LONGEST_URL) return bad(`must have at most ${String(LONGEST_URL)} characters`);
  if (!URL.canParse(text)) return bad('is not a URL');
  const url = new URL(text);
  const { protocol } = url;
  if (protocol !== 'https:' && !(allowHttp && protocol === 'http:'))
    return bad(allowHttp ? 'must begin with https:// or http://' : 'must begin with https://');
  if (url.username !== '' || url.password !== '') return bad('must not hold a user name or password: use `headers`');
  // The parser drops an empty fragment, so it is looked for in the text.
  if (text.includes('#')) return bad('must not have a fragment');
  const port = url.port === '' ? (protocol === 'https:' ? HTTPS_PORT : HTTP_PORT) : Number(url.port);
  if (port < FIRST_HIGH_PORT && port !== HTTPS_PORT && !(allowHttp && port === HTTP_PORT))
    return bad(`must use port ${allowHttp ? '443, 80' : '443'} or a port from 1024 up`);
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (url.href.length > LONGEST_URL) return bad(`must have at most ${String(LONGEST_URL)} characters when encoded`);
  return { kind: 'ok', url, host, isAddress: isIP(host) !== 0 };
}

const bad = (why: string): UrlReading => ({ kind: 'bad', why });
