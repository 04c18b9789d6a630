/** Sending domains and their DKIM keys. */
import { table, text, integer, orNull, type RowOf } from '../table.ts';

export const domains = table(
  {
    id: text(),
    account_id: text(),
    name: text(),
    status: text<'pending' | 'verified' | 'failed'>(),
    /** 1 if an operator vouched for the domain (`--trust`): it stays verified whatever DNS says. */
    trusted: integer(),
    return_path: text(),
    track_opens: orNull(integer()),
    track_clicks: orNull(integer()),
    /** The results of the last check, one entry for each record (domains/domain-record.ts). */
    records_json: text(),
    created_at: integer(),
    verified_at: orNull(integer()),
    checked_at: orNull(integer()),
    /** The time since which a required record has been missing or wrong, or null. It stays for a day after the records were found again (domains/verify.ts). */
    failing_since: orNull(integer()),
    /** The time when all required records were found again after `failing_since`; null while one is missing. */
    found_again_at: orNull(integer()),
    /** The time from which mail from it is refused: in the future while the domain is verified, in the past once it has failed. Null if no record is missing. */
    refused_at: orNull(integer()),
    /** The time when its people got a mail about `failing_since`; null before. */
    told_at: orNull(integer()),
  },
  { isReferredTo: true },
);
export type DomainRow = RowOf<typeof domains>;

export const dkimKeys = table(
  {
    id: text(),
    domain_id: text(),
    selector: text(),
    algorithm: text<'rsa-sha256' | 'ed25519-sha256'>(),
    /** PKCS#8 PEM under AES-256-GCM (base/keyring.ts). */
    private_key_sealed: text(),
    /** SubjectPublicKeyInfo PEM. */
    public_key: text(),
    state: text<'pending' | 'active' | 'retiring'>(),
    created_at: integer(),
    active_at: orNull(integer()),
    retired_at: orNull(integer()),
  },
  { isReferredTo: true },
);
export type DkimKeyRow = RowOf<typeof dkimKeys>;
