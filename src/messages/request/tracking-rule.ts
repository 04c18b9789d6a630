/** The tracking of mail that does not set it: the domain's setting, else the account's, else none. */
import type { AccountTracking } from '../../accounts/settings-store.ts';
import type { DomainDirectory } from '../../domains/domain-directory.ts';

export interface TrackingRule {
  opens: boolean;
  clicks: boolean;
  /** Address that links begin with, without a final slash; null if recipients could not open one. */
  base: string | null;
}

export interface TrackingRuleDeps {
  accounts: AccountTracking;
  directory: Pick<DomainDirectory, 'findOf'>;
  /** Returns where the links of a domain lead: its own tracking host, or the address of the installation; null if it has none. */
  baseOf: (domain: { tracking_host: string | null } | null) => string | null;
}

/** Asked for every message: nearly all answers come from memory. */
export function createTrackingRule({ accounts, directory, baseOf }: TrackingRuleDeps) {
  return async (accountId: string, domainName: string): Promise<TrackingRule> => {
    // Test keys and the simulator may send from domains that are not the account's.
    const domain = await directory.findOf(accountId, domainName);
    const account = await accounts.of(accountId);
    return {
      opens: (domain?.track_opens ?? account.track_opens) === 1,
      clicks: (domain?.track_clicks ?? account.track_clicks) === 1,
      base: baseOf(domain),
    };
  };
}
