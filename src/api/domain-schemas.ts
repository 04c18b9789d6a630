/** The schema of a sending domain in answers, and an example of one. */
import { z } from 'zod';
import { formsOf } from '../domains/record-forms.ts';
import { mistakes } from '../domains/record-mistakes.ts';

const nullableTime = () => z.iso.datetime().nullable();

export const Domain = z
  .object({
    object: z.literal('domain'),
    id: z.string().describe('Id of the domain.'),
    name: z.string().describe('The domain behind the `@` of the senders.'),
    status: z
      .enum(['pending', 'verified', 'failed'])
      .describe('Mail is accepted only from a `verified` domain, also while `failing_since` is set.'),
    taken: z
      .boolean()
      .describe(
        'Another account of this server has verified this name. This one can be verified only after the other is removed.',
      ),
    records: z
      .array(
        z.object({
          purpose: z
            .enum(['dkim', 'spf', 'return_path', 'dmarc', 'dmarc_consent', 'tracking', 'mx'])
            .describe(
              'What the record is for. `dmarc_consent` is at the host of this server that gets the DMARC reports, where that belongs to another organization; there is no `mx` at present.',
            ),
          type: z.string().describe('Type of the DNS record.'),
          host: z.string().describe('Name of the DNS record.'),
          value: z.string().describe('What the record must say.'),
          required: z.boolean().describe('Whether the domain can be verified without it.'),
          forms: z
            .object({
              name: z
                .string()
                .describe(
                  'The host without the registered domain, as many web forms want it; `@` for the domain itself.',
                ),
              quoted: z
                .string()
                .nullable()
                .describe('The value of a TXT record as quoted strings of at most 255 bytes; null for other types.'),
              zone_line: z.string().describe('The record as a line of a zone file.'),
              priority: z.int().nullable().describe('The number of an MX record; null for other types.'),
              target: z.string().nullable().describe('The host that an MX record or an alias leads to; null for TXT.'),
            })
            .describe('The record as the forms of DNS providers take it.'),
          status: z.enum(['ok', 'missing', 'wrong']).describe('What the last check found.'),
          found: z.string().nullable().describe('What DNS answered at the last check.'),
          mistake: z
            .enum(mistakes)
            .nullable()
            .describe('How the record went wrong, where that was recognised. There may be more values in the future.'),
          cure: z
            .string()
            .nullable()
            .describe('What to do about it, in whole sentences; null where it is right or was never looked up.'),
          checked_at: nullableTime().describe('When it was last looked up.'),
        }),
      )
      .describe('The DNS records to publish, ready to paste.'),
    trusted: z
      .boolean()
      .describe('An operator vouched for it: it is verified whatever DNS says, and its records are not checked.'),
    dkim: z
      .array(
        z.object({
          selector: z.string().describe('Name of the key in DNS, before `._domainkey`.'),
          algorithm: z.string().describe('How it signs.'),
          state: z
            .enum(['active', 'pending', 'retiring'])
            .describe('`pending` until DNS shows it; `retiring` after another has replaced it.'),
          active_at: nullableTime().describe('Since when it signs, or when it began to.'),
          removed_at: nullableTime().describe('When a retiring key is removed: its DNS record has to stay until then.'),
        }),
      )
      .describe('Keys that sign mail from it, the oldest first.'),
    return_path: z.string().describe('Host that bounces go to.'),
    track_opens: z
      .boolean()
      .nullable()
      .describe('Whether opens are counted; null: the setting of the account applies.'),
    track_clicks: z
      .boolean()
      .nullable()
      .describe('Whether clicks are counted; null: the setting of the account applies.'),
    created_at: z.iso.datetime().describe('When it was added.'),
    verified_at: nullableTime().describe('When it was first verified; null for never.'),
    checked_at: nullableTime().describe(
      'When DNS was last asked. A record with an older `checked_at` got no answer then.',
    ),
    failing_since: nullableTime().describe(
      'Since when a required record has been missing or wrong; null where none is, or where the domain was never verified.',
    ),
    refused_at: nullableTime().describe(
      'From when on mail from it is refused. Of a `verified` domain it is the end of the countdown that began with `failing_since`.',
    ),
    notes: z.array(z.string()).describe('Remarks on its state, in whole sentences.'),
  })
  .meta({ id: 'Domain', description: 'A sending domain and the DNS records it needs.' });

export const domainSample: z.output<typeof Domain> = {
  object: 'domain',
  id: 'dom_01jz5w8q3hf2m9d4x6k7c1b0na',
  name: 'acme.example',
  status: 'verified',
  taken: false,
  records: [
    {
      purpose: 'return_path',
      type: 'MX',
      host: 'rp.acme.example',
      value: '10 mail.posthorn.example',
      required: true,
      forms: formsOf({ host: 'rp.acme.example', type: 'MX', value: '10 mail.posthorn.example' }),
      status: 'ok',
      found: '10 mail.posthorn.example',
      mistake: null,
      cure: null,
      checked_at: '2026-01-31T09:30:02.481Z',
    },
    {
      purpose: 'spf',
      type: 'TXT',
      host: 'rp.acme.example',
      value: 'v=spf1 a:mail.posthorn.example ~all',
      required: true,
      forms: formsOf({ host: 'rp.acme.example', type: 'TXT', value: 'v=spf1 a:mail.posthorn.example ~all' }),
      status: 'ok',
      found: 'v=spf1 a:mail.posthorn.example ~all',
      mistake: null,
      cure: null,
      checked_at: '2026-01-31T09:30:02.481Z',
    },
  ],
  trusted: false,
  dkim: [
    {
      selector: 'ph202601r',
      algorithm: 'rsa-sha256',
      state: 'active',
      active_at: '2026-01-31T09:30:02.481Z',
      removed_at: null,
    },
  ],
  return_path: 'rp.acme.example',
  track_opens: null,
  track_clicks: null,
  created_at: '2026-01-30T08:00:00.000Z',
  verified_at: '2026-01-31T09:30:02.481Z',
  checked_at: '2026-01-31T09:30:02.481Z',
  failing_since: null,
  refused_at: null,
  notes: [],
};
