/** Warnings about `delivery.routes` that are allowed but risky. Pure. */
import type { Route } from './route.ts';

/** Returns a sentence for each route that sends its password in clear text, because of `tls: none`. */
export function plaintextPasswords(routes: Readonly<Record<string, Route>>): readonly string[] {
  return Object.entries(routes).flatMap(([domain, route]) =>
    route.kind === 'smarthost' && route.tls === 'none' && route.auth !== null
      ? [`delivery.routes: the route "${domain}" says \`tls: none\`, so its password goes to ${route.host} in clear`]
      : [],
  );
}
