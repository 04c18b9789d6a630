/** Sending domains and their DKIM keys. */
import { computed, flag, integer, json, orNull, table, text, texts, time, type RowOf } from '../table.ts';

export const domains = table(
  {
    id: text().says('Id of the domain.', 'dom_01jz5w8q3hf2m9d4x6k7c1b0na'),
    account_id: text(),
    name: text().says('The domain behind the `@` of the senders.', 'acme.example'),
    status: text('pending', 'verified', 'failed')
      .says('Mail is accepted only from a `verified` domain, also while `failing_since` is set.', 'verified')
      .audited(),
    taken: computed(
      flag().says(
        'Another account of this server has verified this name. This one can be verified only after the other is removed.',
      ),
    ),
    /** The results of the last check, one entry for each record (domains/domain-record.ts). */
    records_json: text(),
    records: computed(json<unknown>().says('The DNS records to publish, ready to paste.')),
    trusted: flag()
      .says('An operator vouched for it: it is verified whatever DNS says, and its records are not checked.')
      .audited(),
    dkim: computed(json<unknown>().says('Keys that sign mail from it, the oldest first.')),
    return_path: text().says('Host that bounces go to.', 'rp.acme.example').audited(),
    track_opens: orNull(flag()).says('Whether opens are counted; null: the setting of the account applies.').audited(),
    track_clicks: orNull(flag())
      .says('Whether clicks are counted; null: the setting of the account applies.')
      .audited(),
    receiving: flag().says('Whether mail to it is taken, and becomes `received` events.').audited(),
    receiving_addresses_json: texts()
      .says('Local parts that take mail: `support`, `reply+*` for all that begin so, or `*`.', ['*'])
      .audited(),
    created_at: time().says('When it was added.', '2026-01-30T08:00:00.000Z'),
    verified_at: orNull(time()).says('When it was first verified; null for never.', '2026-01-31T09:30:02.481Z'),
    checked_at: orNull(time()).says(
      'When DNS was last asked. A record with an older `checked_at` got no answer then.',
      '2026-01-31T09:30:02.481Z',
    ),
    failing_since: orNull(time()).says(
      'Since when a required record has been missing or wrong; null if none is, or if the domain was never verified.',
    ),
    /** In the past once it has failed; null if no record is missing. */
    refused_at: orNull(time())
      .says(
        'From when on mail from it is refused. Of a `verified` domain it is the end of the countdown that began with `failing_since`.',
      )
      .audited(),
    /** The time when its people last got a mail about `failing_since`. */
    told_at: orNull(time()),
  },
  { isReferredTo: true },
);
export type DomainRow = RowOf<typeof domains>;

export const dkimKeys = table(
  {
    id: text(),
    domain_id: text(),
    selector: text().says('Name of the key in DNS, before `._domainkey`.', 'ph202601r'),
    algorithm: text<'rsa-sha256' | 'ed25519-sha256'>().says('How it signs.', 'rsa-sha256'),
    /** PKCS#8 PEM under AES-256-GCM (base/keyring.ts). */
    private_key_sealed: text(),
    /** SubjectPublicKeyInfo PEM. */
    public_key: text(),
    state: text('active', 'pending', 'retiring').says(
      '`pending` until DNS shows it; `retiring` after another has replaced it.',
    ),
    created_at: integer(),
    active_at: orNull(time()).says('Since when it signs, or when it began to.', '2026-01-31T09:30:02.481Z'),
    retired_at: orNull(integer()),
    removed_at: computed(orNull(time()).says('When a retiring key is removed: its DNS record has to stay until then.')),
  },
  { isReferredTo: true },
);
export type DkimKeyRow = RowOf<typeof dkimKeys>;
