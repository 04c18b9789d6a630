/** What is permitted in `delivery.routes` and yet worth a word. Pure. */
import type { Route } from './route.ts';

/** A sentence for each route whose password goes over the network in clear, since it says `tls: none`. */
export function plaintextPasswords(routes: Readonly<Record<string, Route>>): readonly string[] {
  return Object.entries(routes).flatMap(([domain, route]) =>
    route.kind === 'smarthost' && route.tls === 'none' && route.auth !== null
      ? [`delivery.routes: the route "${domain}" says \`tls: none\`, so its password goes to ${route.host} in clear`]
      : [],
  );
}
