/** `posthorn domains receive`, `inbound simulate` and `received` against a running server. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { ran, type Ran } from './ran.ts';

const MAIL = [
  'From: Ana <ana@dest.test>',
  'Subject: A question',
  'Content-Type: multipart/mixed; boundary=b',
  '',
  '--b',
  '',
  'How large is it?',
  '--b',
  'Content-Disposition: attachment; filename=a.bin',
  'Content-Transfer-Encoding: base64',
  '',
  'AAEC',
  '--b--',
  '',
].join('\r\n');

describe('posthorn received', () => {
  let test: TestApp;
  let folder: string;
  before(async () => {
    test = await startTestApp();
    folder = mkdtempSync(path.join(os.tmpdir(), 'posthorn-received-'));
    writeFileSync(path.join(folder, 'question.eml'), MAIL);
  });
  after(async () => {
    await test.stop();
    rmSync(folder, { recursive: true });
  });
  const run = (...args: string[]): Promise<Ran> => ran(args, { POSTHORN_DATA_DIR: test.folder });
  const file = (name: string): string => path.join(folder, name);

  it('takes a mail from a file, shows it and saves it', async () => {
    const switched = await run('domains', 'receive', 'acme.test', '--addresses', 'support,reply+*');
    assert.match(switched.out, /^acme\.test takes mail to support, reply\+\*\n\n; mx \(optional\)/);
    assert.match(switched.notes, /^Publish the MX record\.$/, 'a trusted domain needs no check');

    const taken = await run('inbound', 'simulate', file('question.eml'), '--to', 'support@acme.test', '--json');
    assert.equal(taken.code, 0, taken.notes);
    const { id } = JSON.parse(taken.out) as { id: string };
    const shown = await run('received', 'show', id);
    assert.match(
      shown.out,
      /from +Ana <ana@dest\.test>\n.*subject +A question\n.*file 0 +a\.bin, 3 bytes\n\nHow large is it\?/s,
    );
    const listed = await run('received', 'list', '--from', 'ana@dest.test');
    assert.match(listed.out, new RegExp(`${id}  ana@dest\\.test  support@acme\\.test  A question`));

    assert.equal((await run('received', 'save', id, file('source.eml'))).code, 0);
    assert.equal(readFileSync(file('source.eml'), 'latin1'), MAIL);
    assert.equal((await run('received', 'save', id, file('a.bin'), '--attachment', '0')).code, 0);
    assert.deepEqual(readFileSync(file('a.bin')), Buffer.from([0, 1, 2]));
    const again = await run('received', 'save', id, file('a.bin'));
    assert.equal(again.code, 73, 'a file that is there stays as it is');
    assert.match(again.notes, /it exists already: take another name/);
    const none = await run('received', 'save', id, file('b.bin'), '--attachment', '5');
    assert.match(none.notes, /no such file: see its `attachments`/);
  });

  it('says why a mail was not taken', async () => {
    const refused = await run('inbound', 'simulate', file('question.eml'), '--to', 'nobody@acme.test');
    assert.deepEqual(
      [refused.code, refused.notes],
      [1, 'posthorn: it was not taken: 550 5.1.1 there is no such mailbox'],
    );
    assert.equal((await run('inbound', 'simulate', file('none.eml'), '--to', 'support@acme.test')).code, 66);
    assert.equal((await run('domains', 'receive', 'acme.test', '--off')).out, 'acme.test takes no mail');
    const off = await run('inbound', 'simulate', file('question.eml'), '--to', 'support@acme.test');
    assert.match(off.notes, /550 5\.7\.1/);
  });
});
