/** The keys in a backup, and the passphrase, which settings, credentials and files give with or without the white space around it. */
import assert from 'node:assert/strict';
import { createCipheriv, randomBytes, scryptSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { openKeyring } from '../../src/base/keyring.ts';
import { openKeys, sealKeys } from '../../src/backup/key-part.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { ran } from '../cli/ran.ts';

/** The part as a version made it for which each character of the passphrase counted. */
function sealedBefore(text: string, passphrase: string): string {
  const [salt, nonce, N] = [randomBytes(16), randomBytes(12), 2 ** 14];
  const key = scryptSync(passphrase, salt, 32, { N, r: 8, p: 1, maxmem: 2 ** 26 });
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from('posthorn backup keys v1'));
  const data = Buffer.concat([cipher.update(text), cipher.final(), cipher.getAuthTag()]).toString('base64url');
  const kdf = { name: 'scrypt', N, r: 8, p: 1, salt: salt.toString('base64url') };
  return JSON.stringify({ format: 1, kdf, cipher: 'aes-256-gcm', nonce: nonce.toString('base64url'), data });
}

describe('the keys in a backup', () => {
  const plain = 'correct horse battery';
  const forms = [plain, `${plain} `, `  ${plain}`, `${plain}\n`, `\t${plain} \r\n`];

  for (const form of forms)
    it(`open under ${JSON.stringify(form)}, and what was made under it opens under each form`, async () => {
      const opened = { kind: 'opened', text: 'the keys' };
      assert.deepEqual(await openKeys(await sealKeys('the keys', form), plain), opened);
      assert.deepEqual(await openKeys(sealedBefore('the keys', plain), form), opened);
      assert.deepEqual(await openKeys(sealedBefore('the keys', form), form), opened);
      assert.equal((await openKeys(sealedBefore('the keys', plain), `wrong ${form}`)).kind, 'wrong');
    });

  it('open under the same file, whether a setting, a credential or the command line names it', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'ph-passphrase-'));
    try {
      const env = { POSTHORN_DATA_DIR: path.join(folder, 'data') };
      const db = await openDatabase({ url: `sqlite:${path.join(folder, 'data/posthorn.db')}` });
      await db.close();
      openKeyring(path.join(folder, 'data'));
      const file = path.join(folder, 'backup.passphrase');
      writeFileSync(file, ` ${plain} \n\n`);
      const ways = [
        { args: ['--passphrase-file', file], env },
        { args: [], env: { ...env, POSTHORN_BACKUP__PASSPHRASE_FILE: file } },
        { args: [], env: { ...env, CREDENTIALS_DIRECTORY: folder } },
      ];
      for (const [n, made] of ways.entries()) {
        const dir = path.join(folder, String(n));
        const created = await ran(['backup', 'create', dir, '--json', ...made.args], made.env);
        assert.equal(created.code, 0, created.notes);
        const { backup } = JSON.parse(created.out) as { backup: string };
        // Each guess costs half a second, so each way reads what one other made: then all have the same passphrase.
        const read = ways[(n + 1) % ways.length] ?? made;
        const verified = await ran(['backup', 'verify', backup, ...read.args], read.env);
        assert.match(verified.out, /the passphrase opens them/, verified.notes);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
