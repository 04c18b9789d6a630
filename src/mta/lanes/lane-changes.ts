/** Words for limits that were set or have ended: for the history of a lane and for the log. */
import type { Log } from '../../base/log.ts';
import type { LaneChange } from '../../messages/delivery/lane-report.ts';
import type { Limit, LimitKind } from '../../messages/limits/limit.ts';

/** Returns what has changed, in words. */
export function changeOf(limit: Limit, how: 'set' | 'ended'): Omit<LaneChange, 'at'> {
  const { kind, connections, perMinute, until, cause, account, domain, site } = limit;
  const scope = [
    ...(account === null ? [] : [`account ${account}`]),
    ...(domain === null ? [] : [`domain ${domain}`]),
    ...(site === '' ? ['every site'] : []),
  ].join(', ');
  const part = scope === '' ? '' : ` for ${scope}`;
  if (kind === 'connections') return { what: 'connections', to: countConnections(connections ?? 0), cause };
  if (kind === 'rate')
    return {
      what: 'pace',
      to: `${how === 'ended' ? 'no limit of mails' : `${String(perMinute)} mails a minute`}${part}`,
      cause,
    };
  return {
    what: 'pause',
    to: how === 'ended' ? `the rest is over${part}` : `rests until ${new Date(until).toISOString()}${part}`,
    cause,
  };
}

/** Writes the log line of a limit that closes a lane or a part of it. `source` is null for the system's address. */
export function logOf(log: Log, lane: string, source: string | null, limit: Limit): void {
  const { kind, account, domain, site, cause: reply } = limit;
  const until = new Date(limit.until).toISOString();
  if (kind === 'rule' || kind === 'hold' || kind === 'limit') return;
  if (kind === 'block_list')
    log.error(
      { event: 'source_blocklisted', source, site: site === '' ? null : site, domain, until, reply },
      messages.block_list,
    );
  else log.error({ event: 'lane_rests', lane, kind, account, domain, until, reply }, messages[kind]);
}

export const countConnections = (count: number): string =>
  count === 1 ? '1 connection' : `${String(count)} connections`;

const messages: Readonly<Record<Exclude<LimitKind, 'rule' | 'hold' | 'limit'>, string>> = {
  sender: 'a receiver refuses mail from us again and again: mail for it waits, and one mail tries from time to time',
  block_list:
    'a block list keeps a source out: its mail waits or goes by another source, and one mail tries from time to time',
  load: 'a receiver cannot take mail now: mail for it waits, and one mail tries from time to time',
  tls: 'mail hosts do not have the TLS that is asked for: mail for them waits, and one mail tries from time to time',
  rate: 'a receiver takes only so much mail in a time',
  connections: 'a receiver takes only so many connections',
};
