/** Reads addresses, networks, host names and `host:port` of settings. */
import { isIP } from 'node:net';

export interface Endpoint {
  /** An IP address without brackets, or a host name in lower case. */
  host: string;
  port: number | null;
}

/** Returns whether it is an IPv4 or IPv6 address in its usual form, without brackets or zone. */
export const isIp = (text: string): boolean => isIP(text) !== 0 && !text.includes('%');

/** Returns whether it is an address (`10.0.0.1`) or a CIDR range (`10.0.0.0/8`). */
export function isNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  if (!isIp(address) || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (isIP(address) === 4 ? 32 : 128));
}

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i;

/** Returns whether it is a DNS name of LDH labels (RFC 1123 section 2.1); one whose last label is a number is a mistyped address. */
export function isHostName(text: string): boolean {
  if (text.length > 253) return false;
  const labels = text.split('.');
  return labels.every((label) => LABEL.test(label)) && !/^\d+$/.test(labels.at(-1) ?? '');
}

export const isNodeName = (text: string): boolean => /^[\w.-]{1,63}$/.test(text);

/** Reads `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address; returns null for any other text. */
export function parseEndpoint(text: string): Endpoint | null {
  if (text.length > 300) return null;
  if (isIP(text) === 6) return { host: text, port: null };
  const parts = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text);
  if (parts === null) return null;
  const [, bracketed, plain, digits] = parts;
  const port = digits === undefined ? null : Number(digits);
  if (port !== null && (port < 1 || port > 65_535)) return null;
  if (bracketed !== undefined) return isIP(bracketed) === 6 ? { host: bracketed, port } : null;
  if (plain === undefined || !(isIp(plain) || isHostName(plain))) return null;
  return { host: plain.toLowerCase(), port };
}
