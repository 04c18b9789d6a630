/** The keys in a backup, and the passphrase, which settings, credentials and files give with or without the white space around it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { openKeyring } from '../../src/base/keyring.ts';
import { openKeys, sealKeys } from '../../src/backup/key-part.ts';
import { openDatabase } from '../../src/storage/database.ts';
import { ran } from '../cli/ran.ts';

describe('the keys in a backup', () => {
  const plain = 'correct horse battery';
  const forms = [plain, `${plain} `, `  ${plain}`, `${plain}\n`, `\t${plain} \r\n`];

  for (const form of forms)
    it(`that were sealed under ${JSON.stringify(form)} open under the plain one`, async () => {
      const sealed = await sealKeys('the keys', form);
      assert.deepEqual(await openKeys(sealed, plain), { kind: 'opened', text: 'the keys' });
      assert.equal((await openKeys(sealed, `wrong ${form}`)).kind, 'wrong');
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
