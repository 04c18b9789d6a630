/** Lines that say why mail waits, made from the reasons that the operations return. Pure. */
import type { ResultOf } from '../operator/routes.ts';
import { linkTo } from './links.ts';

type Lane = ResultOf<'queue.lanes'>['data'][number];
type Kept = ResultOf<'queue.holds'>['others'][number];

/** A reason with its times. */
export interface TimedReason {
  message: string;
  since: string | null;
  until: string | null;
}

/** Returns why mail of a lane waits, then each limit that was set, with its cause. */
export function reasonsOf({ waits, limits }: Pick<Lane, 'waits' | 'limits'>): TimedReason[] {
  const set = limits
    // The connections that other nodes have are a reason only if mail waits for one: it is among the waits then.
    .filter(({ by }) => by !== 'start' && by !== 'nodes')
    // A rate limit that mail waits for is already among the reasons.
    .filter(({ what }) => what === 'connections' || !waits.some(({ reason }) => reason === 'rate_limited'))
    .map(({ what, to, cause, since }) => ({ message: `${limitText(what, to)}: ${cause}`, since, until: null }));
  return [...waits.map(({ message, since, until }) => ({ message, since, until })), ...set];
}

const limitText = (what: 'connections' | 'mails_per_minute', to: number): string =>
  what === 'mails_per_minute' ? `${String(to)} a minute` : to === 1 ? '1 connection' : `${String(to)} connections`;

/** Mail that a hold or limit delays, and what can be done about it. */
export interface KeptLine extends TimedReason {
  waiting: number;
  /** Link to more about it. */
  href: string | null;
  link: string | null;
  /** Domain that `Try now` applies to, or null. */
  domain: string | null;
}

export function keptLines(others: readonly Kept[], domains: readonly { domain: string; lane: string }[]): KeptLine[] {
  return others.map((one) => {
    const { by, target, message, since, until, waiting } = one;
    const line = { message, since, until, waiting };
    const lane = linkTo('/queue/lane', new URLSearchParams({ name: target }));
    const domain = domains.find((each) => each.lane === target)?.domain ?? null;
    switch (by) {
      case 'rest':
        return { ...line, href: lane, link: 'The lane', domain };
      case 'block_list':
      case 'warm_up':
      case 'no_source':
        return { ...line, href: '/settings/sources', link: 'Addresses', domain: by === 'block_list' ? domain : null };
      case 'route':
        return {
          ...line,
          href: linkTo('/queue', new URLSearchParams({ domain: target })),
          link: 'Its mail',
          domain: null,
        };
      case 'domain_refused':
        return { ...line, href: '/domains', link: 'Domains', domain: null };
      case 'stream_pause':
        return { ...line, href: '/streams', link: 'Streams', domain: null };
      case 'operator':
      case 'account_pause':
        return { ...line, href: '/queue#holds', link: 'Holds', domain: null };
    }
  });
}
