/** The address under which the links of a sending domain are published. Pure. */
import { isIP } from 'node:net';
import type { Config } from '../config/schema.ts';
import { isPublicAddress, isPublicName, plainAddress } from '../net/ip.ts';

export type HostRule = Pick<Config, 'tracking' | 'http'>;

/** Returns which machines can open links of this server: not known (`unset`), this one only, those of a private network, or all. */
export function urlReach({ publicUrl, isPublicUrlChosen }: HostRule['http']): 'unset' | 'machine' | 'network' | 'all' {
  const host = new URL(publicUrl).hostname.replace(/^\[(.*)\]$/, '$1');
  if (!isPublicUrlChosen) return 'unset';
  if (/(?:^|\.)localhost$|^127\.|^::1?$|^0\.0\.0\.0$/.test(host)) return 'machine';
  return (plainAddress(host) === null ? isPublicName(host) : isPublicAddress(host)) ? 'all' : 'network';
}

/** Our name in the web, which the tracking hosts of domains are to lead to; null if they have none. */
export function trackingTargetOf({ tracking, http }: HostRule): string | null {
  const { hostname } = new URL(http.publicUrl);
  // A CNAME cannot point to an IP address, and a name without a dot means another machine elsewhere.
  const isName = isIP(hostname) === 0 && !hostname.startsWith('[') && hostname.includes('.');
  return tracking.domainHosts && isName ? hostname : null;
}

/**
 * The address that links of a domain begin with; null while none is set, so that no mail is tracked. `tracking_host` is the host that DNS led to us when it was last asked: only
 * the host's name differs, since it is the same process behind it.
 */
export function trackingBase(rule: HostRule) {
  const { publicUrl, isPublicUrlChosen } = rule.http;
  const hasHosts = trackingTargetOf(rule) !== null;
  return (domain: { tracking_host: string | null } | null): string | null => {
    if (!isPublicUrlChosen) return null;
    const host = domain?.tracking_host ?? null;
    if (!hasHosts || host === null) return publicUrl;
    const url = new URL(publicUrl);
    url.hostname = host;
    return url.href.replace(/\/$/, '');
  };
}
