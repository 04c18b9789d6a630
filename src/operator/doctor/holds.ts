/** Checks for routes and holds that keep mail back, or discard it, and that may have been forgotten. */
import { pluralize } from '../../base/pluralize.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import type { Config } from '../../config/schema.ts';
import { keyOf, scopeOf, type Limit } from '../../messages/limits/limit.ts';
import { ok, warning, type Verdict } from './finding.ts';
import type { Probes } from './probes.ts';
import type { WaitingIn } from './store.ts';

/** More holds are one line, and of more routes the rest is a number. */
const MOST = 10;
const MOST_DOMAINS = 10_000;

/** Routes that discard mail, a route that holds all mail, routes that hold mail that waits, and holds without an end. */
export async function holds({ config, store }: Pick<Probes, 'config' | 'store'>): Promise<readonly Verdict[]> {
  const { routes } = config.delivery;
  if (store.kind === 'missing') return [...ofRoutes(routes, []), warning(`not looked at: ${store.why}`, store.cure)];
  const [waiting, endless] = await Promise.all([store.waiting(MOST_DOMAINS), store.endlessHolds(MOST + 1)]);
  const verdicts = [...ofRoutes(routes, waiting), ...endless.slice(0, MOST).map(ofHold)];
  if (endless.length > MOST)
    verdicts.push(warning('there are more holds without an end', 'See all of them: posthorn queue holds'));
  return verdicts.length > 0 ? verdicts : [ok('no route and no hold without an end keeps mail back')];
}

function ofRoutes(routes: Config['delivery']['routes'], waiting: readonly WaitingIn[]): Verdict[] {
  const holding = Object.entries(routes).flatMap(([domain, { kind }]): Verdict[] => {
    if (kind !== 'hold') return [];
    const all = domain === '*';
    const held = waiting.filter((one) => (all ? !Object.hasOwn(routes, one.domain) : one.domain === domain));
    const count = held.reduce((sum, one) => sum + one.waiting, 0);
    if (count === 0 && !all) return [];
    const what = all ? 'the route `*: hold` holds all mail' : `the route "${domain}: hold" holds mail`;
    return [
      warning(
        `${what}: ${pluralize(count, 'recipient')} waiting, whose time runs on`,
        'Remove the route from `delivery.routes` and reload: the mail goes then. What is too old by then bounces.',
      ),
    ];
  });
  return [...discarding(routes), ...holding];
}

/** Returns one warning for all of them, since a route that is meant stays. */
function discarding(routes: Config['delivery']['routes']): Verdict[] {
  const domains = Object.keys(routes).filter((domain) => routes[domain]?.kind === 'discard');
  if (domains.length === 0) return [];
  const isOne = domains.length === 1;
  const named = domains.slice(0, MOST).map((domain) => `\`${domain}: discard\``);
  const more = domains.length > MOST ? ` and ${String(domains.length - MOST)} more` : '';
  const all = domains.includes('*') ? 'all ' : '';
  return [
    warning(
      `the route${isOne ? '' : 's'} ${named.join(', ')}${more} throw${isOne ? 's' : ''} ${all}mail away, and count${isOne ? 's' : ''} it as delivered`,
      'What is not meant: remove it from `delivery.routes` and reload.',
    ),
  ];
}

function ofHold(limit: Limit): Verdict {
  const { since: at, actor: by, cause: note } = limit;
  const { scope, target } = scopeOf(limit);
  const id = keyOf(limit);
  const who = by === null ? '' : ` by ${by.replace(/^member:/, '')}`;
  const why = `${scope === 'all' ? 'all' : `the ${scope}`} ${target} is held without an end since ${rfc3339(at)}${who}${note === '' ? '' : ` (${note})`}`;
  return warning(why, `If that is over: posthorn queue release ${id}. Else give it an end: queue hold --for.`, {
    copy: [`posthorn queue release ${id}`],
  });
}
