/** The schema of a sending domain in answers. */
import { z } from 'zod';
import { dkimMembers, domainMembers } from '../domains/domain-record.ts';
import { formsOf } from '../domains/record-forms.ts';
import { mistakes } from '../domains/record-mistakes.ts';
import { flag, maybe, maybeTime, maybeWhole, recordSchema, shows, text, texts } from './record-schema.ts';

const CHECKED = '2026-01-31T09:30:02.481Z';

const dnsRecord = z.object({
  purpose: z
    .enum(['dkim', 'spf', 'return_path', 'dmarc', 'dmarc_consent', 'tracking', 'mx'])
    .describe(
      'What the record is for. `dmarc_consent` is at the host of this server that gets the DMARC reports, if that belongs to another organization. `mx` brings mail to a domain that receives.',
    ),
  type: text('Type of the DNS record.'),
  host: text('Name of the DNS record.'),
  value: text('What the record must say.'),
  required: flag('Whether the domain can be verified without it.'),
  forms: z
    .object({
      name: text('The host without the registered domain, as many web forms want it; `@` for the domain itself.'),
      quoted: maybe('The value of a TXT record as quoted strings of at most 255 bytes; null for other types.'),
      zone_line: text('The record as a line of a zone file.'),
      priority: maybeWhole('The number of an MX record; null for other types.'),
      target: maybe('The host that an MX record or an alias leads to; null for TXT.'),
    })
    .describe('The record as the forms of DNS providers take it.'),
  status: z.enum(['ok', 'missing', 'wrong']).describe('What the last check found.'),
  found: maybe('What DNS answered at the last check.'),
  mistake: z
    .enum(mistakes)
    .nullable()
    .describe('How the record went wrong, if that was recognised. There may be more values in the future.'),
  cure: maybe('What to do about it, in whole sentences; null if it is right or was never looked up.'),
  checked_at: maybeTime('When it was last looked up.'),
});

function published(purpose: 'return_path' | 'spf', type: 'MX' | 'TXT', value: string): z.output<typeof dnsRecord> {
  const record = { host: 'rp.acme.example', type, value };
  const found = { status: 'ok', found: value, mistake: null, cure: null, checked_at: CHECKED } as const;
  return { purpose, type, host: record.host, value, required: true, forms: formsOf(record), ...found };
}

export const Domain = recordSchema(
  domainMembers,
  { id: 'Domain', description: 'A sending domain and the DNS records it needs.' },
  {
    records: shows(z.array(dnsRecord), [
      published('return_path', 'MX', '10 mail.posthorn.example'),
      published('spf', 'TXT', 'v=spf1 a:mail.posthorn.example ~all'),
    ]),
    dkim: z.array(recordSchema(dkimMembers)),
    notes: texts('Remarks on its state, in whole sentences.'),
  },
);
