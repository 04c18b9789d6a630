/** The record of a received mail as a schema: in answers, and in `received` events. */
import { z } from 'zod';
import { receivedMembers } from '../messages/received/received-store.ts';
import { maybe, recordSchema, text, whole } from './record-schema.ts';

export const receivedId = () =>
  z
    .string()
    .regex(/^rcv_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    .describe('Id of the mail.');

const mailbox = z.object({
  email: text('The address.', 'ana@example.net'),
  name: maybe('The name before it.', 'Ana'),
});
const result = (values: string) => text(`One of ${values}.`, 'pass');
const domain = () => text('The domain that it is about.', 'example.net');

export const ReceivedMessage = recordSchema(
  receivedMembers,
  { id: 'ReceivedMessage', description: 'A mail that came to a domain that receives.' },
  {
    id: receivedId(),
    envelope: z.object({
      from: text('Sender; empty for the null sender.', 'ana@example.net'),
      to: z.array(z.string()).describe('Recipients at this domain.'),
    }),
    from: mailbox,
    to: z.array(mailbox),
    cc: z.array(mailbox),
    reply_to: z.array(mailbox),
    attachments: z.array(
      z.object({
        index: whole('Its place, from 0.'),
        filename: text('Its name; empty without one.', 'photo.jpg'),
        content_type: text('Media type, as the mail says.', 'image/jpeg'),
        size: whole('Bytes.', 48_213),
        content_id: maybe('What `cid:` in the html calls it.'),
      }),
    ),
    spf: z.object({
      result: result('pass, fail, softfail, neutral, none, permerror, temperror'),
      domain: domain(),
    }),
    dkim: z.array(
      z.object({
        result: result('pass, fail, temperror'),
        domain: domain(),
        selector: text('Name of the key in DNS, before `._domainkey`.', 's1'),
      }),
    ),
    dmarc: z.object({
      result: result('pass, fail, none, temperror'),
      domain: domain(),
      policy: maybe(
        'What the domain asks for if mail fails: none, quarantine or reject; null without a policy.',
        'reject',
      ),
    }),
  },
);
