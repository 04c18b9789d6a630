/** What of a mail is tracked where the send itself says nothing: as its domain says, then its account, else nothing. */
import type { AccountTracking } from '../../accounts/settings-store.ts';
import type { DomainDirectory } from '../../domains/domain-directory.ts';

export interface TrackingRule {
  opens: boolean;
  clicks: boolean;
  /** Address that links begin with, without a slash at its end. */
  base: string;
}

export interface TrackingRuleDeps {
  accounts: AccountTracking;
  directory: Pick<DomainDirectory, 'findOf'>;
  /** Where the links of a domain lead to: its own tracking host, or the address of the installation. */
  baseOf: (domain: { tracking_host: string | null } | null) => string;
}

/** Asked for every message: all of it comes from memory nearly always. */
export function createTrackingRule({ accounts, directory, baseOf }: TrackingRuleDeps) {
  return async (accountId: string, domainName: string): Promise<TrackingRule> => {
    // Test keys and the simulator send from domains of others.
    const domain = await directory.findOf(accountId, domainName);
    const account = await accounts.of(accountId);
    return {
      opens: (domain?.track_opens ?? account.track_opens) === 1,
      clicks: (domain?.track_clicks ?? account.track_clicks) === 1,
      base: baseOf(domain),
    };
  };
}
