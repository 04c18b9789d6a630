/**
 * Mails and texts of one thing over and over, a line end or an escape, that made the engine hold an object for each: a thread without memory
 * ends, and now and then the whole process with it. They are read and written in the process and the thread that do so, with a third of their memory.
 */
import assert from 'node:assert/strict';
import { systemClock } from '../../src/base/clock.ts';
import { createThreads } from '../../src/base/threads.ts';
import type { ReadApart } from '../../src/inbound/submission-worker.ts';
import type { MailAnswer, MailJob } from '../../src/mta/prepare/compose.ts';

const MEGABYTES = 8;
const HEAP_MB = 160;

const much = (piece: string): string => piece.repeat((MEGABYTES * 1024 * 1024) / piece.length);
const threadsOf = <Input, Output>(entry: string, confined?: { maxRssMb: number }) =>
  createThreads<Input, Output>(
    { clock: systemClock },
    {
      entry: new URL(`../../src/${entry}`, import.meta.url),
      count: 1,
      mostWaiting: 10,
      idleMs: 60_000,
      jobMs: 240_000,
      maxHeapMb: HEAP_MB,
      ...(confined === undefined ? {} : { confined }),
    },
  );

describe('mail: much of one kind', () => {
  const FROM = 'From: hi@acme.test\r\n';
  const LONG = `${'z'.repeat(1100)}\r\n`;
  const QUOTED = 'Content-Transfer-Encoding: quoted-printable\r\n\r\n';
  const PARTS = 'Content-Type: multipart/mixed; boundary=b\r\n\r\n';

  const reader = threadsOf<readonly Buffer[], ReadApart[]>('inbound/submission-worker.ts', { maxRssMb: 3 * HEAP_MB });
  const composer = threadsOf<readonly MailJob[], readonly MailAnswer[]>('mta/prepare/mail-worker.ts');
  after(() => Promise.all([reader.close(), composer.close()]));

  const composed = async (content: { html: string | null; text: string | null; raw?: Buffer }): Promise<string> => {
    const stored = { id: 'cnt_1', autoText: true, attachments: [], ...content };
    const [answer] = await composer.run([{ kind: 'compose', stored, sign: null }]);
    return answer?.kind ?? 'none';
  };

  for (const [what, mail, kind] of [
    ['escapes in one line', `${FROM}${QUOTED}${much('=41')}`, 'mail'],
    ['escaped line ends', `${FROM}${QUOTED}${LONG}${much('=0A')}`, 'mail'],
    ['empty lines', `${FROM}\r\n${LONG}${much('\r\n')}`, 'mail'],
    ['tabs', `${FROM}\r\n${much('\tx\r\n')}`, 'mail'],
    ['parts without anything in them', `${FROM}${PARTS}${LONG}${much('--b\r\n')}`, 'refused'],
  ] as const)
    it(`reads and sends a mail of ${what}`, async () => {
      const octets = Buffer.from(mail);
      const [answer] = await reader.run([octets]);
      assert.equal(answer?.mail.kind, kind);
      if (!('bodyAt' in answer)) return;
      const body = answer.bodyAt === null ? answer.mail.body : octets.subarray(answer.bodyAt);
      const raw = Buffer.concat([Buffer.from(`${answer.mail.head}\r\n`), body]);
      assert.equal(await composed({ html: null, text: null, raw }), 'composed');
    });

  for (const [what, text] of [
    ['empty lines', `ü${much('\n')}`],
    ['short lines', much('x\r\n')],
    ['equals signs', much('=\n')],
  ] as const)
    it(`writes a text of ${what}`, async () => {
      assert.equal(await composed({ html: null, text }), 'composed');
    });

  it('writes the text of a document of paragraphs', async () => {
    assert.equal(await composed({ html: much('<p>x'), text: null }), 'composed');
  });
});
