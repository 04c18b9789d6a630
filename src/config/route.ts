/** Reads one entry of `delivery.routes`: the destination of a domain's mail instead of the hosts in DNS. */
import { isHostName, isIp, parseEndpoint } from './endpoint.ts';

/** `opportunistic` uses STARTTLS if it is offered, `required` defers without it, `implicit` starts with TLS (port 465). */
export type RouteTls = 'opportunistic' | 'required' | 'none' | 'implicit';

export type Route =
  | { kind: 'mx' }
  | { kind: 'discard' }
  | { kind: 'hold' }
  | {
      kind: 'smarthost';
      host: string;
      port: number;
      tls: RouteTls;
      auth: { user: string; password: string } | null;
    };

/** A mistake in a written route: at one member, or (null) in the whole. */
export interface RouteFault {
  member: string | null;
  expected: string;
}

export type RouteReading = { kind: 'ok'; route: Route } | { kind: 'bad'; faults: readonly RouteFault[] };

/** The forms of a route, for error lines and the manual. */
export const ROUTE_FORMS = '"mx", "discard", "hold", "host:port" or { host, port, tls, user, password }';
const TLS_MODES: readonly RouteTls[] = ['opportunistic', 'required', 'none', 'implicit'];
const MEMBERS: ReadonlySet<string> = new Set(['host', 'port', 'tls', 'user', 'password']);

/** Returns whether it is the key of a route: a DNS name with a dot, or `*` for all other domains. */
export const isRouteKey = (key: string): boolean => key === '*' || (key.includes('.') && isHostName(key));

/** Normalises a written route. Never throws. */
export function parseRoute(written: unknown): RouteReading {
  if (typeof written === 'string') return fromText(written);
  if (typeof written === 'object' && written !== null && !Array.isArray(written)) return fromMembers({ ...written });
  return bad(ROUTE_FORMS);
}

function fromText(text: string): RouteReading {
  if (text === 'mx' || text === 'discard' || text === 'hold') return { kind: 'ok', route: { kind: text } };
  const endpoint = parseEndpoint(text);
  if (endpoint?.port == null) return bad(ROUTE_FORMS);
  const { host, port } = endpoint;
  return { kind: 'ok', route: { kind: 'smarthost', host, port, tls: defaultTls(port, false), auth: null } };
}

function fromMembers(members: Record<string, unknown>): RouteReading {
  const stranger = Object.keys(members).find((name) => !MEMBERS.has(name));
  if (stranger !== undefined) return bad(`no member "${stranger}" (a route has host, port, tls, user, password)`);
  const { tls, user, password } = members;
  const host = typeof members['host'] === 'string' ? members['host'] : '';
  const port = typeof members['port'] === 'number' && Number.isInteger(members['port']) ? members['port'] : 0;
  const auth = credentials(user, password);
  const mode = tls === undefined ? defaultTls(port, auth != null) : TLS_MODES.find((name) => name === tls);
  const faults: RouteFault[] = [];
  if (!isIp(host) && !isHostName(host)) faults.push({ member: 'host', expected: 'an IP address or a host name' });
  if (port < 1 || port > 65_535) faults.push({ member: 'port', expected: 'a number from 1 to 65535, without quotes' });
  if (mode === undefined) faults.push({ member: 'tls', expected: `one of ${TLS_MODES.join(', ')}` });
  // Not at its member: a password that is not text must not be shown.
  if (auth === undefined) faults.push({ member: null, expected: 'user and password both as text, or neither' });
  if (faults.length > 0 || mode === undefined || auth === undefined) return { kind: 'bad', faults };
  return { kind: 'ok', route: { kind: 'smarthost', host: host.toLowerCase(), port, tls: mode, auth } };
}

function credentials(user: unknown, password: unknown): { user: string; password: string } | null | undefined {
  if (user === undefined && password === undefined) return null;
  if (typeof user !== 'string' || typeof password !== 'string' || user === '') return undefined;
  return { user, password };
}

/** Passwords are sent in clear text only if the operator wrote `tls: none`. Port 465 speaks TLS from the start (RFC 8314). */
function defaultTls(port: number, withPassword: boolean): RouteTls {
  if (port === 465) return 'implicit';
  return withPassword ? 'required' : 'opportunistic';
}

const bad = (expected: string): RouteReading => ({ kind: 'bad', faults: [{ member: null, expected }] });

/** Returns a sentence for each route that sends its password in clear text, because of `tls: none`. */
export function plaintextPasswords(routes: Readonly<Record<string, Route>>): readonly string[] {
  return Object.entries(routes).flatMap(([domain, route]) =>
    route.kind === 'smarthost' && route.tls === 'none' && route.auth !== null
      ? [`delivery.routes: the route "${domain}" says \`tls: none\`, so its password goes to ${route.host} in clear`]
      : [],
  );
}
