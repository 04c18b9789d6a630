/** Lists of addresses as services export them, with their headings, their words for reasons and their encodings. */
import assert from 'node:assert/strict';
import { decodedText, readExport, importCsv } from '../../src/suppressions/suppression-csv.ts';

async function read(text: string | Buffer, reason: 'manual' | 'complaint' = 'manual', size = 7): Promise<string[]> {
  const bytes = Buffer.from(text);
  async function* pieces(): AsyncGenerator<Buffer> {
    await Promise.resolve();
    // The encoding is told by the first two bytes, which come together.
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }
  const lines: string[] = [];
  for await (const entries of readExport(decodedText(pieces()), { reason, stream: null }))
    for (const one of entries)
      lines.push(
        'entry' in one
          ? [one.entry.email, one.entry.reason, ...(one.entry.note === null ? [] : [one.entry.note])].join(' | ')
          : `line ${String(one.line)}: ${one.why}`,
      );
  return lines;
}

const utf16 = (text: string): Buffer => Buffer.from(`\ufeff${text}`, 'utf16le');

const cases: readonly (readonly [name: string, text: string | Buffer, entries: readonly string[]])[] = [
  [
    'bounces of SendGrid: prose is the note',
    'status,reason,email,created\n5.1.1,"550 5.1.1 <ana@x.test>: no such user",ana@x.test,1700000000\n',
    ['ana@x.test | hard_bounce | 550 5.1.1 <ana@x.test>: no such user'],
  ],
  [
    'spam reports of SendGrid: no word says so, but the headings',
    'ip,email,created\n192.0.2.1,ana@x.test,1\n',
    ['ana@x.test | complaint'],
  ],
  [
    'JSON of SendGrid',
    '[{"created":1,"email":"ana@x.test","reason":"550 unknown","status":"5.1.1"}]',
    ['ana@x.test | hard_bounce | 550 unknown'],
  ],
  [
    'CSV of Postmark',
    'EmailAddress,SuppressionReason,Origin,CreatedAt\nana@x.test,HardBounce,Recipient,2026\nbo@x.test,SpamComplaint,Recipient,2026\ncy@x.test,ManualSuppression,Customer,2026\n',
    ['ana@x.test | hard_bounce', 'bo@x.test | complaint', 'cy@x.test | manual'],
  ],
  [
    'the dump of Postmark',
    '{"Suppressions":[{"EmailAddress":"bo@x.test","SuppressionReason":"SpamComplaint","Origin":"Recipient","CreatedAt":"2026"}]}',
    ['bo@x.test | complaint'],
  ],
  [
    'the command line of SES',
    '{"SuppressedDestinationSummaries":[{"EmailAddress":"ana@x.test","Reason":"BOUNCE","LastUpdateTime":1},{"EmailAddress":"bo@x.test","Reason":"COMPLAINT"}],"NextToken":"x"}',
    ['ana@x.test | hard_bounce', 'bo@x.test | complaint'],
  ],
  [
    'SES in CSV',
    'Email address,Suppression reason,Last update time\nana@x.test,Complaint,2026\n',
    ['ana@x.test | complaint'],
  ],
  [
    'bounces of Mailgun',
    'address,code,error,created_at\nana@x.test,550,no such user,2026\n',
    ['ana@x.test | hard_bounce | no such user'],
  ],
  ['complaints of Mailgun', 'address,count,created_at\nana@x.test,1,2026\n', ['ana@x.test | complaint']],
  [
    'unsubscribes of Mailgun',
    '{"items":[{"address":"ana@x.test","tags":["*"],"created_at":"2026"}],"paging":{}}',
    ['ana@x.test | unsubscribe'],
  ],
  [
    'JSON of Brevo: the reason is an object',
    '{"contacts":[{"email":"ana@x.test","reason":{"code":"hardBounce","message":"no such user"},"blockedAt":"2026"},{"email":"bo@x.test","reason":{"code":"contactFlaggedAsSpam","message":""}}]}',
    ['ana@x.test | hard_bounce | no such user', 'bo@x.test | complaint'],
  ],
  [
    'CSV of Brevo',
    'EMAIL;REASON\nana@x.test;unsubscribedViaEmail\nbo@x.test;adminBlocked\n',
    ['ana@x.test | unsubscribe', 'bo@x.test | manual'],
  ],
  [
    'Mailchimp Transactional',
    'Email,Reason,Detail,Created At,Expires At,Expired\nana@x.test,hard-bounce,550 unknown,2026,,false\nbo@x.test,spam,,2026,,no\ncy@x.test,unsub,,2026,,no\ndi@x.test,soft-bounce,,2025,2025-02-01,true\n',
    [
      'ana@x.test | hard_bounce | 550 unknown',
      'bo@x.test | complaint',
      'cy@x.test | unsubscribe',
      'line 5: it has ended already',
    ],
  ],
  [
    'Resend',
    '{"object":"list","data":[{"id":"1","email":"ana@x.test","origin":"complaint"}]}',
    ['ana@x.test | complaint'],
  ],
  ['UTF-16 of a spreadsheet', utf16('Email Address\tReason\nana@x.test\tspam\n'), ['ana@x.test | complaint']],
  ['UTF-16 without a mark', Buffer.from('email\nana@x.test\n', 'utf16le'), ['ana@x.test | manual']],
  [
    'an object a line',
    '{"email":"ana@x.test","reason":"Unsubscribed"}\n{"email":"bo@x.test"}\n',
    ['ana@x.test | unsubscribe', 'bo@x.test | manual'],
  ],
  ['a list of texts', '["ana@x.test","bo@x.test"]', ['ana@x.test | manual', 'bo@x.test | manual']],
  [
    'addresses alone',
    '\ufeffana@x.test\n\nbo@x.test, cy@x.test\n',
    ['ana@x.test | manual', 'bo@x.test | manual', 'cy@x.test | manual'],
  ],
  [
    'headings with other separators',
    '"E-Mail_Address"," Bounce-Type"\nana@x.test,Permanent\n',
    ['ana@x.test | hard_bounce'],
  ],
  [
    'a word that is no reason',
    'email,reason\nana@x.test,banana\n',
    ['line 2: there is no reason "banana": hard_bounce, complaint, unsubscribe, manual'],
  ],
  [
    'our own export',
    'id,email,reason,scope,source_message_id,note,created_at,created_by,expires_at\nsup_1,ana@x.test,complaint,account,,said so,2026,key,\n',
    ['ana@x.test | complaint | said so'],
  ],
];

describe('suppressions/suppression-export', () => {
  for (const [name, text, entries] of cases)
    it(name, async () => {
      assert.deepEqual(await read(text), entries);
      assert.deepEqual(await read(text, 'manual', 1 << 20), entries, 'in one piece');
    });

  it('takes the reason that is given for a file that says none', async () => {
    assert.deepEqual(await read('email,created\nana@x.test,1\n', 'complaint'), ['ana@x.test | complaint']);
  });

  it('refuses what is no list', async () => {
    await assert.rejects(read('{"error":"unauthorized"}'), /neither CSV nor a list in JSON/);
    await assert.rejects(read('[{"email":'), /neither CSV nor a list in JSON/);
  });

  it('says in a preview what would be read, and adds nothing', async () => {
    const {
      created,
      by_reason: counts,
      rejected,
    } = await importCsv(['email,reason\nana@x.test,spam\nnobody,bounce\n'], {
      reason: 'manual',
      stream: null,
      add: null,
    });
    assert.deepEqual([created, counts, rejected.map(({ line }) => line)], [1, { complaint: 1 }, [3]]);
  });
});
