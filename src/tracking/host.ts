/** Under which address the links of a sending domain are published. Pure. */

export interface HostRule {
  /** Address of the whole installation, without a slash at its end. */
  publicUrl: string;
  /** Whether domains have hosts of their own. */
  domainHosts: boolean;
}

/** The host of its own that a domain may have links at. */
export const trackingHostOf = (domainName: string): string => `track.${domainName}`;

/**
 * The address that links of this domain begin with. `tracking_host` is the host that DNS led to us when it was last asked:
 * only the host's name differs, since it is the same process behind it.
 */
export function trackingBase({ publicUrl, domainHosts }: HostRule) {
  return (domain: { tracking_host: string | null } | null): string => {
    const host = domain?.tracking_host ?? null;
    if (!domainHosts || host === null) return publicUrl;
    const url = new URL(publicUrl);
    url.hostname = host;
    return url.href.replace(/\/$/, '');
  };
}
