/** Mails as people see them, the hostile ones among them: what takes too long is given up, and the next one is read. */
import assert from 'node:assert/strict';
import { systemClock } from '../../../src/base/clock.ts';
import { createMailViewer, type MailViewer } from '../../../src/messages/store/mail-viewer.ts';

describe('mail viewer', () => {
  let viewer: MailViewer;
  before(() => {
    viewer = createMailViewer({ clock: systemClock });
  });
  after(() => viewer.close());

  const view = (mail: string) => viewer.view(Buffer.from(mail));

  it('gives text, html and files, and leaves cid links alone', async () => {
    const seen = await view(
      'From: "A, B" <a@b.test>\r\nTo: c@d.test, e@f.test\r\nSubject: =?utf-8?b?w6Q=?=\r\nContent-Type: multipart/related; boundary=x\r\n\r\n--x\r\nContent-Type: text/html; charset=iso-8859-1\r\n\r\n<img src="cid:1">\r\n--x\r\nContent-Type: image/png\r\nContent-Id: <1>\r\nContent-Disposition: inline\r\n\r\nabc\r\n--x--\r\n',
    );
    assert.deepEqual(seen, {
      subject: 'ä',
      from: '"A, B" <a@b.test>',
      to: 'c@d.test, e@f.test',
      cc: '',
      date: null,
      text: null,
      html: '<img src="cid:1">',
      attachments: [{ filename: '', content_type: 'image/png', content_id: '1', disposition: 'inline', size: 3 }],
    });
  });

  it('reads a mail without a header, and one without anything', async () => {
    assert.equal((await view('\r\nhi'))?.text?.trimEnd(), 'hi');
    assert.equal((await view(''))?.text, null);
  });

  it('gives up what has too many parts or too large a header, and reads the next mail', async () => {
    assert.equal(await view(`Content-Type: multipart/mixed; boundary=b\n\n${'--b\n\nhi\n'.repeat(1001)}--b--`), null);
    assert.equal(await view(`X: ${'a'.repeat(2_000_000)}\n\nhi`), null);
    assert.equal(await viewer.view(new Uint8Array(51 * 1024 * 1024)), null);
    assert.equal((await view('Subject: x\n\nhi'))?.subject, 'x');
  });

  it('makes no text of html, which takes a minute for deep html', async () => {
    const html = '<div>'.repeat(400_000);
    assert.deepEqual(await view(`Content-Type: text/html\n\n${html}`).then((seen) => [seen?.text, seen?.html]), [
      null,
      html,
    ]);
  });
});
