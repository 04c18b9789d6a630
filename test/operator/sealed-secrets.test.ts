/** All nodes of a database need the same keys, also while nothing is sealed yet. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { KeyFileError, openKeyring } from '../../src/base/keyring.ts';
import { requireSharedKey } from '../../src/operator/sealed-secrets.ts';
import type { Database } from '../../src/storage/database.ts';
import { openTempDatabase } from '../support/harness/temp-database.ts';

const FILE = '/var/lib/posthorn/secret.key';
const line = (id: string): string => `${id} ${randomBytes(32).toString('base64url')}\n`;

describe('operator/sealed-secrets: the key that all nodes share', () => {
  let db: Database;
  let close: () => Promise<void>;
  const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-key-'));

  before(async () => {
    ({ db, close } = await openTempDatabase());
  });
  after(async () => {
    await close();
    rmSync(folder, { recursive: true });
  });

  const start = (text: string): Promise<void> => {
    writeFileSync(path.join(folder, 'secret.key'), text, { mode: 0o600 });
    return requireSharedKey({ commit: db.commit, keyring: openKeyring(folder) }, FILE);
  };
  const refused = (text: string): Promise<void> =>
    assert.rejects(
      start(text),
      (error) =>
        error instanceof KeyFileError &&
        /is not the file of the other nodes: they use the key \w+\. .*copy secret\.key/.test(error.message),
    );
  const [first, second, third] = [line('one'), line('two'), line('three')];

  it('lets the first node in, and others with the same file', async () => {
    await start(first);
    await start(first);
  });

  for (const [what, text] of [
    ['another key', second],
    ['the same id with other bytes', line('one')],
    ['another key, and a loss that is not ours', `${second}lost three\n`],
  ] as const)
    it(`refuses a node with ${what}, and keeps what it knows`, async () => {
      await refused(text);
      await start(first);
    });

  it('follows a newer key beside the old one: the old file is refused from then on', async () => {
    await start(`${first}${second}`);
    await refused(first);
    await start(second);
  });

  it('accepts another key where the file says that the shared one is lost', async () => {
    await refused(third);
    await start(`${third}lost two\n`);
    await start(third);
  });

  it('refuses every file where the row was damaged', async () => {
    await db.commit.transact((tx) => tx.run("UPDATE settings SET value = 'three' WHERE name = 'secret_key_proof'"));
    await refused(third);
  });
});
